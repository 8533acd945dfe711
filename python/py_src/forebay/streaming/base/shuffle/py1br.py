"""Shuffle of shards, then of the samples within blocks of varying size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .... import _forebay
from .._arrays import int64s, numbers
from .py1s import divide_spans as divide_spans

__all__ = ["get_shuffle_py1br"]


def get_shuffle_py1br(
    shard_sizes: NDArray[np.int64], num_canonical_nodes: int, seed: int, epoch: int, block_size: int = 1 << 18
) -> NDArray[np.int64]:
    """As `get_shuffle`, with the algorithm `py1br`."""
    draws = _forebay.shuffle("py1br", numbers(shard_sizes), num_canonical_nodes, seed, epoch, block_size)
    return int64s(draws)
