"""Division of a data set's streams between the engine and the program, with the readers of this process."""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Sequence
from typing import Any

from ... import _forebay
from ._downloader_queue import downloader_queue, making_reader
from ._own_shards import OwnShards, is_own, place
from ._shards import AllShards, GivenShards, StreamShards
from .format import Reader
from .format.mds._decoders import decoder_of
from .stream import Stream

__all__ = ["Division"]


class Division:
    """Streams of a data set, divided into the streams that the engine reads and the streams with shards that the program prepares.

    Readers that the program assigns to single shards replace the engine too. The engine plans the order of all streams.

    Args:
        streams: All streams.
        parts: Shards of each.
        cache_limit: Bytes of local disk for shards and indexes. None or 0: no limit.
    """

    def __init__(
        self, streams: Sequence[Stream], parts: Sequence[StreamShards | GivenShards], cache_limit: int | None
    ) -> None:
        self.parts = parts
        self.shards = AllShards(parts)
        self.cache_limit = int(cache_limit or 0) or None
        self._streams = streams
        # Number of the first shard of each stream, and of all shards at the end.
        self._starts = list(itertools.accumulate(map(len, parts), initial=0))
        self._engine_streams = [number for number, stream in enumerate(streams) if not is_own(stream, parts[number])]
        self._data_here: _forebay.DataSet | None = None
        self.forget_process()

    def forget_process(self) -> None:
        """Resets the readers in a forked child: their threads, locks and descriptors belong to the parent."""
        self._reader_here: _forebay.Reader | None = None
        # Limits of the engine and of the program.
        self._limits_here: tuple[int | None, int | None] | None = None
        # The shards that the program prepares, and the readers that it had assigned then.
        self._own_here: tuple[OwnShards, dict[int, Reader]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_data_here": None, "_reader_here": None, "_limits_here": None, "_own_here": None}

    @property
    def is_engines(self) -> bool:
        """True if the engine reads all streams."""
        return len(self._engine_streams) == len(self._streams)

    @property
    def has_read(self) -> bool:
        """True if this process has made a reader."""
        return self._reader_here is not None or self._own_here is not None

    def assign(self, shards: Sequence[Reader]) -> None:
        """Makes readers of the program read all shards."""
        given = list(shards)
        self.shards = AllShards([given])
        self.shards[:] = given

    # Forms of the streams for the engine.

    @property
    def data(self) -> _forebay.DataSet:
        """All streams, for planning. Plain memory, which a fork may copy."""
        if self._data_here is None:
            places = [
                stream._place() if number in self._engine_streams else place(stream)
                for number, stream in enumerate(self._streams)
            ]
            self._data_here = self._data_of(places, self.parts, self.cache_limit)
        return self._data_here

    def _data_of(
        self, places: list[dict[str, Any]], parts: Sequence[StreamShards | GivenShards], limit: int | None
    ) -> _forebay.DataSet:
        config = json.dumps({"streams": places, "cache_limit": limit})
        return _forebay.DataSet(config, [part.index for part in parts])

    def _limits(self) -> tuple[int | None, int | None]:
        """Returns the bytes that the engine's shards may take, and the bytes that the program's shards may take, with indexes.

        Each side evicts its own shards, in several processes, so each has a fixed part of `cache_limit`: in proportion to
        its shards, and room for the largest one. Readers that the program has assigned in the engine's streams do not count:
        their shards are in the engine's folders.
        """
        if self._limits_here is None:
            self._limits_here = self._divided()
        return self._limits_here

    def _divided(self) -> tuple[int | None, int | None]:
        own = [number for number in range(len(self._streams)) if number not in self._engine_streams]
        if self.cache_limit is None or not self._engine_streams or not own:
            return self.cache_limit, self.cache_limit
        index_bytes = [stream.get_index_size() for stream in self._streams]
        engines = [(len(self.parts[number]), self.parts[number].max_size()) for number in self._engine_streams]
        owns = [(len(self.parts[number]), self.parts[number].max_size()) for number in own]
        engine_total, own_total = (sum(count * size for count, size in shards) for shards in (engines, owns))
        engine_least, own_least = (max(size for _, size in shards) for shards in (engines, owns))
        room = self.cache_limit - sum(index_bytes)
        own_room = room * own_total // max(engine_total + own_total, 1)
        own_room = max(min(own_room, room - engine_least), own_least)
        # Each side subtracts the indexes of its streams.
        return (
            sum(index_bytes[number] for number in self._engine_streams) + room - own_room,
            sum(index_bytes[number] for number in own) + own_room,
        )

    def _own_limit(self, replaced: dict[int, Reader]) -> int | None:
        """Returns the program's limit with the indexes of the engine's streams in which it has assigned readers.

        `OwnShards` subtracts them. The room that remains is for its own streams, and at least the size of the largest shard.
        """
        limit = self._limits()[1]
        others = {self._stream_of(shard) for shard in replaced} & set(self._engine_streams)
        if limit is None or not others or len(self._engine_streams) == len(self._streams):
            return limit
        index_bytes = sum(stream.get_index_size() for number, stream in enumerate(self._streams) if number in others)
        own_bytes = sum(stream.get_index_size() for number, stream in enumerate(self._streams) if number not in self._engine_streams)
        largest = max(reader.get_max_size() for reader in replaced.values())
        return index_bytes + max(limit, own_bytes + largest)

    @property
    def reader(self) -> _forebay.Reader:
        """Engine's reader of its streams in this process."""
        if self._reader_here is not None:
            return self._reader_here
        # Concurrent threads share one reader with its shards, connections and open files.
        with making_reader:
            if self._reader_here is None:
                limit, _ = self._limits()
                streams = [self._streams[number] for number in self._engine_streams]
                data = self.data
                if not self.is_engines or limit != self.cache_limit:
                    parts = [self.parts[number] for number in self._engine_streams]
                    data = self._data_of([stream._place() for stream in streams], parts, limit)
                self._reader_here = _forebay.Reader(data, decoder_of, downloader_queue(streams))
            return self._reader_here

    def _engine_shard(self, shard: int) -> int:
        """Returns a shard's number among the streams that the engine reads."""
        stream = self._stream_of(shard)
        before = sum(len(self.parts[number]) for number in self._engine_streams if number < stream)
        return before + shard - self._starts[stream]

    def _stream_of(self, shard: int) -> int:
        return bisect.bisect_right(self._starts, shard) - 1

    @property
    def own(self) -> OwnShards:
        """Shards that the program prepares itself, in this process."""
        replaced = self.shards.replaced
        if self._own_here is None or self._own_here[1] is not replaced:
            own = {}
            for number in set(range(len(self._streams))) - set(self._engine_streams):
                for shard, reader in enumerate(self.parts[number], self._starts[number]):
                    own[shard] = (self._streams[number], reader)
            for shard, reader in replaced.items():
                own[shard] = (self._streams[self._stream_of(shard)], reader)
            self._own_here = OwnShards(own, self._own_limit(replaced)), replaced
        return self._own_here[0]

    # Shards on local disk.

    def bytes_here(self) -> int:
        """Returns the bytes of indexes and shards in the local folders."""
        own = sum(
            stream.get_index_size() for number, stream in enumerate(self._streams) if number not in self._engine_streams
        )
        return own + self.own.usage() + (self.reader.bytes_here() if self._engine_streams else 0)

    def prepare(self, shard: int, blocking: bool) -> None:
        """Fetches a shard, if it is not on local disk. `blocking`: wait if a different process fetches it."""
        if shard in self.own:
            self.own.prepare(shard, blocking)
        else:
            self.reader.fetch(self._engine_shard(shard), blocking)

    def evict(self, shard: int) -> None:
        """Deletes a shard from local disk, unless it is about to be read.

        Raises:
            ValueError: Its stream has no remote: the files may be the only copy.
        """
        if shard in self.own:
            self.own.evict(shard)
        else:
            self.reader.evict(self._engine_shard(shard))

    def evict_coldest(self) -> None:
        """Deletes the least recently used shard, of the streams that have a remote.

        Raises:
            ValueError: There is no such shard.
        """
        if self._engine_streams and self.reader.evict_coldest() is not None:
            return
        if self.is_engines and not self.shards.replaced:
            raise ValueError("no shard on local disk can be fetched again")
        self.own.evict_coldest()
