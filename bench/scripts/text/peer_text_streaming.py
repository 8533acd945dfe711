"""MosaicML streaming with texts in MDS, tokenised and concatenated in workers as llm-foundry's ConcatTokensDataset does it.

A row begins where the last one ends. The last tokens of a worker are a short row; llm-foundry drops them.
"""

import collections
import importlib.metadata
import os

import numpy as np
import streaming
import textpeer
import texttokenizers
from torch.utils.data import DataLoader

check = textpeer.check


def versions():
    return {"mosaicml-streaming": importlib.metadata.version("mosaicml-streaming"), **texttokenizers.versions()}


def convert(config):
    with streaming.MDSWriter(out=config["mds"], columns={"text": "str"}) as writer:
        for text in textpeer.texts(config):
            writer.write({"text": text})


class Rows(streaming.StreamingDataset):
    """Rows of one length, of all documents of a worker."""

    def __init__(self, config):
        super().__init__(local=config["mds"], shuffle=True, batch_size=config["rows"])
        self.encode, self.tokens = texttokenizers.encoder(config["tokenizer"]), config["length"]

    def __iter__(self):
        left = []
        for sample in super().__iter__():
            left += self.encode([sample["text"]])[0]
            while len(left) >= self.tokens:
                yield np.asarray(left[: self.tokens], np.int64)
                left = left[self.tokens :]
        if left:
            yield np.asarray(left, np.int64)


def build(config):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    rows = Rows(config)
    options = {"num_workers": config["workers"], "persistent_workers": True}
    return config["length"], DataLoader(rows, batch_size=config["rows"], collate_fn=collate, **options)


def collate(rows):
    return np.concatenate(rows), [len(row) for row in rows]


def batches(loader):
    length, loader = loader
    for ids, lengths in loader:
        yield textpeer.Flat(ids, lengths), collections.Counter(slots=len(lengths) * length)


def digest(loader):
    return textpeer.digest([x.ids] for x, _ in batches(loader))
