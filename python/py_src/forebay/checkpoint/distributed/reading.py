"""Reader of `torch.distributed.checkpoint`."""

from __future__ import annotations

import collections
import io
import itertools
import os
import pickle
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.distributed.checkpoint.utils import _create_file_view
from torch.futures import Future

from ...errors import ConfigError, FormatError
from ...files import StoreOptions
from ..commit import Part
from ..loading import Checkpoint
from ..parts import Blocks, PartReader
from .writing import _METADATA

__all__ = ["StorageReader"]

_AHEAD = 12
"""Blocks of a file that are in flight."""

_FILES = 3
"""Files that have blocks in flight: the one that is read, and those after it. With 12 blocks of 8 MiB that is 288 MiB."""

_KEPT = 2
"""Blocks that stay in memory after they were read, in addition to the ends of an item."""


class StorageReader(filesystem.FileSystemReader):
    """`storage_reader` of `torch.distributed.checkpoint.load`, on any number of ranks.

    Small ranges share the requests of their blocks, which are fetched in parallel, each once, and compared with their digests
    before torch sees them.

    Args:
        url: URL or path of the checkpoint's folder.
        store: Settings of the store that differ from the environment's.

    Raises:
        NotFoundError: The folder is not a checkpoint: there is none, or saving it was not finished.
        ConfigError: It was saved by `forebay.checkpoint.save`.
        ChecksumError, FormatError: It is damaged.
    """

    def __init__(self, url: Any, *, store: StoreOptions | None = None) -> None:
        super().__init__("")
        self._store = store
        self._open(url)

    def _open(self, url: Any) -> None:
        # Not in `read_metadata`, whose errors torch drops.
        self.checkpoint = Checkpoint.open(url, store=self._store)
        """The checkpoint, with its `step`, `data` and `metadata`."""
        self.path = self.checkpoint.url
        names = [name for name in self.checkpoint.parts if name.rpartition("/")[2] == _METADATA]
        if len(names) != 1:
            raise ConfigError(f"{self.path} was saved by forebay.checkpoint.save: load it with forebay.checkpoint.load")
        self._root = names[0].removesuffix(_METADATA)
        with self.checkpoint.open_part(names[0]) as file:
            self._metadata: Metadata = pickle.load(file)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a load, from the URL `checkpoint_id` if there is one."""
        if checkpoint_id is not None and str(checkpoint_id) != self.path:
            self._open(checkpoint_id)
        super().reset()

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if getattr(self._metadata, "storage_meta", None) is None:
            self._metadata.storage_meta = StorageMeta()
        self._metadata.storage_meta.load_id = self.load_id
        return self._metadata

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_file: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        files = [(name, sorted(items, key=self._offset)) for name, items in sorted(by_file.items())]
        with ThreadPoolExecutor(_FILES, "forebay-checkpoint") as pool:
            opened: collections.deque[Any] = collections.deque()
            for at, (name, items) in enumerate(files):
                for ahead in files[at + len(opened) : at + _FILES]:
                    opened.append(pool.submit(self._start, *ahead))
                self._read(opened.popleft().result(), name, items, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _offset(self, item: ReadItem) -> int:
        return self.storage_data[item.storage_index].offset

    def _part(self, name: str) -> Part:
        found = self.checkpoint.parts.get(f"{self._root}{name}")
        if found is None:
            raise FormatError(f"the commit of {self.path} lacks {self._root}{name}, which torch's metadata has: load another step")
        return found

    def _start(self, name: str, items: Sequence[ReadItem]) -> _Planned:
        """Opens a file, and requests the first blocks that the items need."""
        part = self._part(name)
        spans = []
        for item in items:
            info = self.storage_data[item.storage_index]
            spans.append((info.offset, info.offset + info.length))
        return _Planned(Blocks(self.path, part, self._store), part.block_bytes, spans)

    def _read(self, blocks: _Planned, name: str, items: Sequence[ReadItem], planner: LoadPlanner) -> None:
        with PartReader(blocks, self._part(name)) as file:
            # Ranks with other shards than those of the save read several pieces of one tensor.
            for index, pieces in itertools.groupby(items, key=lambda item: item.storage_index):
                info = self.storage_data[index]
                blocks.begin(info.offset, info.offset + info.length)
                self._place(_create_file_view(file, info.offset, info.length), info, list(pieces), planner)

    def _place(self, view: Any, info: Any, items: Sequence[ReadItem], planner: LoadPlanner) -> None:
        """Reads one record of torch, and copies its pieces to the tensors of the state."""
        stream = self.transforms.transform_load_stream(items[0], info.transform_descriptors or (), view)
        if items[0].type == LoadItemType.BYTE_IO:
            content = stream.read(-1)
            for item in items:
                planner.load_bytes(item, io.BytesIO(content))
            return
        if not stream.seekable():
            stream = io.BytesIO(stream.read(-1))
        tensor = torch.load(stream, map_location="cpu", weights_only=True)
        for item in items:
            piece = tensor
            for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                piece = piece.narrow(dimension, offset, length)
            target = planner.resolve_tensor(item).detach()
            if target.size() != piece.size():
                raise ConfigError(
                    f"{item.storage_index.fqn} has the shape {tuple(piece.size())} in {self.path}, and has to have "
                    f"{tuple(target.size())}"
                )
            target.copy_(piece)
            planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))


class _Planned:
    """Blocks of a part whose spans are read in order, and with jumps within one: each block is fetched once, ahead."""

    def __init__(self, blocks: Blocks, block_bytes: int, spans: Iterable[tuple[int, int]]) -> None:
        self._blocks, self._block_bytes = blocks, block_bytes
        wanted = {number for begin, end in spans for number in self._numbers(begin, end)}
        self._wanted = collections.deque(sorted(wanted))
        self._in_flight: dict[int, Any] = {}
        self._kept: dict[int, bytes] = {}
        self._ends: set[int] = set()
        self._request()

    def _numbers(self, begin: int, end: int) -> range:
        return range(begin // self._block_bytes, -(-end // self._block_bytes))

    def _request(self) -> None:
        while self._wanted and len(self._in_flight) < _AHEAD:
            number = self._wanted.popleft()
            if number not in self._in_flight and number not in self._kept:
                self._in_flight[number] = self._blocks.start(number)

    def begin(self, begin: int, end: int) -> None:
        """Begins with a span.

        torch reads the table at its end first, which may cross two blocks, then its start. So these stay in memory.
        """
        numbers = self._numbers(begin, end)
        self._ends = {*numbers[:1], *numbers[-2:]}
        self._drop(0)

    def block(self, number: int) -> bytes:
        if number not in self._kept:
            if number not in self._in_flight:
                if number in self._wanted:
                    self._wanted.remove(number)
                self._in_flight[number] = self._blocks.start(number)
            self._kept[number] = self._blocks.finish(number, self._in_flight.pop(number))
            self._drop(_KEPT)
            self._request()
        return self._kept[number]

    def _drop(self, count: int) -> None:
        """Drops the oldest blocks but `count` and the ends of the span."""
        others = [number for number in self._kept if number not in self._ends]
        for number in others[: max(len(others) - count, 0)]:
            del self._kept[number]
