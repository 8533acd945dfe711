"""Grain: texts are tokenised by tokenizers in its read threads and packed by best fit."""

import collections
import importlib.metadata

import grain
import numpy as np
import textpeer
import texttokenizers

check = textpeer.check


def versions():
    return {"grain": importlib.metadata.version("grain"), **texttokenizers.versions()}


class Split(grain.experimental.FlatMapTransform):
    """Parts of a document that is longer than a pack, which the packing refuses."""

    max_fan_out = 1 << 16

    def __init__(self, length):
        self.length = length

    def flat_map(self, ids):
        return [{"input_ids": ids[start : start + self.length]} for start in range(0, len(ids), self.length)]


def build(config):
    encode, length = texttokenizers.encoder(config["tokenizer"]), config["length"]
    texts = grain.MapDataset.source(list(textpeer.texts(config))).shuffle(seed=7)
    ids = texts.map(lambda text: np.asarray(encode([text])[0], np.int32))
    documents = ids.to_iter_dataset(grain.ReadOptions(num_threads=config["workers"]))
    parts = grain.experimental.FlatMapIterDataset(documents, Split(length))
    packs = grain.experimental.BestFitPackIterDataset(parts, length_struct={"input_ids": length}, num_packing_bins=64)
    return packs.batch(config["rows"])


def batches(loader):
    for batch in loader:
        yield batch["input_ids"], collections.Counter(slots=batch["input_ids"].size)


def digest(loader):
    return textpeer.digest([batch["input_ids"][batch["input_ids_segment_ids"] > 0]] for batch in loader)
