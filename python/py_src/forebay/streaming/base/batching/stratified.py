"""Batching with a fixed share of every stream in each global batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ._ids import epoch_ids

if TYPE_CHECKING:
    from ..dataset import StreamingDataset
    from ..world import World

__all__ = ["generate_work_stratified_batching"]


def generate_work_stratified_batching(
    dataset: StreamingDataset, world: World, epoch: int, sample_in_epoch: int
) -> NDArray[np.int64]:
    """As `generate_work`, with the method `stratified`."""
    return epoch_ids("stratified", dataset, world, epoch, sample_in_epoch)
