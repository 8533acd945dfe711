"""Streams whose shards a program makes or fetches itself: objects in the place of `Stream`, subclasses that override
`get_shards` or `prepare_shard`.

The engine plans their order. Their samples are read by their readers, in Python, and `prepare_shard` of the stream is called
for those that are not there: for each shard by one process and thread at a time. Where room has to be made first, and for
readers that do not name their files, that is one for the whole folder.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ... import _forebay
from ._locks import locked
from .format import Reader
from .stream import Stream, StreamShards

__all__ = ["GivenShards", "OwnShards", "is_own", "place"]


class GivenShards(Sequence[Reader]):
    """The shards that a stream's own `get_shards` gave.

    Args:
        readers: A reader for each: an object with `samples` that can be indexed.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = list(readers)
        self._open()

    def _open(self) -> None:
        # All that the order needs to know.
        shards = [_unreadable_shard(number, int(reader.samples)) for number, reader in enumerate(self._readers)]
        text = json.dumps({"version": 2, "shards": shards}).encode()
        self.index = _forebay.Index(text, "the shards of a stream of your own")

    @property
    def samples(self) -> NDArray[np.int64]:
        """Samples of each shard."""
        return np.array([reader.samples for reader in self._readers], np.int64)

    def max_size(self) -> int:
        """Most bytes that any shard takes on disk."""
        return max((reader.get_max_size() for reader in self._readers), default=0)

    def __len__(self) -> int:
        return len(self._readers)

    @overload
    def __getitem__(self, at: int) -> Reader: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Reader]: ...
    def __getitem__(self, at: int | slice) -> Reader | Sequence[Reader]:
        return self._readers[at]

    def __getstate__(self) -> dict[str, Any]:
        return {"_readers": self._readers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _unreadable_shard(number: int, samples: int) -> dict[str, Any]:
    """An entry of an index that says how many samples a shard has, and nothing else that is true."""
    return {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": None,
        "samples": samples,
        # As large as a shard of so many samples is at least.
        "raw_data": {"basename": str(number), "bytes": 1024 + 8 * samples, "hashes": {}},
        "zip_data": None,
        "column_names": [],
        "column_encodings": [],
        "column_sizes": [],
    }


def is_own(stream: Stream, shards: Sequence[Reader]) -> bool:
    """Whether a program prepares the shards of `stream`, or has chosen them, and not the engine."""
    return _prepares_itself(stream) or not isinstance(shards, StreamShards)


def _prepares_itself(stream: Stream) -> bool:
    """Whether a program prepares the shards of `stream`, which may be an object of any class."""
    return not isinstance(stream, Stream) or stream._prepares_itself()


def folder(stream: Stream) -> str:
    """Where a stream's files lie, whatever kind of object it is."""
    return os.path.join(stream.local, stream.split or "")


def place(stream: Stream) -> dict[str, Any]:
    """The engine's form of a stream that it does not read."""
    return {
        "remote": stream.remote,
        "dir": folder(stream),
        "keep_zip": False,
        "download_retry": 1,
        "download_timeout": 60.0,
        "validate_hash": None,
    }


class OwnShards:
    """What one process knows of the shards that a program prepares.

    Args:
        shards: By its number, the stream and the reader of each.
        cache_limit: Bytes that they may take on disk, indexes included. None: no limit.
    """

    def __init__(self, shards: dict[int, tuple[Stream, Reader]], cache_limit: int | None) -> None:
        self._shards = shards
        self._cache_limit = cache_limit
        self._clock = itertools.count(1)
        # When this process used a shard last. What is not in it may be absent, or in the middle of being written.
        self._used: dict[int, int] = {}

    def __contains__(self, shard: int) -> bool:
        return shard in self._shards

    def seems_here(self, shard: int) -> bool:
        """Whether this process has found `shard` whole, and not removed it since."""
        return shard in self._used

    def touch(self, shard: int) -> None:
        """Notes that a sample of `shard` has been read."""
        self._used[shard] = next(self._clock)

    def bytes_here(self) -> dict[int, int]:
        """Bytes on local disk of each shard that is there. Looks into every stream's folder once."""
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
        """Bytes of all shards on local disk."""
        return sum(self.bytes_here().values())

    def prepare(self, shard: int, blocking: bool = True) -> None:
        """Has the stream prepare a shard that is not there.

        Args:
            shard: Which one.
            blocking: Wait where another process or thread is in the way.
        """
        stream, reader = self._shards[shard]
        name = None
        if isinstance(reader, Reader) and reader.file_pairs and not self._cache_limit:
            # The same in every program, whichever shards it has chosen.
            name = reader.file_pairs[0][0].basename
        with locked(folder(stream), name, blocking) as is_ours:
            if not is_ours:
                return
            if not self._is_whole(shard):
                if self._cache_limit:
                    self._make_room(reader.get_max_size())
                stream.prepare_shard(reader)
            self.touch(shard)

    def _is_whole(self, shard: int) -> bool:
        """Whether nothing is left to prepare: a reader that names its files has the raw ones."""
        _, reader = self._shards[shard]
        if isinstance(reader, Reader):
            return all(os.path.isfile(reader._path(info)) for info in reader._raw_infos())
        return shard in self.bytes_here()

    def _make_room(self, wanted: int) -> None:
        assert self._cache_limit is not None
        streams = {id(stream): stream for stream, _ in self._shards.values()}
        room = self._cache_limit - wanted - sum(stream.get_index_size() for stream in streams.values())
        here = self.bytes_here()
        while sum(here.values()) > room:
            self.evict(self._coldest(here))
            left = self.bytes_here()
            if sum(left.values()) >= sum(here.values()):
                raise RuntimeError("`evict` of a shard's reader left its files where they are: there is no room for others")
            here = left

    def evict(self, shard: int) -> None:
        """Removes a shard's files.

        Raises:
            ValueError: Its stream has no remote, and nothing of its own to prepare it with: it may be the only copy.
        """
        stream, reader = self._shards[shard]
        if not self._comes_back(shard):
            raise ValueError(f"shard {shard} of {folder(stream)} may be the only copy: its stream has no remote")
        self._used.pop(shard, None)
        reader.evict()

    def _comes_back(self, shard: int) -> bool:
        """Whether a shard that is removed can be prepared again."""
        stream, _ = self._shards[shard]
        return stream.remote is not None or _prepares_itself(stream)

    def evict_coldest(self) -> None:
        """Removes the shard that this process has used least recently.

        Raises:
            ValueError: None is there that can be prepared again.
        """
        self.evict(self._coldest(self.bytes_here()))

    def _coldest(self, here: Iterable[int]) -> int:
        ours = [shard for shard in here if self._comes_back(shard)]
        if not ours:
            raise ValueError("there is no shard on local disk to make room with: raise `cache_limit`")
        return min(ours, key=lambda shard: self._used.get(shard, 0))
