"""tokenizers of Hugging Face, any version: `encode_batch` in this process, or in the workers of a DataLoader."""

import os

import numpy as np
import textpeer
import tokenizers
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

IS_NEW = not tokenizers.__version__.startswith("0.")


def versions():
    return {f"tokenizers {tokenizers.__version__.split('.')[0]}": tokenizers.__version__, "torch": torch.__version__}


def encoder(path):
    """Returns a function of texts that returns their ids."""
    tokenizer = tokenizers.Tokenizer.from_file(path)
    if IS_NEW:
        options = {"add_special_tokens": False, "encode_special_tokens": True, "padding": None, "truncation": None}
        return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch(texts, **options)]
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True
    return lambda texts: [encoding.ids for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


class Documents(IterableDataset):
    """Batches of ids, made by the worker."""

    def __init__(self, config):
        self.config, self.encode = config, encoder(config["tokenizer"])

    def __iter__(self):
        worker = get_worker_info()
        for texts in textpeer.groups(textpeer.texts(self.config, worker.id, worker.num_workers), self.config["batch"]):
            ids = self.encode(texts)
            yield torch.from_numpy(np.concatenate(ids)), torch.tensor([len(document) for document in ids])


def build(config):
    if config["way"] == "batch":
        return config, encoder(config["tokenizer"])
    # A worker has one CPU.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return DataLoader(Documents(config), batch_size=None, num_workers=config["workers"], persistent_workers=True)


def batches(loader):
    if isinstance(loader, DataLoader):
        for ids, lengths in loader:
            yield textpeer.Flat(ids, lengths), None
    else:
        config, encode = loader
        for texts in textpeer.groups(textpeer.texts(config), config["batch"]):
            yield encode(texts), None


def digest(loader):
    return textpeer.digest(x.documents() if isinstance(x, textpeer.Flat) else x for x, _ in batches(loader))
