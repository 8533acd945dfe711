"""gigatoken: all files by `encode_files`, which returns when all of them are encoded."""

import importlib.metadata

import gigatoken
import numpy as np
import textpeer

check = textpeer.check


def versions():
    return {"gigatoken": importlib.metadata.version("gigatoken")}


def build(config):
    return gigatoken.Tokenizer(config["tokenizer"]), gigatoken.JsonlFileSource(textpeer.files(config))


def batches(loader):
    tokenizer, source = loader
    ids = tokenizer.encode_files(source)
    yield ids, None


def digest(loader):
    return textpeer.digest((np.asarray(document) for document in ids) for ids, _ in batches(loader))
