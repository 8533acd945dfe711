"""Batching with each global batch from one stream."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from ..world import World
from ._ids import epoch_ids
from ._ordered import OrderedDataset

__all__ = ["generate_work_per_stream_batching"]

logger = logging.getLogger(__name__)


def generate_work_per_stream_batching(
    dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int
) -> NDArray[np.int64]:
    """As `generate_work`, with the method `per_stream`."""
    return epoch_ids("per_stream", dataset, world, epoch, sample_in_epoch)
