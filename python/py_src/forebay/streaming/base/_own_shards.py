"""Streams with shards that the program makes or fetches: objects instead of `Stream`, or subclasses that override
`get_shards` or `prepare_shard`.

The engine plans their order. Their own readers read the samples in Python, and the stream's `prepare_shard` is called
for missing shards, by one process and thread at a time for each shard. If space has to be freed first, or if a reader
does not name its files, the limit of one holds for the whole folder.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._locks import locked
from ._shards import StreamShards
from .format import Reader
from .stream import Stream

__all__ = ["OwnShards", "folder", "is_own", "place"]


def is_own(stream: Stream, shards: Sequence[Reader]) -> bool:
    """Returns true if the program, not the engine, prepares the shards of `stream` or has chosen them."""
    return _prepares_itself(stream) or not isinstance(shards, StreamShards)


def _prepares_itself(stream: Stream) -> bool:
    """Returns true if the program prepares the shards of `stream`, which may be an object of any class."""
    return not isinstance(stream, Stream) or stream._prepares_itself()


def folder(stream: Stream) -> str:
    """Returns the folder of a stream's files; the stream may be an object of any class."""
    return os.path.join(stream.local, stream.split or "")


def place(stream: Stream) -> dict[str, Any]:
    """Returns the engine's form of a stream that it does not read."""
    return {
        "remote": stream.remote,
        "dir": folder(stream),
        "keep_zip": False,
        "download_retry": 1,
        "download_timeout": 60.0,
        "validate_hash": None,
    }


class OwnShards:
    """State of program-prepared shards in one process.

    Args:
        shards: Stream and reader of each shard by its number.
        cache_limit: Bytes that they may take on disk, with indexes. None: no limit.
    """

    def __init__(self, shards: dict[int, tuple[Stream, Reader]], cache_limit: int | None) -> None:
        self._shards = shards
        self._cache_limit = cache_limit
        self._clock = itertools.count(1)
        # Time of the last use of each shard by this process. Shards that are not in it may be absent or incomplete.
        self._used: dict[int, int] = {}

    def __contains__(self, shard: int) -> bool:
        return shard in self._shards

    def is_known_resident(self, shard: int) -> bool:
        """Returns true if this process has found `shard` complete and has not removed it since."""
        return shard in self._used

    def touch(self, shard: int) -> None:
        """Records a read of a sample of `shard`."""
        self._used[shard] = next(self._clock)

    def bytes_here(self) -> dict[int, int]:
        """Returns the bytes of each resident shard. Lists every stream's folder once."""
        by_stream: dict[int, list[int]] = {}
        for shard, (stream, _) in self._shards.items():
            by_stream.setdefault(id(stream), []).append(shard)
        here = {}
        for shards in by_stream.values():
            usage = np.zeros(len(shards), np.int64)
            self._shards[shards[0]][0].set_up_local([self._shards[shard][1] for shard in shards], usage)
            here.update((shard, int(size)) for shard, size in zip(shards, usage) if size)
        return here

    def usage(self) -> int:
        """Returns the bytes of all resident shards."""
        return sum(self.bytes_here().values())

    def prepare(self, shard: int, blocking: bool = True) -> None:
        """Calls the stream's `prepare_shard` for a shard that is not resident.

        Args:
            shard: Number of the shard.
            blocking: Wait for the process or thread that holds its lock.
        """
        stream, reader = self._shards[shard]
        name = None
        if isinstance(reader, Reader) and reader.file_pairs and not self._cache_limit:
            # The same in all programs, for any choice of shards.
            name = reader.file_pairs[0][0].basename
        with locked(folder(stream), name, blocking) as is_ours:
            if not is_ours:
                return
            self._complete(shard)

    def read(self, shard: int, index: int) -> Any:
        """Reads a sample, and calls the stream's `prepare_shard` before if the shard is not resident.

        Another process cannot remove the shard in between: all evict with the lock of its folder or of the shard itself,
        which this call holds. Without that, processes may remove shards of each other if the limit is too small for all of them.
        """
        stream, reader = self._shards[shard]
        with locked(folder(stream), None, True):
            self._complete(shard)
            return reader[index]

    def _complete(self, shard: int) -> None:
        """Prepares a shard that is not resident; the caller holds its lock."""
        stream, reader = self._shards[shard]
        if not self._is_whole(shard):
            if self._cache_limit:
                self._make_room(reader.get_max_size(), folder(stream))
            stream.prepare_shard(reader)
        self.touch(shard)

    def _is_whole(self, shard: int) -> bool:
        """Returns true if all raw files exist, for a reader that names its files."""
        _, reader = self._shards[shard]
        if isinstance(reader, Reader):
            return all(os.path.isfile(reader._path(info)) for info in reader._raw_infos())
        return shard in self.bytes_here()

    def _make_room(self, wanted: int, held: str) -> None:
        """Evicts shards until `wanted` bytes fit. `held`: the folder of the lock that the caller holds."""
        assert self._cache_limit is not None
        streams = {id(stream): stream for stream, _ in self._shards.values()}
        room = self._cache_limit - wanted - sum(stream.get_index_size() for stream in streams.values())
        here = self.bytes_here()
        while sum(here.values()) > room:
            if not self._evict_one(here, held):
                # Shards are being prepared in the remaining folders. Room for them is made there.
                return
            here = self.bytes_here()

    def _evict_one(self, here: Iterable[int], held: str) -> bool:
        """Evicts the coldest shard of a folder that is not locked elsewhere: a shard must not vanish while it is published.

        Returns:
            False if the folders of all shards are locked.

        Raises:
            RuntimeError: The shard's files remain.
        """
        for shard in self._by_use(here):
            place = folder(self._shards[shard][0])
            # Not blocking: the holder of that lock may wait for this one.
            with contextlib.nullcontext(True) if place == held else locked(place, None, False) as is_ours:
                if is_ours:
                    self.evict(shard)
                    if shard in self.bytes_here():
                        raise RuntimeError("`evict` of a shard's reader did not remove its files: there is no room for more shards")
                    return True
        return False

    def evict(self, shard: int) -> None:
        """Removes a shard's files.

        Raises:
            ValueError: Its stream has no remote and no way to prepare it, so this may be the only copy.
        """
        stream, reader = self._shards[shard]
        if not self._can_prepare_again(shard):
            raise ValueError(f"shard {shard} of {folder(stream)} may be the only copy: its stream has no remote")
        self._used.pop(shard, None)
        reader.evict()

    def _can_prepare_again(self, shard: int) -> bool:
        """Returns true if a removed shard can be prepared again."""
        stream, _ = self._shards[shard]
        return stream.remote is not None or _prepares_itself(stream)

    def evict_coldest(self) -> None:
        """Removes the shard that this process has used least recently.

        Raises:
            ValueError: No resident shard can be prepared again.
        """
        self.evict(self._by_use(self.bytes_here())[0])

    def _by_use(self, here: Iterable[int]) -> list[int]:
        """Returns the shards that can be prepared again, the least recently used one first."""
        ours = [shard for shard in here if self._can_prepare_again(shard)]
        if not ours:
            raise ValueError("no shard on local disk can be removed to make room: raise `cache_limit`")
        return sorted(ours, key=lambda shard: self._used.get(shard, 0))
