"""What the copies of one data set share: the rank's own process and its DataLoader workers.

It lives in memory without a name (a memfd), so nothing is left behind whatever happens to the processes. A forked child
inherits it; a spawned one gets the descriptor along with its pickled copy of the data set. Ranks share nothing: each
counts its own epochs, and since all iterate alike they agree.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import struct
import threading
from collections.abc import Callable, Iterator
from multiprocessing import context, reduction
from typing import Any

__all__ = ["SharedState"]

# The first page: next epoch; the epoch under way: its number, the iteration it belongs to (seed, count, workers), and one
# bit for each worker that has begun it. The second page: the checkpoint to resume, as JSON that ends with a NUL.
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
        self._memory = mmap.mmap(fd, _SIZE)
        self._thread_lock = (os.getpid(), threading.Lock())

    @property
    def next_epoch(self) -> int:
        """The epoch that the next iteration begins."""
        return self._read()[0]

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        with self._locked():
            _, current, *iteration = self._read()
            self._write(epoch, current, tuple(iteration))

    @property
    def resume(self) -> dict[str, Any] | None:
        """The checkpoint, if one was loaded."""
        text = self._memory[_RESUME:_SIZE].split(b"\0", 1)[0]
        return json.loads(text) if text else None

    @resume.setter
    def resume(self, state: dict[str, Any]) -> None:
        text = json.dumps(state, sort_keys=True).encode() + b"\0"
        if len(text) > _SIZE - _RESUME:
            raise ValueError(
                f"The StreamingDataset state dict takes {len(text)} bytes, and {_SIZE - _RESUME} are there for it. It is "
                f"not one that `state_dict` returns: {text.decode()}"
            )
        with self._locked():
            self._memory[_RESUME : _RESUME + len(text)] = text

    def begin(self, worker: int, iteration: tuple[int, int, int] | None, resolve: Callable[[int], int]) -> int:
        """Begins an epoch, or joins the one that another worker of the same iteration has begun.

        Nobody waits for anybody: whoever comes first decides the number, and the others of the iteration find it.

        Args:
            worker: This worker of its rank.
            iteration: What all workers of one pass over the DataLoader have in common and no other pass has: the loader's
                seed, how often each has begun, and their number. None outside of workers: always a new epoch.
            resolve: From the epoch it would be to the one it is; a checkpoint may say another.

        Returns:
            The epoch it would be, before `resolve`.
        """
        if worker >= _WORKERS_MAX:
            raise ValueError(f"a rank may have {_WORKERS_MAX} workers at most")
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
            # A thread of the parent may have held the inherited one during the fork.
            lock = threading.Lock()
            self._thread_lock = (os.getpid(), lock)
        with lock:
            # Of the kind that belongs to the process: it conflicts between a parent and its forked child, although they
            # share the descriptor, and goes when the process does.
            fcntl.lockf(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Callable[..., SharedState], tuple[Any]]:
        # Only a process that is being started can be given a descriptor; any other copy has a life of its own.
        if context.get_spawning_popen() is not None:
            return _of_descriptor, (reduction.DupFd(self._fd),)
        return _of_bytes, (self._memory[:],)

    def __del__(self) -> None:
        if hasattr(self, "_memory"):
            self._memory.close()
            os.close(self._fd)


def _of_descriptor(handle: Any) -> SharedState:
    state = SharedState.__new__(SharedState)
    state._attach(handle.detach())
    return state


def _of_bytes(content: bytes) -> SharedState:
    state = SharedState()
    state._memory[:] = content
    return state
