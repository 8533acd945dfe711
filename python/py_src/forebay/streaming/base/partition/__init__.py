"""Distribution of an epoch's samples to nodes, ranks and workers.

`orig` is the basic algorithm. `relaxed` also accepts numbers of nodes that neither divide nor are multiples of the
canonical nodes, if the run started with such a number.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .orig import get_partitions_orig
from .relaxed import get_partitions_relaxed

__all__ = ["algos", "get_partitions"]

logger = logging.getLogger(__name__)

algos: dict[str, Callable[..., NDArray[np.int64]]] = {
    "orig": get_partitions_orig,
    "relaxed": get_partitions_relaxed,
}
"""Functions by name. A function that is added here can be used as `partition_algo`."""


def get_partitions(
    algo: str,
    num_samples: int,
    num_canonical_nodes: int,
    num_physical_nodes: int,
    ranks_per_node: int,
    workers_per_rank: int,
    batch_size: int,
    drop_first: int = 0,
    initial_physical_nodes: int | None = None,
) -> NDArray[np.int64]:
    """Distributes the samples of an epoch to nodes, ranks and workers.

    Args:
        algo: "orig" or "relaxed".
        num_samples: Samples of the epoch.
        num_canonical_nodes: Parts of the epoch, independent of the number of nodes.
        num_physical_nodes: Nodes.
        ranks_per_node: Ranks of each node.
        workers_per_rank: Workers of each rank.
        batch_size: Samples of a rank's batch.
        drop_first: Samples that were seen before, over all nodes; rounded down to a multiple of the nodes.
        initial_physical_nodes: Nodes at the start of the run. None: the same.

    Returns:
        Sample ids of shape (nodes, ranks of a node, workers of a rank, batches of a worker, batch), -1 for none.

    Raises:
        KeyError: There is no such algorithm.
        ValueError: `drop_first` is after the end, or the numbers of nodes do not divide.
    """
    return algos[algo](
        num_samples,
        num_canonical_nodes,
        num_physical_nodes,
        ranks_per_node,
        workers_per_rank,
        batch_size,
        drop_first,
        initial_physical_nodes,
    )
