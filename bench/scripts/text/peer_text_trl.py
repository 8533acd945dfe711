"""Hugging Face datasets and TRL: texts are tokenised and packed beforehand by processes, and a DataLoader reads the packs."""

import collections
import importlib.metadata
import os

import datasets
import numpy as np
import textpeer
import texttokenizers
from torch.utils.data import DataLoader
from trl import pack_dataset

check = textpeer.check


def versions():
    return {"datasets": datasets.__version__, "trl": importlib.metadata.version("trl"), **texttokenizers.versions()}


def build(config):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    encode, workers = texttokenizers.encoder(config["tokenizer"]), config["workers"]
    files = {"train": textpeer.files(config)}
    texts = datasets.load_dataset("json", data_files=files, split="train", cache_dir=config["scratch"])
    # Without a fingerprint the library tries to hash the tokenizer.
    options = {"batched": True, "num_proc": workers, "remove_columns": ["text"], "new_fingerprint": "ids"}
    ids = texts.map(lambda batch: {"input_ids": encode(batch["text"])}, **options)
    packs = pack_dataset(ids, config["length"], "bfd_split", map_kwargs={"num_proc": workers})
    return config, DataLoader(packs.with_format("numpy"), batch_size=config["rows"], collate_fn=collate, num_workers=workers)


def collate(packs):
    """One row of all tokens, and the lengths of its packs, as for models with FlashAttention."""
    return np.concatenate([pack["input_ids"] for pack in packs]), [len(pack["input_ids"]) for pack in packs]


def batches(loader):
    config, loader = loader
    for ids, lengths in loader:
        yield textpeer.Flat(ids, lengths), collections.Counter(slots=len(lengths) * config["length"])


def digest(loader):
    return textpeer.digest([x.ids] for x, _ in batches(loader))
