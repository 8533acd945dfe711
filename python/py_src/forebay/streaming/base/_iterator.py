"""An epoch in Python: for data sets whose program iterates, or prepares shards, in its own way.

Programs override `StreamingDataset.__iter__` with a copy of the reference's that does something more: it makes an `_Iterator`,
submits `_prepare_thread` and `_ready_thread` to an executor, and takes ids from `_each_sample_id`. The same parts are what we
iterate with where shards are prepared in Python.
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
    """The samples of an epoch, which begins when the first one is asked for. Those of the engine come without a call in Python.

    The reference's iterators are generators. An iterator that a DataLoader makes and nobody uses is no epoch, and a checkpoint
    that is loaded after one was made counts.
    """

    _begun: list[Any]

    def __new__(cls, begin: Callable[[], tuple[Any, Iterator[Any]]]) -> Epoch:
        begun: list[Any] = []

        def samples() -> Iterator[Iterator[Any]]:
            if not begun:
                closeable, given = begin()
                begun.append(closeable)
                yield given

        epoch = cls.from_iterable(samples())
        # It is not named above: in a circle the thread that fetches ahead would go on until that is collected.
        epoch._begun = begun
        return epoch

    def close(self) -> None:
        """Ends it."""
        if not self._begun:
            # Then it does not begin either.
            self._begun.append(None)
        elif self._begun[0] is not None:
            self._begun[0].close()


class _Iterator:
    """Where an epoch's threads stand: what has been prepared ahead, and what has been given out.

    Args:
        sample_ids: This worker's samples, int64; -1 where there is none.
    """

    def __init__(self, sample_ids: NDArray[np.int64]) -> None:
        self.sample_ids = sample_ids
        self.total = len(sample_ids)
        self.prepare_index = 0
        self._yield_index = 0
        # What ended the thread that prepares.
        self.error: BaseException | None = None
        self._ended = False
        self._preparing = 0
        self._changed = threading.Condition()
        _alive.add(self)

    @property
    def yield_index(self) -> int:
        """Places of `sample_ids` that have been given out. Programs that iterate in their own way count them here."""
        return self._yield_index

    @yield_index.setter
    def yield_index(self, places: int) -> None:
        with self._changed:
            self._yield_index = places
            self._changed.notify_all()

    @property
    def ready_index(self) -> int:
        """How far samples are ready: nothing that is given out has to wait for more than its own shard."""
        return self.total

    def non_blocking_exit(self) -> None:
        """Ends the epoch; its threads notice."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def exit(self) -> None:
        """Ends the epoch, and waits until nobody prepares shards for it."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._preparing)

    def should_exit(self) -> bool:
        """Whether it has ended."""
        return self._ended

    def on_exit(self) -> None:
        """Taken for compatibility: a thread that ends is noticed by itself."""

    def failed(self, error: BaseException) -> None:
        """Ends the epoch with what a thread of it failed with."""
        with self._changed:
            self.error = self.error or error
        self.non_blocking_exit()

    def begin_preparing(self) -> None:
        """A thread prepares shards from now on."""
        with self._changed:
            self._preparing += 1

    def end_preparing(self, error: BaseException | None) -> None:
        """It does no more; `error` is what it failed with."""
        with self._changed:
            self._preparing -= 1
            self.error = self.error or error
            self._changed.notify_all()

    def wait_for_room(self, ahead: int) -> bool:
        """Waits until less than `ahead` samples are prepared and not given out; False when the epoch has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self.prepare_index - self.yield_index <= ahead)
            return not self._ended

    def given_out(self) -> None:
        """One more sample has been given out."""
        self.yield_index += 1


_alive: weakref.WeakSet[_Iterator] = weakref.WeakSet()


def _end_all() -> None:
    for it in list(_alive):
        it.non_blocking_exit()


# An executor waits for its threads when the interpreter ends, before ordinary exit handlers run.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]


class IteratesInPython:
    """The part of a data set that reads samples with the shards' own readers and fetches ahead through its `prepare_shard`."""

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
        # Programs' own `_prepare_thread` and `_each_sample_id` look at it.
        self._event = threading.Event()
        thread = threading.Thread(target=self._prepare_quietly, args=(it,), name="forebay-prepare", daemon=True)
        thread.start()
        try:
            yield from map(self.__getitem__, self._each_sample_id(it))
            if it.error is not None:
                raise it.error
            # It would keep this data set alive until it notices.
            it.non_blocking_exit()
            thread.join()
        finally:
            it.non_blocking_exit()

    def _prepare_quietly(self, it: _Iterator) -> None:
        try:
            self._prepare_thread(it)
        except BaseException as error:  # noqa: BLE001: who iterates raises it
            it.failed(error)

    def _prepare_thread(self, it: _Iterator) -> None:
        """Prepares the shards of an epoch's samples, `predownload` samples ahead of those that are given out.

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
                        # Where somebody else is in the way, the next sample asks again.
                        if shard_id not in self._own_shards or self._own_shards.seems_here(shard_id):
                            seen = shard_id
                it.prepare_index += 1
        except BaseException as caught:
            error = caught
            raise
        finally:
            it.end_preparing(error)

    def _ready_thread(self, it: _Iterator) -> None:
        """Nothing: whoever reads a sample waits for its shard. The reference waits here.

        Args:
            it: The epoch.
        """

    def _each_sample_id(self, it: _Iterator) -> Iterator[int]:
        """The ids of an epoch's samples, until a new one begins.

        Args:
            it: The epoch.

        Raises:
            Exception: What preparing a shard ahead failed with.
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
        """Notes that a thread has failed, for programs that iterate in their own way; `_each_sample_id` raises it.

        Args:
            future: What the thread came to.
        """
        if future.exception() is not None and hasattr(self, "_event"):
            self._event.set()

    def _read_in_python(self, sample_id: int, retry: int) -> Any:
        shard_id, index = self.spanner[sample_id]
        shard = self.shards[shard_id]
        is_own = shard_id in self._own_shards
        if is_own and not self._own_shards.seems_here(shard_id):
            # What prepares it may write it piece by piece under its final name: this waits until it is whole.
            self.prepare_shard(shard_id)
        missing = None
        for _ in range(1 + retry):
            try:
                sample = shard[index]
            except FileNotFoundError as error:
                # Its traceback would keep this frame, and with it the data set.
                missing = error.with_traceback(None)
                self.prepare_shard(shard_id)
                continue
            if is_own:
                self._own_shards.touch(shard_id)
            return sample
        raise RuntimeError(
            f"sample {sample_id} could not be read: after {1 + retry} calls of `prepare_shard`, shard {shard_id} is still "
            "not there, or is removed each time. Look at the stream's `prepare_shard` and at `cache_limit`"
        ) from missing

    # Names of the reference that programs look at, or make lock files with.

    @property
    def _shard_states(self) -> ShardStates:
        """Where each shard is, by its number."""
        return ShardStates(self.shards)

    @property
    def _cache_filelock(self) -> AbstractContextManager[object]:
        """What programs hold while they look at `_shard_states`, which nothing here depends on: a lock of the caller's alone."""
        return threading.RLock()

    @property
    def _filelock_root(self) -> str:
        """A folder for a program's lock files; this package makes none."""
        return os.path.join(tempfile.gettempdir(), "streaming")

    @property
    def _shm_prefix_int(self) -> int:
        """A number that data sets of the same folders share."""
        names = json.dumps([os.path.abspath(folder(stream)) for stream in self.streams])
        return int.from_bytes(hashlib.blake2s(names.encode(), digest_size=4).digest(), "big")
