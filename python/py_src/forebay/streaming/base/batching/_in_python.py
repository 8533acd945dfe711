"""Order of an epoch for programs that replace the engine's functions.

A program adds a function to `shuffle.algos` or `partition.algos`, or overrides `resample_streams`. The engine does not
call Python while it plans, so the ids of all ranks are made here, and every worker takes its part.
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

# The engine's functions by name.
_PARTITIONS, _SHUFFLES = dict(partition.algos), dict(shuffle.algos)


def draws_in_python(dataset: StreamingDataset) -> bool:
    """Returns true if a function of the program draws, distributes or shuffles the samples of `dataset`."""
    from ..dataset import StreamingDataset

    # An object that only has the attributes of a data set has no such functions.
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
