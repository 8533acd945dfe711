"""Partitioning `relaxed`."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from .... import _forebay
from .._arrays import int64s

__all__ = ["get_partitions_relaxed"]

logger = logging.getLogger(__name__)


def get_partitions_relaxed(
    num_samples: int,
    num_canonical_nodes: int,
    num_physical_nodes: int,
    ranks_per_node: int,
    workers_per_rank: int,
    batch_size: int,
    drop_first: int = 0,
    initial_physical_nodes: int | None = None,
) -> NDArray[np.int64]:
    """As `get_partitions`, with the algorithm `relaxed`."""
    world = (num_physical_nodes, ranks_per_node, workers_per_rank)
    shape, ids = _forebay.partition(
        "relaxed", num_samples, num_canonical_nodes, world, batch_size, drop_first, initial_physical_nodes
    )
    return int64s(ids, shape)
