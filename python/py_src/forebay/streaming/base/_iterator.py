"""Iteration in Python, for programs with their own iteration or their own preparation of shards.

Some programs override `StreamingDataset.__iter__` with an extended copy of the reference's: it makes an `_Iterator`,
submits `_prepare_thread` and `_ready_thread` to an executor, and takes ids from `_each_sample_id`. If shards are
prepared in Python, this package iterates with the same parts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._own_shards import OwnShards, folder
from ._states import ShardStates

if TYPE_CHECKING:
    from .format import Reader
    from .spanner import Spanner
    from .stream import Stream

__all__ = ["Epoch", "IteratesInPython", "_Iterator"]


class Epoch(itertools.chain):
    """Samples of an epoch, which starts at the first sample. Samples of the engine need no call in Python.

    The reference's iterators are generators. An unused iterator of a DataLoader therefore does not start an epoch, and
    a checkpoint that is loaded after its creation still applies.
    """

    _begun: list[Any]

    def __new__(cls, begin: Callable[[], tuple[Any, Iterator[Any]]], ended: Callable[[], None] | None = None) -> Epoch:
        begun: list[Any] = []

        def samples() -> Iterator[Iterator[Any]]:
            if not begun:
                closeable, given = begin()
                begun.append(closeable)
                yield given
                if ended is not None:
                    ended()

        epoch = cls.from_iterable(samples())
        # Not referenced above: in a reference cycle the prefetch thread would run until a garbage collection.
        epoch._begun = begun
        return epoch

    def close(self) -> None:
        """Ends the epoch."""
        if not self._begun:
            # An epoch that has not started does not start.
            self._begun.append(None)
        elif self._begun[0] is not None:
            self._begun[0].close()


class _IterState(IntEnum):
    """State of an `_Iterator`, with the reference's numbers."""

    ITERATING = 0
    EXITING = 1
    EXITED = 2


class _Iterator:
    """Progress of an epoch's threads: samples that are prepared, and samples that are delivered.

    Args:
        sample_ids: This worker's samples, int64; -1 where there is none.
    """

    def __init__(self, sample_ids: NDArray[np.int64]) -> None:
        self.sample_ids = sample_ids
        self.total = len(sample_ids)
        self.prepare_index = 0
        self._yield_index = 0
        # Failure of the thread that prepares shards.
        self.error: BaseException | None = None
        self._ended = False
        self._preparing = 0
        self._changed = threading.Condition()
        _alive.add(self)

    @property
    def yield_index(self) -> int:
        """Number of delivered positions of `sample_ids`. Programs with their own iteration set it."""
        return self._yield_index

    @yield_index.setter
    def yield_index(self, places: int) -> None:
        with self._changed:
            self._yield_index = places
            self._changed.notify_all()

    @property
    def ready_index(self) -> int:
        """Number of ready positions: a delivered sample waits at most for its own shard."""
        return self.total

    def non_blocking_exit(self) -> None:
        """Ends the epoch without waiting for its threads."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def exit(self) -> None:
        """Ends the epoch and waits for the threads that prepare its shards."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._preparing)

    def should_exit(self) -> bool:
        """Returns true if the epoch has ended."""
        return self._ended

    def on_exit(self) -> None:
        """Does nothing; for compatibility."""

    def failed(self, error: BaseException) -> None:
        """Ends the epoch with the failure of one of its threads."""
        with self._changed:
            self.error = self.error or error
        self.non_blocking_exit()

    def begin_preparing(self) -> None:
        """Registers a thread that prepares shards."""
        with self._changed:
            self._preparing += 1

    def end_preparing(self, error: BaseException | None) -> None:
        """Unregisters such a thread; `error` is its failure."""
        with self._changed:
            self._preparing -= 1
            self.error = self.error or error
            self._changed.notify_all()

    def wait_for_room(self, ahead: int) -> bool:
        """Waits until fewer than `ahead` prepared samples are not delivered yet; returns False if the epoch has
        ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.prepare_index - self.yield_index <= ahead)
            return not self._ended

    def given_out(self) -> None:
        """Counts a delivered sample."""
        self.yield_index += 1


_alive: weakref.WeakSet[_Iterator] = weakref.WeakSet()


def _end_all() -> None:
    for it in list(_alive):
        it.non_blocking_exit()


# At exit an executor joins its threads before ordinary exit handlers run.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]


class IteratesInPython:
    """Mixin of a data set: reads samples with the shards' own readers and prefetches with `prepare_shard`."""

    streams: Sequence[Stream]
    shards: Sequence[Reader]
    spanner: Spanner
    predownload: int | None
    _own_shards: OwnShards

    if TYPE_CHECKING:

        def __getitem__(self, at: Any) -> Any: ...
        def prepare_shard(self, shard_id: int, blocking: bool = True) -> None: ...

    def _iterate_in_python(self, sample_ids: NDArray[np.int64]) -> Iterator[Any]:
        self._iterator = it = _Iterator(sample_ids)
        # Programs' own `_prepare_thread` and `_each_sample_id` use it.
        self._event = threading.Event()
        thread = threading.Thread(target=self._prepare_quietly, args=(it,), name="forebay-prepare", daemon=True)
        thread.start()
        try:
            yield from map(self.__getitem__, self._each_sample_id(it))
            if it.error is not None:
                raise it.error
            # The thread would keep this data set alive until it ends.
            it.non_blocking_exit()
            thread.join()
        finally:
            it.non_blocking_exit()

    def _prepare_quietly(self, it: _Iterator) -> None:
        try:
            self._prepare_thread(it)
        except BaseException as error:  # noqa: BLE001: raised by the iteration
            it.failed(error)

    def _prepare_thread(self, it: _Iterator) -> None:
        """Prepares the shards of an epoch's samples, `predownload` samples ahead of the delivered ones.

        Args:
            it: The epoch.
        """
        it.begin_preparing()
        error = None
        try:
            seen = -1
            while it.prepare_index < it.total and it.wait_for_room(max(self.predownload or 0, 0)):
                sample_id = it.sample_ids[it.prepare_index]
                if sample_id != -1:
                    shard_id, _ = self.spanner[int(sample_id)]
                    if shard_id != seen:
                        self.prepare_shard(shard_id, False)
                        # A shard that a different process is preparing is tried again with the next sample.
                        if shard_id not in self._own_shards or self._own_shards.is_known_resident(shard_id):
                            seen = shard_id
                it.prepare_index += 1
        except BaseException as caught:
            error = caught
            raise
        finally:
            it.end_preparing(error)

    def _ready_thread(self, it: _Iterator) -> None:
        """Does nothing: reading a sample waits for its shard. The reference waits here.

        Args:
            it: The epoch.
        """

    def _each_sample_id(self, it: _Iterator) -> Iterator[int]:
        """Yields the ids of an epoch's samples, until a new epoch starts.

        Args:
            it: The epoch.

        Raises:
            Exception: Preparing a shard ahead failed.
        """
        for sample_id in it.sample_ids:
            if it.error is not None:
                raise it.error
            if it.should_exit():
                return
            if sample_id != -1:
                yield int(sample_id)
            it.given_out()

    def on_exception(self, future: Future[Any]) -> None:
        """Records the failure of a thread, for programs with their own iteration; `_each_sample_id` raises it.

        Args:
            future: Result of the thread.
        """
        if future.exception() is not None and hasattr(self, "_event"):
            self._event.set()

    def _read_in_python(self, sample_id: int, retry: int) -> Any:
        shard_id, index = self.spanner[sample_id]
        shard = self.shards[shard_id]
        is_own = shard_id in self._own_shards
        if is_own and not self._own_shards.is_known_resident(shard_id):
            # A program may write the file in pieces under its final name: wait until it is complete.
            self.prepare_shard(shard_id)
        missing = None
        for attempt in range(1 + retry):
            try:
                # A different process may remove a shard after it was prepared, to make room for its own shards.
                sample = self._own_shards.read(shard_id, index) if is_own and attempt else shard[index]
            except FileNotFoundError as error:
                # Its traceback would keep this frame and the data set alive.
                missing = error.with_traceback(None)
                self.prepare_shard(shard_id)
                continue
            if is_own:
                self._own_shards.touch(shard_id)
            return sample
        raise RuntimeError(
            f"sample {sample_id} could not be read: after {1 + retry} calls of `prepare_shard`, shard {shard_id} is still "
            "missing, or is removed each time. Check the stream's `prepare_shard`, and `cache_limit`"
        ) from missing

    # Names of the reference that programs read, or use for lock files.

    @property
    def _shard_states(self) -> ShardStates:
        """State of each shard by its number."""
        return ShardStates(self.shards)

    @property
    def _cache_filelock(self) -> AbstractContextManager[object]:
        """Lock that programs hold while they read `_shard_states`. It is local to the caller and not used here."""
        return threading.RLock()

    @property
    def _filelock_root(self) -> str:
        """Folder for a program's lock files; this package makes none."""
        return os.path.join(tempfile.gettempdir(), "streaming")

    @property
    def _shm_prefix_int(self) -> int:
        """Number that data sets of the same folders share."""
        names = json.dumps([os.path.abspath(folder(stream)) for stream in self.streams])
        return int.from_bytes(hashlib.blake2s(names.encode(), digest_size=4).digest(), "big")
