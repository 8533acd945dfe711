"""Number of samples of each shard in an epoch of up- or downsampled streams."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ... import _forebay
from ._arrays import int64s, numbers

__all__ = ["get_sampling"]


def get_sampling(
    samples_per_shard: NDArray[np.int64], choose: int, granularity: int, seed: int, epoch: int, use_epoch: bool
) -> NDArray[np.int64]:
    """Returns the samples to take from each shard.

    Args:
        samples_per_shard: Samples of each shard.
        choose: Samples to take of all shards together.
        granularity: Samples taken at a time from one shard.
        seed: Seed of the choice.
        epoch: The epoch, from 0.
        use_epoch: Choose again in each epoch.

    Returns:
        int64 of shape (shards,). The sum is `choose`.

    Raises:
        ValueError: An argument is negative, or there are no samples.
    """
    if granularity <= 0:
        raise ValueError(f"`granularity` must be a positive integer, but got: {granularity}.")
    for name, value in (("choose", choose), ("seed", seed), ("epoch", epoch)):
        if value < 0:
            raise ValueError(f"`{name}` must be a non-negative integer, but got: {value}.")
    sizes = numbers(samples_per_shard)
    return int64s(_forebay.sample_shards(sizes, choose, granularity, seed, epoch if use_epoch else 0))
