"""Texts, batches of ids and their digests, for the peers of `forebay-bench text`."""

import glob
import itertools
import json
import os
import zlib

import numpy as np


class Flat:
    """Ids of several documents, or of rows of packs, in one array."""

    def __init__(self, ids, lengths):
        self.ids, self.lengths = ids, lengths

    def __len__(self):
        return len(self.lengths)

    def documents(self):
        return np.split(np.asarray(self.ids), np.cumsum(np.asarray(self.lengths))[:-1])


def files(config):
    """The files of texts: a document in each line."""
    return sorted(glob.glob(os.path.join(config["jsonl"], "*.jsonl")))


def texts(config, part=0, parts=1):
    """Texts of every file, or of every `parts`-th one from `part` on."""
    for path in files(config)[part::parts]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)["text"]


def groups(values, size):
    """Lists of `size` values."""
    values = iter(values)
    while group := list(itertools.islice(values, size)):
        yield group


def check(config, x):
    """The facts of a first batch that the protocol needs."""
    return {"shape": [len(x)], "dtype": "ids", "mean": 0.0}


def digest(batches):
    """Number and digests of all ids, which do not depend on the order of documents.

    `documents` differs if an id or a document's end is different; `ids` does not depend on the ends, so packs have it as well.
    """
    count = documents = ids = 0
    for batch in batches:
        for document in batch:
            document = np.ascontiguousarray(document, np.uint32)
            count += len(document)
            documents += zlib.crc32(document.tobytes()) + len(document)
            mixed = (document.astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
            ids += int((mixed ^ (mixed >> np.uint64(29))).sum(dtype=np.uint64))
    return {"tokens": count, "documents": documents, "ids": ids % 2**64}
