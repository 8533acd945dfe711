"""Lookup of a sample's shard."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._originals import Originals

__all__ = ["Spanner"]


class Spanner:
    """Maps an index in the data set to a shard and an index in it.

    Args:
        shard_sizes: Samples of each shard, int64.
        span_size: For compatibility: the lookup is a binary search over the shards and needs no spans.
    """

    def __init__(self, shard_sizes: NDArray[np.int64], span_size: int = 1 << 10) -> None:
        self.shard_sizes = shard_sizes
        self.span_size = span_size
        self.shard_bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(shard_sizes, dtype=np.int64)])
        self.num_samples = int(self.shard_bounds[-1])

    def __getitem__(self, index: int) -> tuple[int, int]:
        """Returns the shard of sample `index`, and the sample's index in it.

        Raises:
            IndexError: There is no such sample.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"Invalid sample index `{index}`: 0 <= {index} < {self.num_samples}")
        # An empty shard has the same start as the next one; the last shard with that start has the sample.
        shard = int(self.shard_bounds.searchsorted(index, "right")) - 1
        return shard, int(index - self.shard_bounds[shard])


LOOKUP = Originals(Spanner, "__getitem__")
"""The lookup that the engine repeats."""
