"""Files that the engine does not fetch itself: streams whose scheme it does not speak, through their downloaders.

The engine asks through a queue (`_forebay.Fetches`), from threads that never touch the interpreter. One thread of ours
takes from it, in each process that reads; it starts with the first file that is wanted, ends with the reader, and has each
file fetched by a thread of its own.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import multiprocessing.util
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ... import _forebay
from ._scratch import scratch_folder

if TYPE_CHECKING:
    from .storage.download import CloudDownloader
    from .stream import Stream

__all__ = ["outside"]


def outside(streams: Sequence[Stream]) -> tuple[_forebay.Fetches, list[int]] | None:
    """The queue for files of those streams that the engine does not fetch from, and their numbers; None without any."""
    numbers = [number for number, stream in enumerate(streams) if stream._is_outside]
    if not numbers:
        return None
    return _forebay.Fetches(functools.partial(_Service, streams)), numbers


# One thread at a time makes a reader. Taken around a fork, so that no child finds it taken by a thread that it has not.
making_reader = threading.Lock()
os.register_at_fork(before=making_reader.acquire, after_in_parent=making_reader.release, after_in_child=making_reader.release)


class _CalledOff(BaseException):
    """Ends a download that goes on and on. Not an `Exception`, after which a downloader might try again."""


class _Service:
    """The threads that answer one queue.

    Args:
        streams: The streams, by the numbers that requests have.
        queue: Where requests come from.
    """

    def __init__(self, streams: Sequence[Stream], queue: _forebay.Fetches) -> None:
        self.streams, self.queue = streams, queue
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._fetching: dict[int, threading.Thread] = {}
        # Downloaders that nobody uses, beside the stream's own that they are copies of.
        self._idle: dict[int, tuple[CloudDownloader, list[CloudDownloader]]] = {}
        self._at_end = contextlib.ExitStack()
        self._folder: str | None = None
        self._is_over = False
        self.thread = threading.Thread(target=self.run, name="forebay-downloads", daemon=True)
        # Before the thread starts: Ctrl-C may come at once.
        _alive.add(self)
        _end_with_process()
        self.thread.start()

    def run(self) -> None:
        while (wanted := self.queue.next()) is not None:
            if isinstance(wanted, int):
                self._call_off(wanted)
            else:
                self._start(wanted)
        with self._lock:
            self._is_over = True
            self._at_end.close()
        for _, idle in self._idle.values():
            for downloader in idle:
                _disconnect(downloader)

    def _start(self, wanted: _forebay.Fetch) -> None:
        thread = threading.Thread(target=self._answer, args=(wanted,), name="forebay-download", daemon=True)
        with self._lock:
            self._fetching[wanted.number] = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._fetching.pop(wanted.number)
            wanted.failed(error)

    def _answer(self, wanted: _forebay.Fetch) -> None:
        with contextlib.suppress(_CalledOff):
            try:
                self._fetch(wanted)
            except BaseException as error:  # noqa: BLE001: whoever waits for the file raises it
                wanted.failed(error)
            finally:
                with self._lock:
                    self._fetching.pop(wanted.number, None)

    def _fetch(self, wanted: _forebay.Fetch) -> None:
        stream = self.streams[wanted.stream]
        # Not in the stream's folder: what stands there is whole and checked, and nothing else.
        folder = tempfile.mkdtemp(dir=self._scratch())
        try:
            wanted.begin(folder)
            with self._downloader(stream) as downloader:
                path = stream._fetch_into(folder, wanted.key, downloader)
            wanted.done(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _scratch(self) -> str:
        with self._lock:
            if self._is_over:
                raise RuntimeError("the reader has gone that wanted the file")
            if self._folder is None:
                self._folder = self._at_end.enter_context(scratch_folder())
            return self._folder

    @contextlib.contextmanager
    def _downloader(self, stream: Stream) -> Iterator[CloudDownloader]:
        """A downloader for one file: a program's own, which several threads may use at once as with the reference, or else
        one of this thread alone. Letting go of a connection after a failure then breaks nobody else's."""
        own = stream._downloader
        if stream._has_given_downloader:
            yield own
            return
        idle = self._idle.setdefault(id(own), (own, []))[1]
        try:
            downloader = idle.pop()
        except IndexError:
            downloader = copy.copy(own)
        yield downloader
        # After a failure it is not used again.
        idle.append(downloader)
        if self._is_over:
            _disconnect(downloader)

    def _call_off(self, number: int) -> None:
        """Raises an exception in the thread of a fetch, which gets it when it next runs Python code."""
        with self._lock:
            # Whoever takes it out of there decides: a thread that has ended must not be meant, nor one that has its number.
            thread = self._fetching.pop(number, None)
            if thread is not None and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_CalledOff))

    def end(self) -> None:
        """No more requests. An interpreter that goes down must find no thread on its way back from the engine."""
        if self.pid == os.getpid():
            # Connections end with the process, and saying good-bye may take long.
            self._idle.clear()
            self.queue.close()
            if self.thread.ident is not None:
                self.thread.join()


def _disconnect(downloader: CloudDownloader) -> None:
    # Nobody waits for what comes of it.
    with contextlib.suppress(Exception):
        downloader.clean_up()


_alive: weakref.WeakSet[_Service] = weakref.WeakSet()
# The process in which `_end_all` is called at the end. Workers of a DataLoader end without exit handlers.
_ending_process: int | None = None


def _end_with_process() -> None:
    global _ending_process
    if _ending_process != os.getpid():
        _ending_process = os.getpid()
        multiprocessing.util.Finalize(None, _end_all, exitpriority=0)


def _end_all() -> None:
    for service in list(_alive):
        service.end()
