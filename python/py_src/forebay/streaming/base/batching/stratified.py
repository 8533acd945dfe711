"""Batching with a fixed share of every stream in each global batch."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from ..world import World
from ._ids import epoch_ids
from ._ordered import OrderedDataset

__all__ = ["generate_work_stratified_batching"]

logger = logging.getLogger(__name__)


def generate_work_stratified_batching(
    dataset: OrderedDataset, world: World, epoch: int, sample_in_epoch: int
) -> NDArray[np.int64]:
    """As `generate_work`, with the method `stratified`."""
    return epoch_ids("stratified", dataset, world, epoch, sample_in_epoch)
