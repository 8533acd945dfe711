"""Order of an epoch's samples.

Every algorithm except `naive` first distributes shards to the canonical nodes, in the same way in each epoch. They
differ in the distance that a sample moves from its shard: zero (`py1s`, `py2s`), within blocks (`py1br`), or within a
its own window (`py1e`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .naive import get_shuffle_naive
from .py1br import get_shuffle_py1br
from .py1e import get_shuffle_py1e
from .py1s import get_shuffle_py1s
from .py2s import get_shuffle_py2s

__all__ = [
    "algos",
    "get_shuffle",
    "get_shuffle_naive",
    "get_shuffle_py1br",
    "get_shuffle_py1e",
    "get_shuffle_py1s",
    "get_shuffle_py2s",
]

algos: dict[str, Callable[..., NDArray[np.int64]]] = {
    "py1br": get_shuffle_py1br,
    "py1e": get_shuffle_py1e,
    "py1s": get_shuffle_py1s,
    "py2s": get_shuffle_py2s,
    "naive": get_shuffle_naive,
}
"""Functions by name."""


def get_shuffle(
    algo: str,
    shard_sizes: NDArray[np.int64],
    num_canonical_nodes: int,
    seed: int,
    epoch: int,
    block_size: int = 1 << 18,
) -> NDArray[np.int64]:
    """Returns the sample at each position of the shuffled epoch.

    Args:
        algo: "naive", "py1s", "py2s", "py1br" or "py1e".
        shard_sizes: Samples of each shard.
        num_canonical_nodes: Parts of the epoch.
        seed: The run's seed.
        epoch: The epoch, from 0.
        block_size: Samples of a shuffle block, for the algorithms that have blocks.

    Returns:
        int64 of shape (samples of all shards,): each sample id once.

    Raises:
        KeyError: There is no such algorithm.
        ValueError: The block is too small, or a canonical node has no samples.
    """
    return algos[algo](shard_sizes, num_canonical_nodes, seed, epoch, block_size)
