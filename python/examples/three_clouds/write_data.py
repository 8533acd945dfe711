"""Writes a data set of tokens for `train.py`, instead of your own data: `python write_data.py s3://bucket/tokens`."""

from __future__ import annotations

import sys

import numpy as np
from train import LENGTH, TOKENS

import forebay as fb

SAMPLES, SHARD_BYTES = 192, 1220
"""A shard has 12 samples."""


def write(out: str) -> None:
    """Writes sequences that count on from a first token in steps of 1 to 4."""
    columns = {"tokens": f"ndarray:uint16:{LENGTH}", "id": "int"}
    with fb.MDSWriter(out=out, columns=columns, size_limit=SHARD_BYTES, hashes=["xxh64"]) as writer:
        for number in range(SAMPLES):
            tokens = (number + np.arange(LENGTH) * (1 + number % 4)) % TOKENS
            writer.write({"tokens": tokens.astype(np.uint16), "id": number})


if __name__ == "__main__":
    write(sys.argv[1])
