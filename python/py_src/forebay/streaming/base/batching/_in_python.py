"""Order of an epoch for programs that replace the engine's functions.

A program adds a function to `shuffle.algos` or `partition.algos`, or overrides `resample_streams`. The engine does not
call Python while it plans, so the ids of all ranks are made here, and every worker takes its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import partition, shuffle
from ..world import World
from ._ordered import OrderedDataset

__all__ = ["draws_in_python", "of_engine", "random_ids"]

F = TypeVar("F", bound=Callable[..., Any])

# The engine's functions by name.
_PARTITIONS, _SHUFFLES = dict(partition.algos), dict(shuffle.algos)


# Methods `resample_streams` that are the engine's.
_RESAMPLES: set[Callable[..., Any]] = set()


def of_engine(method: F) -> F:
    """Marks a data set's `resample_streams` as the engine's. A function without the mark is the program's."""
    _RESAMPLES.add(method)
    return method


def draws_in_python(dataset: OrderedDataset) -> bool:
    """Returns true if a function of the program draws, distributes or shuffles the samples of `dataset`."""
    # An object that only has the attributes of a data set has no such method.
    resample = getattr(type(dataset), "resample_streams", None)
    if resample is not None and resample not in _RESAMPLES:
        return True
    deal, order = dataset.partition_algo, dataset.shuffle_algo
    return partition.algos.get(deal) is not _PARTITIONS.get(deal) or (
        bool(dataset.shuffle) and shuffle.algos.get(order) is not _SHUFFLES.get(order)
    )


def random_ids(dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int) -> NDArray[np.int64]:
    """As `generate_work`, with the method `random`."""
    units, samples = dataset.resample_streams(epoch)
    canonical = dataset.num_canonical_nodes
    assert canonical is not None and dataset.batch_size is not None, "`plan_arguments` checks them"
    places = partition.get_partitions(
        dataset.partition_algo,
        dataset.epoch_size,
        canonical,
        world.num_nodes,
        world.ranks_per_node,
        world.workers_per_rank,
        dataset.batch_size,
        sample_in_epoch,
        dataset.initial_physical_nodes,
    )
    if dataset.shuffle:
        block = dataset.shuffle_block_size
        assert block is not None, "`plan_arguments` checks it"
        order = shuffle.get_shuffle(dataset.shuffle_algo, units, canonical, dataset.shuffle_seed, epoch, block)
        samples = np.asarray(samples)[order]
    return np.where(places == -1, -1, np.asarray(samples)[places])
