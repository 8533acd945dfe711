"""Threads that serve a queue of the engine until it closes, or the process ends."""

from __future__ import annotations

import abc
import atexit
import multiprocessing.util
import os
import threading
import weakref
from typing import Protocol


class _Queue(Protocol):
    def close(self) -> None:
        """Ends every wait for the next request."""


class QueueServer(abc.ABC):
    """A thread that takes the requests of a queue. At shutdown the queue is closed and the thread joined, because no thread
    may return from the engine into the interpreter then.

    Args:
        queue: The engine's queue.
        name: Name of the thread.
    """

    def __init__(self, queue: _Queue, name: str) -> None:
        self._queue = queue
        self.pid: int = os.getpid()
        self.thread: threading.Thread = threading.Thread(target=self.run, name=name, daemon=True)
        # Set before the thread starts, because Ctrl-C may arrive at once.
        _alive.add(self)
        _end_with_process()
        self.thread.start()

    @abc.abstractmethod
    def run(self) -> None:
        """Serves the queue until it closes."""

    def at_shutdown(self) -> None:
        """Is called before the queue is closed at the end of the process."""

    def end(self) -> None:
        """Closes the queue, unless this is a forked child, which has no such thread."""
        if self.pid == os.getpid():
            self.at_shutdown()
            self._queue.close()
            if self.thread.ident is not None:
                self.thread.join()


_alive: weakref.WeakSet[QueueServer] = weakref.WeakSet()
# Process in which `_end_all` is registered with multiprocessing too, as its processes end without exit handlers.
_ending_process: int | None = None


def _end_with_process() -> None:
    global _ending_process
    # Before the exit handlers of libraries that were imported by now: paramiko's closes connections.
    atexit.unregister(_end_all)
    atexit.register(_end_all)
    if _ending_process != os.getpid():
        _ending_process = os.getpid()
        multiprocessing.util.Finalize(None, _end_all, exitpriority=0)


def _end_all() -> None:
    for server in list(_alive):
        server.end()
