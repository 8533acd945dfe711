"""Barrier in named shared memory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

import numpy as np

from .array import SharedArray

__all__ = ["SharedBarrier"]

# Polling interval in seconds. Programs wait here a few times per epoch.
_LOOK_EVERY = 0.01


class SharedBarrier:
    """Barrier of a number of processes, which can be used any number of times.

    Data sets of this package do not use it. It is for programs that use the reference's.

    Args:
        filelock_path: Lock file, made by the first call.
        shm_name: Name in shared memory.
    """

    def __init__(self, filelock_path: str, shm_name: str) -> None:
        self.filelock_path = filelock_path
        self._arr = SharedArray(3, np.int32, shm_name)
        self.num_enter = 0
        self.num_exit = -1
        self.flag = True

    @property
    def num_enter(self) -> int:
        """Number of processes that have arrived."""
        return int(self._arr[0])

    @num_enter.setter
    def num_enter(self, value: int) -> None:
        self._arr[0] = value

    @property
    def num_exit(self) -> int:
        """Number of processes that have left; -1 before the first call."""
        return int(self._arr[1])

    @num_exit.setter
    def num_exit(self, value: int) -> None:
        self._arr[1] = value

    @property
    def flag(self) -> bool:
        """True if the processes that have arrived may continue."""
        return bool(self._arr[2])

    @flag.setter
    def flag(self, value: bool) -> None:
        self._arr[2] = bool(value)

    def __call__(self, num_procs: int) -> None:
        """Waits until `num_procs` processes are in this call."""
        self._enter(num_procs)
        while not self.flag:
            time.sleep(_LOOK_EVERY)
        with self._locked():
            self.num_exit += 1

    def _enter(self, num_procs: int) -> None:
        while True:
            with self._locked():
                # The first process of a round waits until the previous round has left: its flag is still set.
                if self.num_enter or self.num_exit in (-1, num_procs):
                    if not self.num_enter:
                        self.flag = False
                    self.num_enter += 1
                    if self.num_enter == num_procs:
                        self.num_enter = 0
                        self.num_exit = 0
                        self.flag = True
                    return
            time.sleep(_LOOK_EVERY)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        file = os.open(self.filelock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)
