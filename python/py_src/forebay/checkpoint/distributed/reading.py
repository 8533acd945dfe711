"""Reader of `torch.distributed.checkpoint`."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from ...errors import ConfigError, FormatError
from ...files import StoreOptions
from ..direct import BlockWindow, Direct, Opened
from ..into import partly_overwritten
from ..layout import Layout, NoLayout
from ..loading import Checkpoint
from ..parts import Buffers
from ..memory import Targets
from .writing import METADATA_FILE

_FILES = 3
"""Files that are opened: the one that is read, and those after it."""

_ENDS = 16
"""Blocks with ends of tensors that are read before the tensors of a group are fetched. Blocks of two groups are in memory, and
blocks of groups before in the window: less than 512 MiB. The rest of the blocks of a group arrive in the tensors."""

_SMALL = 1 << 20
"""Bytes of a record that is read at once. For a smaller one, finding its tensors takes longer than copying it."""

_TABLE = 16 << 10
"""Bytes at the end of a record that have its table. torch looks for it in the last 4 KiB, and it has a few records."""


class StorageReader(filesystem.FileSystemReader):
    """`storage_reader` of `torch.distributed.checkpoint.load`, on any number of ranks.

    Blocks are fetched in parallel, each once, and compared with their digests. Their bytes arrive in the memory of the state's
    tensors, if these have it in one piece on the host.

    Args:
        url: URL or path of the checkpoint's folder.
        store: Settings of the store that differ from the environment's.

    Raises:
        NotFoundError: The folder is not a checkpoint: there is none, or saving it was not finished.
        ConfigError: It was saved by `forebay.checkpoint.save`.
        ChecksumError, FormatError: It is damaged.
    """

    def __init__(self, url: str | os.PathLike[str], *, store: StoreOptions | None = None) -> None:
        super().__init__("")
        self._store = store
        self._open(url)

    def _open(self, url: Any) -> None:
        # Not in `read_metadata`, as torch drops its errors.
        self.checkpoint: Checkpoint = Checkpoint.open(url, store=self._store)
        """The checkpoint, with its `step`, `data` and `metadata`."""
        self.path: str = self.checkpoint.url
        names = [name for name in self.checkpoint.parts if name.rpartition("/")[2] == METADATA_FILE]
        if len(names) != 1:
            raise ConfigError(f"{self.path} was saved by forebay.checkpoint.save: load it with forebay.checkpoint.load")
        self._root = names[0].removesuffix(METADATA_FILE)
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
        with ThreadPoolExecutor(_FILES, "forebay-checkpoint") as pool, partly_overwritten(), BlockWindow() as blocks:
            load, groups = _Load(self, planner, blocks), self._groups(pool, sorted(by_file.items()))
            group = next(groups, None)
            while group is not None:
                group.start()
                following = next(groups, None)
                if following is not None:
                    following.start()
                load.add(group)
                group = following
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _groups(self, pool: ThreadPoolExecutor, files: Sequence[tuple[str, list[ReadItem]]]) -> Iterator[_Group]:
        """Returns the groups of records of all files, which are opened ahead."""
        opened: collections.deque[Any] = collections.deque()
        buffers = Buffers()
        for at, (_, items) in enumerate(files):
            for name, _ in files[at + len(opened) : at + _FILES]:
                opened.append(pool.submit(self._start, name, buffers))
            file = opened.popleft().result()
            # Ranks with shards that differ from the save's read several pieces of one tensor.
            by_record: dict[int, list[ReadItem]] = {}
            for item in items:
                by_record.setdefault(self.storage_data[item.storage_index].offset, []).append(item)
            records = [
                _Record(self.storage_data[pieces[0].storage_index], pieces) for _, pieces in sorted(by_record.items())
            ]
            yield from _groups(records, file)

    def _start(self, name: str, buffers: Buffers) -> Opened:
        part = self.checkpoint.parts.get(f"{self._root}{name}")
        if part is None:
            raise FormatError(f"the commit of {self.path} lacks {self._root}{name}, which torch's metadata has: load a different step")
        return Opened(self.path, part, self._store, buffers)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))


class _Load:
    """Load in progress; its blocks pass one window."""

    def __init__(self, reader: StorageReader, planner: LoadPlanner, blocks: BlockWindow) -> None:
        self._reader, self._planner, self._blocks = reader, planner, blocks
        self._targets = Targets()

    def add(self, group: _Group) -> None:
        """Reads the structure of the records of a group, and requests their bytes."""
        group.opened.direct.drop(group.ends[0])
        positions: list[tuple[int, Any, Any]] = []
        loaded: list[tuple[ReadItem, Any]] = []
        for record in group.records:
            self._take(group.opened, record, positions, loaded)
        self._request(group.opened, positions)
        self._blocks.then(lambda: self._commit(loaded))

    def _request(self, opened: Opened, positions: list[tuple[int, Any, Any]]) -> None:
        opened.direct.request(self._targets.of(positions), self._blocks)
        positions.clear()

    def _commit(self, loaded: Iterable[tuple[ReadItem, Any]]) -> None:
        for item, target in loaded:
            self._planner.commit_tensor(item, target)

    def _take(
        self,
        opened: Opened,
        record: _Record,
        positions: list[tuple[int, Any, Any]],
        loaded: list[tuple[ReadItem, Any]],
    ) -> None:
        """Adds the tensors of a record of torch, or reads it at once if it is no plain tensor."""
        info, items = record.info, record.items
        view = opened.table(range(info.offset, info.offset + info.length))
        descriptors = info.transform_descriptors or ()
        is_tensor = items[0].type != LoadItemType.BYTE_IO
        if is_tensor and not descriptors and info.length > _SMALL:
            with contextlib.suppress(NoLayout):
                layout = Layout(view)
                at = layout.first_byte(layout.object)
                for item in items:
                    piece, target = self._pieces(layout.object, item)
                    if at is None:
                        target.copy_(piece)
                    else:
                        positions.append((info.offset + at, piece, target))
                        self._targets.expect(target)
                    loaded.append((item, target))
                return
        view.seek(0)
        stream = self._reader.transforms.transform_load_stream(items[0], descriptors, view)
        if not is_tensor:
            content = stream.read(-1)
            for item in items:
                self._planner.load_bytes(item, io.BytesIO(content))
            return
        is_read = not stream.seekable() or info.length <= _SMALL
        tensor = torch.load(io.BytesIO(stream.read(-1)) if is_read else stream, map_location="cpu", weights_only=True)
        for item in items:
            piece, target = self._pieces(tensor, item)
            if self._targets.are_expected_in(target):
                # The copy is later than they are.
                self._request(opened, positions)
                self._blocks.drain()
            target.copy_(piece)
            loaded.append((item, target))

    def _pieces(self, tensor: Any, item: ReadItem) -> tuple[Any, Any]:
        """Returns the piece of a tensor that an item needs, and the tensor to fill with it."""
        for dimension, (offset, length) in enumerate(zip(item.storage_offsets, item.lengths)):
            tensor = tensor.narrow(dimension, offset, length)
        target = self._planner.resolve_tensor(item).detach()
        if target.size() != tensor.size():
            raise ConfigError(
                f"{item.storage_index.fqn} has the shape {tuple(tensor.size())} in {self._reader.path}, and "
                f"{tuple(target.size())} in the state to load: make the model with the checkpoint's sizes"
            )
        return tensor, target


@dataclasses.dataclass
class _Record:
    """Record of torch in a file, and the items that need it."""

    info: Any
    items: list[ReadItem]

    def ends(self, direct: Direct) -> list[int]:
        """Returns the blocks that have its structure: its start, and its table at the end, which may cross two."""
        begin, end = self.info.offset, self.info.offset + self.info.length
        return sorted({*direct.numbers(begin, begin + 1), *direct.numbers(max(begin, end - _TABLE), end)})


@dataclasses.dataclass
class _Group:
    """Records of a file, with ends in few blocks."""

    opened: Opened
    records: list[_Record]
    ends: list[int]
    """Blocks with the ends of the records."""

    def start(self) -> None:
        """Requests the blocks with the ends."""
        self.opened.direct.start(self.ends)


def _groups(records: Iterable[_Record], opened: Opened) -> Iterator[_Group]:
    """Divides the records of a file into groups."""
    group: list[_Record] = []
    ends: set[int] = set()
    for record in records:
        if group and len(ends.union(record.ends(opened.direct))) > _ENDS:
            yield _Group(opened, group, sorted(ends))
            group, ends = [], set()
        group.append(record)
        ends.update(record.ends(opened.direct))
    if group:
        yield _Group(opened, group, sorted(ends))
