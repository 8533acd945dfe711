"""State that the copies of one data set share: in the rank's process and in its DataLoader workers.

It is in unnamed memory (a memfd), so nothing remains after the processes. A forked child inherits it; a spawned one
gets the descriptor with its pickled copy of the data set. Ranks share nothing: each counts its own epochs, and the
counts are equal because all ranks iterate in the same way. The workers of a pass agree on the epoch by the loader's
seed and the number of times that each has begun. A barrier would hang whenever one of them starts alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing import context, reduction
from typing import Any

__all__ = ["SharedState"]

# First page: next epoch; current epoch: number, iteration (seed, count, workers), and one bit for each worker that has
# started it. Second page: the checkpoint to resume, as JSON that ends with a NUL.
_EPOCHS = struct.Struct("<qqqqq")
_JOINED = slice(_EPOCHS.size, mmap.PAGESIZE)
_WORKERS_MAX = 8 * (mmap.PAGESIZE - _EPOCHS.size)
_RESUME = mmap.PAGESIZE
_SIZE = 2 * mmap.PAGESIZE


class SharedState:
    """Epoch counter and checkpoint of one data set in all processes of one rank."""

    def __init__(self) -> None:
        fd = os.memfd_create("forebay-dataset")
        os.truncate(fd, _SIZE)
        self._attach(fd)
        self._write(0, -1, (0, 0, 0))

    def _attach(self, fd: int) -> None:
        self._fd = fd
        # Not `__del__`: at the interpreter's end the names that it uses may be gone. The mapping closes itself.
        weakref.finalize(self, os.close, fd).atexit = False
        self._memory = mmap.mmap(fd, _SIZE)
        self._thread_lock = (os.getpid(), threading.Lock())

    @property
    def next_epoch(self) -> int:
        """Epoch that the next iteration starts."""
        return self._read()[0]

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        with self._locked():
            _, current, *iteration = self._read()
            self._write(epoch, current, tuple(iteration))

    @property
    def has_begun(self) -> bool:
        """True if a process of this rank has begun an epoch."""
        return self._read()[1] >= 0

    @property
    def resume(self) -> dict[str, Any] | None:
        """Checkpoint, if one was loaded."""
        text = self._memory[_RESUME:_SIZE].split(b"\0", 1)[0]
        return json.loads(text) if text else None

    @resume.setter
    def resume(self, state: dict[str, Any]) -> None:
        text = json.dumps(state, sort_keys=True).encode() + b"\0"
        if len(text) > _SIZE - _RESUME:
            raise ValueError(
                f"The StreamingDataset state dict takes {len(text)} bytes, more than {_SIZE - _RESUME}. It is "
                f"not a result of `state_dict`: {text.decode()}"
            )
        with self._locked():
            self._memory[_RESUME : _RESUME + len(text)] = text

    def begin(self, worker: int, iteration: tuple[int, int, int] | None, resolve: Callable[[int], int]) -> int:
        """Starts an epoch, or joins the epoch that a worker of the same iteration has already started.

        No worker waits for another: the first worker sets the number, and the rest of the iteration reads it.

        Args:
            worker: This worker of its rank.
            iteration: Key that is equal for the workers of one DataLoader iteration and different for each iteration: the
                loader's seed, the number of starts of each worker, and the number of workers. None outside of workers:
                always a new epoch.
            resolve: Function from the next epoch to the actual one, which a checkpoint may change.

        Returns:
            The next epoch, before `resolve`.
        """
        if worker >= _WORKERS_MAX:
            raise ValueError(f"a rank can have at most {_WORKERS_MAX} workers")
        byte, bit = _JOINED.start + worker // 8, 1 << worker % 8
        with self._locked():
            upcoming, current, *under_way = self._read()
            joined = self._memory[byte]
            if iteration is not None and tuple(under_way) == iteration and current >= 0 and not joined & bit:
                self._memory[byte] = joined | bit
                resolve(current)
                return current
            self._write(resolve(upcoming) + 1, upcoming, iteration or (0, 0, 0))
            self._memory[_JOINED] = bytes(_WORKERS_MAX // 8)
            self._memory[byte] = bit
            return upcoming

    def _read(self) -> tuple[int, ...]:
        return _EPOCHS.unpack_from(self._memory)

    def _write(self, upcoming: int, current: int, iteration: tuple[int, ...]) -> None:
        _EPOCHS.pack_into(self._memory, 0, upcoming, current, *iteration)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        pid, lock = self._thread_lock
        if pid != os.getpid():
            # A thread of the parent may have held the inherited lock during the fork.
            lock = threading.Lock()
            self._thread_lock = (os.getpid(), lock)
        with lock:
            # A process-owned lock: it works between a parent and its forked child although they share the descriptor,
            # and it ends with the process.
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Callable[..., SharedState], tuple[Any]]:
        # A descriptor can be passed only to a process that is being started; any other copy is independent.
        if context.get_spawning_popen() is not None:
            return _of_descriptor, (reduction.DupFd(self._fd),)
        return _of_bytes, (self._memory[:],)


def _of_descriptor(handle: Any) -> SharedState:
    state = SharedState.__new__(SharedState)
    state._attach(handle.detach())
    return state


def _of_bytes(content: bytes) -> SharedState:
    state = SharedState()
    state._memory[:] = content
    return state
