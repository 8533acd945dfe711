"""A data set on local disk, for random access."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from .array import Array
from .format import get_index_basename, reader_from_json
from .spanner import Spanner

__all__ = ["LocalDataset"]


class LocalDataset(Array, Dataset):
    """A local folder of raw shards as a map-style data set of torch.

    Args:
        local: The folder.
        split: Sub-folder of it.

    Raises:
        FileNotFoundError: There is no index.
        ValueError: The index has another version than 2.
    """

    def __init__(self, local: str, split: str | None = None) -> None:
        self.local = local
        self.split = split or ""
        with open(os.path.join(local, self.split, get_index_basename()), encoding="utf-8") as file:
            index = json.load(file)
        if index["version"] != 2:
            raise ValueError(f"Unsupported streaming data version: {index['version']}. Expected version 2.")
        self.shards = [reader_from_json(local, split, shard) for shard in index["shards"]]
        self.spanner = Spanner(np.array([shard.samples for shard in self.shards], np.int64))
        self.num_samples = self.spanner.num_samples

    def __len__(self) -> int:
        return self.num_samples

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.num_samples

    def get_item(self, sample_id: int) -> dict[str, Any]:
        """The sample of an id, as a dict of its columns."""
        shard, index = self.spanner[sample_id]
        return self.shards[shard][index]
