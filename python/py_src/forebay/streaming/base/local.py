"""Data set on local disk with random access."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset

from ... import _forebay
from ...errors import Error
from ._shards import AllShards, GivenShards, StreamShards, open_shards
from .array import Array
from .format import Reader
from .format.mds._decoders import decoder_of
from .spanner import LOOKUP, Spanner

__all__ = ["LocalDataset"]


class LocalDataset(Array, Dataset):
    """Local folder of raw shards as a map-style data set of torch.

    Each reading process keeps its shards open.

    Args:
        local: The folder.
        split: Sub-folder of it.

    Raises:
        FileNotFoundError: There is no index.
        ValueError: The version of the index is not 2.
    """

    def __init__(self, local: str, split: str | None = None) -> None:
        self.local = local
        self.split = split or ""
        shards = open_shards(local, self.split)
        self._part = GivenShards(shards) if isinstance(shards, list) else shards
        self.shards: Sequence[Reader] = AllShards([self._part])
        # Shards that the engine reads, unless the program has assigned readers.
        self._engine_shards = self.shards if isinstance(self._part, StreamShards) else None
        self.spanner = self._engine_spanner = Spanner(self._part.samples)
        self.num_samples = self.spanner.num_samples
        place = {"remote": None, "dir": os.path.join(local, self.split), "keep_zip": True, "validate_hash": None}
        self._config = {**place, "download_retry": 1, "download_timeout": 60.0}
        self._forget_process()

    def _forget_process(self) -> None:
        self._reader_here: _forebay.Reader | None = None
        self._pid: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader_here": None, "_pid": None}

    def __len__(self) -> int:
        return self.num_samples

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.num_samples

    @property
    def _reader(self) -> _forebay.Reader:
        # The reader in a forked child belongs to the parent.
        if self._reader_here is None or self._pid != os.getpid():
            config = json.dumps({"streams": [self._config], "cache_limit": None})
            # Nothing is fetched.
            downloader = None
            self._reader_here = _forebay.Reader(_forebay.DataSet(config, [self._part.index]), decoder_of, downloader)
            self._pid = os.getpid()
        return self._reader_here

    def get_item(self, sample_id: int) -> dict[str, Any]:
        """Returns a sample as a dict of its columns."""
        shards = self._engine_shards
        is_engines = shards is self.shards and not shards.replaced and not LOOKUP.are_replaced(type(self.spanner))
        if is_engines and self.spanner is self._engine_spanner and 0 <= sample_id < self.num_samples:
            try:
                sample = self._reader.sample_here(int(sample_id))
            except Error:
                sample = None
            if sample is not None:
                return sample
        # The shard's own reader explains the error, or reads the intact part of a damaged shard.
        shard, index = self.spanner[sample_id]
        return self.shards[shard][index]
