"""Composition of batches.

`random` mixes all streams; `stratified` takes a fixed share of every stream in each global batch; `per_stream` takes
each global batch from one stream; `device_per_stream` takes each rank's batch from one stream.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..world import World
from ._in_python import draws_in_python
from ._ordered import OrderedDataset
from .device_per_stream import generate_work_device_per_stream_batching
from .per_stream import generate_work_per_stream_batching
from .random import generate_work_random_batching
from .stratified import generate_work_stratified_batching

__all__ = ["batching_methods", "generate_work"]

batching_methods: dict[str, Callable[..., NDArray[np.int64]]] = {
    "random": generate_work_random_batching,
    "stratified": generate_work_stratified_batching,
    "per_stream": generate_work_per_stream_batching,
    "device_per_stream": generate_work_device_per_stream_batching,
}
"""Functions by name. Programs may replace them."""

_OF_ENGINE = dict(batching_methods)


def orders_in_python(dataset: OrderedDataset) -> bool:
    """Returns true if functions of the program determine the order of `dataset`, at least in part."""
    method = dataset.batching_method
    return batching_methods[method] is not _OF_ENGINE.get(method) or draws_in_python(dataset)


def generate_work(
    batching_method: str, dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int
) -> NDArray[np.int64]:
    """Returns the sample ids of a whole epoch for all ranks and workers.

    Iteration makes no such array: each worker gets its own ids step by step.

    Args:
        batching_method: "random", "stratified", "per_stream" or "device_per_stream".
        dataset: The data set; only the attributes of the order are read.
        world: Nodes, ranks and workers.
        epoch: The epoch, from 0.
        sample_in_epoch: Samples of the epoch that were seen before, over all ranks.

    Returns:
        Sample ids of shape (nodes, ranks of a node, workers of a rank, batches of a worker, batch), -1 for none.

    Raises:
        KeyError: There is no such method.
        RuntimeError: The data set's `num_canonical_nodes` is not set yet.
        ValueError: A stream is too small for the method, or as `get_partitions`.
    """
    return batching_methods[batching_method](dataset, world, epoch, sample_in_epoch)
