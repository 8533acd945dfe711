"""Writer of `torch.distributed.checkpoint`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ..._arguments import shown, whole
from ...errors import ConfigError
from ...files import StoreOptions
from ..commit import CheckpointPart
from ..folder import Folder
from ..formats import TorchSink
from ..memory import Memory, with_rest
from ..parts import PartWriter

_FILE_LEAST = 64 << 20
"""Bytes that are worth a separate file and thread."""

METADATA_FILE = ".metadata"
"""Name that torch's readers look for."""


@dataclasses.dataclass(frozen=True)
class _Names:
    """Start of the names of a rank's files."""

    root: str
    """Folder in the checkpoint's folder, with a slash at its end, or nothing."""
    prefix: str
    """Follows the root; torch's metadata has the names from here."""


@dataclasses.dataclass(frozen=True)
class _Result(WriteResult):
    """First result of a rank, which takes the rank's files to the coordinator."""

    parts: tuple[CheckpointPart, ...] = ()


class _Streams:
    """Files of one rank, instead of torch's file system."""

    def __init__(self, folder: Folder, root: str, memory: Memory, size: int) -> None:
        self._folder, self._root, self._memory, self._size = folder, root, memory, size
        self.parts: list[CheckpointPart] = []
        self.failure: BaseException | None = None
        """First failure of a file, which torch drops in its extra threads."""

    def concat_path(self, path: Any, suffix: str) -> str:
        return suffix

    @contextlib.contextmanager
    def create_stream(self, name: str, mode: str) -> Iterator[TorchSink]:
        try:
            with PartWriter(self._folder.url, f"{self._root}{name}", self._folder.store, self._size) as file:
                sink = TorchSink(file, self._memory)
                yield sink
                sink.check()
        except BaseException as error:
            self.failure = self.failure or error
            raise
        assert file.part is not None
        self.parts.append(file.part)


class StorageWriter(filesystem.FileSystemWriter):
    """`storage_writer` of `torch.distributed.checkpoint.save` and `async_save`.

    The checkpoint exists when all ranks have written their files, or not at all. A writer with `step` or `data` is for one
    save, since both are taken when it is made.

    Args:
        url: URL or path of the checkpoint's folder.
        data: The loader, or a dict of several loaders, or their states. The state is taken now.
        step: Training step.
        prefixes: Starts of the names of files, which spread requests over the partitions of a store: texts that the ranks use
            in turn, or a function of the rank.
        metadata: Facts to find again, as JSON.
        overwrite: Replace a checkpoint of this URL. It stays whole until the new one is.
        keep: Checkpoints in the folder above that stay after the commit; older ones are removed. None: all.
        threads: Most files that a rank writes at a time. Files of less than 64 MiB share one.
        store: Settings of the store that differ from the environment's.

    Raises:
        ConfigError: An argument is wrong.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        data: Any = None,
        step: int | None = None,
        prefixes: Sequence[str] | Callable[[int], str] | None = None,
        metadata: Any = None,
        overwrite: bool = False,
        keep: int | None = None,
        threads: int = 4,
        store: StoreOptions | None = None,
    ) -> None:
        folder = Folder(url, step=step, data=data, metadata=metadata, overwrite=overwrite, keep=keep, store=store)
        super().__init__(folder.url, sync_files=False)
        self._folder, self.path = folder, folder.url
        self._prefixes, self._threads = _prefixes(prefixes), whole("threads", threads, least=1, below=65)
        self._root, self._is_used = "", False

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a save, to the URL `checkpoint_id` if there is one."""
        if checkpoint_id is not None:
            old = self._folder
            given = {name: getattr(old, name) for name in ("step", "data", "metadata", "overwrite", "keep", "store")}
            self._folder = Folder(checkpoint_id, **given)
            self.path: str = self._folder.url
        super().reset()

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ConfigError("a checkpoint is whole on all ranks or on none: save it with use_collectives=True")
        if self._is_used and (self._folder.step is not None or self._folder.data is not None):
            raise ConfigError(
                "this StorageWriter has saved already, and its step and the loader's state belong to that save: make one "
                "for each save"
            )
        self._is_used = True
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Begins the folder, on the coordinator, before any rank has its plan."""
        names = [f"{self._prefixes(rank)}__{rank}_" for rank in range(len(plans))]
        if any(name.startswith("/") or ".." in name.split("/") for name in names):
            raise ConfigError(f"prefixes have to be relative, but they are {shown(names[:8])}")
        self._folder.check_ranks(len(plans))
        self._root = self._folder.begin()
        return [dataclasses.replace(plan, storage_data=_Names(self._root, name)) for plan, name in zip(plans, names)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        if getattr(planner, "_enable_plan_caching", False):
            if self._folder.overwrite:
                raise ConfigError(
                    "a planner with enable_plan_caching repeats the names of files, and overwrite needs new ones: use one of both"
                )
            # The names are from an earlier save, and only the coordinator has the names of this one.
            if self._root or plan.storage_data.root:
                raise ConfigError(
                    f"a planner with enable_plan_caching repeats the names of files, and {self.path} needs new ones after a save "
                    "that was not finished: remove it by forebay.checkpoint.remove before the job starts, or cache no plans"
                )
        done: Future[list[WriteResult]] = Future()
        done.set_result(self._write(plan, planner) if plan.items else [])
        return done

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        size = sum(
            math.prod(item.tensor_data.size) * item.tensor_data.properties.dtype.itemsize
            for item in plan.items
            if item.tensor_data is not None
        )
        self.thread_count: int = min(self._threads, len(plan.items), size // _FILE_LEAST + 1)
        memory = Memory(getattr(planner, "state_dict", None))
        streams = _Streams(self._folder, plan.storage_data.root, memory, with_rest(size))
        self.fs: Any = streams
        try:
            results = super().write_data(plan, planner).wait()
        finally:
            self.fs = filesystem.FileSystem()
        if streams.failure is not None:
            raise streams.failure
        if len(results) != len(plan.items):
            raise RuntimeError(f"torch has written {len(results)} of {len(plan.items)} items")
        first = results[0]
        return [_Result(first.index, first.size_in_bytes, first.storage_data, tuple(streams.parts)), *results[1:]]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes torch's metadata and the commit, on the coordinator, after all ranks have written."""
        written = [result for of_rank in results for result in of_rank]
        found = {
            "version": getattr(filesystem, "CURRENT_DCP_VERSION", None),
            "storage_data": {result.index: result.storage_data for result in written},
            "storage_meta": self.storage_meta(),
        }
        fields = {field.name for field in dataclasses.fields(metadata)}
        metadata = dataclasses.replace(metadata, **{name: value for name, value in found.items() if name in fields})
        streams = _Streams(self._folder, self._root, Memory(None), 0)
        with streams.create_stream(METADATA_FILE, "wb") as file:
            pickle.dump(metadata, file)
        parts = [part for result in written for part in getattr(result, "parts", ())]
        self._folder.commit([*parts, *streams.parts])

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return isinstance(checkpoint_id, (str, os.PathLike))


def _prefixes(given: Any) -> Callable[[int], str]:
    if callable(given):
        return given
    given = [""] if given is None else given
    if isinstance(given, str) or not given or not all(isinstance(each, str) for each in given):
        raise ConfigError(f"prefixes have to be a function of the rank or a list of texts, but they are {shown(given)}")
    return functools.partial(_in_turn, tuple(given))


def _in_turn(prefixes: Sequence[str], rank: int) -> str:
    return prefixes[rank % len(prefixes)]
