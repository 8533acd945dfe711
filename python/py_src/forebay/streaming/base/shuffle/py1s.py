"""Shuffle of shards, then of the samples within each shard's part of a canonical node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .... import _forebay
from .._arrays import int64s, numbers

__all__ = ["divide_spans", "get_shuffle_py1s"]


def divide_spans(
    spans: list[tuple[int, int]], num_samples: int, num_parts: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Divides spans of samples into parts of equal length, for shuffles that a program adds.

    Args:
        spans: First and last sample of each span, the end exclusive.
        num_samples: Samples of all spans.
        num_parts: Number of parts. A span across the end of a part is divided.

    Returns:
        The divided spans, and the range of them that each part has.
    """
    divided = []
    parts = []
    rest = list(reversed(spans))
    taken = 0
    for part in range(num_parts):
        begin, end = len(divided), num_samples * (part + 1) // num_parts
        while rest:
            first, last = rest.pop()
            cut = first + end - taken
            if last <= cut:
                divided.append((first, last))
                taken += last - first
                continue
            if first < cut:
                divided.append((first, cut))
                taken = end
            rest.append((max(first, cut), last))
            break
        parts.append((begin, len(divided)))
    return divided, parts


def get_shuffle_py1s(
    shard_sizes: NDArray[np.int64], num_canonical_nodes: int, seed: int, epoch: int, block_size: int = 1 << 18
) -> NDArray[np.int64]:
    """As `get_shuffle`, with the algorithm `py1s`."""
    draws = _forebay.shuffle("py1s", numbers(shard_sizes), num_canonical_nodes, seed, epoch, block_size)
    return int64s(draws)
