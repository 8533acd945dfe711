"""Ids of an epoch for all batching methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .... import _forebay
from .._arrays import int64s, numbers
from ..world import World
from ._in_python import draws_in_python, random_ids
from ._ordered import OrderedDataset


def epoch_ids(
    batching_method: str, dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int
) -> NDArray[np.int64]:
    """As `generate_work`.

    Raises:
        ValueError: The program has its own functions for the order, and the method is not `random`.
    """
    if draws_in_python(dataset):
        if batching_method != "random":
            raise ValueError(
                f"`batching_method` {batching_method!r} does not support a custom shuffle, partitioning or "
                "`resample_streams`: use 'random', or add a custom batching method to `batching_methods`"
            )
        plan_arguments(batching_method, dataset, world, epoch, sample_in_epoch)
        return random_ids(dataset, world, epoch, sample_in_epoch)
    sizes = np.split(np.asarray(dataset.samples_per_shard), dataset.shard_offset_per_stream[1:])
    arguments = plan_arguments(batching_method, dataset, world, epoch, sample_in_epoch)
    shape, ids = _forebay.epoch_ids([numbers(shards) for shards in sizes], arguments)
    return int64s(ids, shape)


def plan_arguments(
    batching_method: str, dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int
) -> dict[str, Any]:
    """Returns the arguments that determine the ids of an epoch, in the engine's form; arguments as for
    `generate_work`."""
    if dataset.num_canonical_nodes is None:
        raise RuntimeError("`num_canonical_nodes` can never be None. Provide a positive integer.")
    if not isinstance(dataset.batch_size, int):
        raise TypeError(f"Batch size must be an integer. Got {type(dataset.batch_size)}.")
    block = dataset.shuffle_block_size
    if dataset.shuffle and not isinstance(block, int):
        raise TypeError(f"Dataset `shuffle_block_size` must be an integer. Got {type(block)} instead.")
    return {
        "world": (world.num_nodes, world.ranks_per_node, world.workers_per_rank),
        "batch_size": dataset.batch_size,
        "batching_method": batching_method,
        "sampling_method": dataset.sampling_method,
        "sampling_granularity": dataset.sampling_granularity,
        "partition_algo": dataset.partition_algo,
        "num_canonical_nodes": dataset.num_canonical_nodes,
        "initial_physical_nodes": dataset.initial_physical_nodes,
        "shuffle": bool(dataset.shuffle),
        # Without a shuffle the name of the algorithm is not used.
        "shuffle_algo": dataset.shuffle_algo if dataset.shuffle else "naive",
        "shuffle_seed": dataset.shuffle_seed,
        "shuffle_block_size": block or 0,
        "epoch": epoch,
        "sample_in_epoch": sample_in_epoch,
        "choose": [stream.choose for stream in dataset.streams],
        "proportion": [stream.proportion for stream in dataset.streams],
    }
