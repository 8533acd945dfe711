"""The order of an epoch where a program has put functions of its own in the place of the engine's.

A program enters a function in `shuffle.algos` or `partition.algos`, or overrides `resample_streams`. The engine calls nothing
of Python's while it plans, so the ids of the whole world are then made here, and every worker takes its part of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .. import partition, shuffle

if TYPE_CHECKING:
    from ..dataset import StreamingDataset
    from ..world import World

__all__ = ["draws_in_python", "random_ids"]

# The engine's functions, by the names under which it knows them.
_PARTITIONS, _SHUFFLES = dict(partition.algos), dict(shuffle.algos)


def draws_in_python(dataset: StreamingDataset) -> bool:
    """Whether a function of the program's own draws, deals or shuffles the samples of `dataset`."""
    from ..dataset import StreamingDataset

    # What has the attributes of a data set and is none has no functions of its own.
    if isinstance(dataset, StreamingDataset) and type(dataset).resample_streams is not StreamingDataset.resample_streams:
        return True
    deal, order = dataset.partition_algo, dataset.shuffle_algo
    return partition.algos.get(deal) is not _PARTITIONS.get(deal) or (
        bool(dataset.shuffle) and shuffle.algos.get(order) is not _SHUFFLES.get(order)
    )


def random_ids(dataset: StreamingDataset, world: World, epoch: int, sample_in_epoch: int) -> NDArray[np.int64]:
    """As `generate_work`, with the method `random`."""
    units, samples = dataset.resample_streams(epoch)
    canonical = dataset.num_canonical_nodes
    assert canonical is not None and dataset.batch_size is not None, "`plan_arguments` looks at them"
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
        assert block is not None, "`plan_arguments` looks at it"
        order = shuffle.get_shuffle(dataset.shuffle_algo, units, canonical, dataset.shuffle_seed, epoch, block)
        samples = np.asarray(samples)[order]
    return np.where(places == -1, -1, np.asarray(samples)[places])
