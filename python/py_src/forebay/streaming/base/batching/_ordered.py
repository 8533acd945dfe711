"""Attributes of a data set that determine its order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["OrderedDataset"]


class OrderedDataset(Protocol):
    """Attributes of a `StreamingDataset`, or of an object that replaces it, that the batching methods read."""

    batch_size: int | None
    batching_method: str
    epoch_size: int
    initial_physical_nodes: int | None
    num_canonical_nodes: int | None
    partition_algo: str
    sampling_granularity: int
    sampling_method: str
    samples_per_shard: NDArray[np.int64]
    shard_offset_per_stream: NDArray[np.int64]
    shuffle: bool
    shuffle_algo: str
    shuffle_block_size: int | None
    shuffle_seed: int
    streams: Sequence[Any]

    def resample_streams(
        self, epoch: int, stream_id: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As `StreamingDataset.resample_streams`."""
