"""Downloads of streams with a scheme that the engine does not support, through the streams' downloaders.

The engine sends requests through a queue (`_forebay.Fetches`), from threads that never call the interpreter. In each
process that reads, one Python thread serves the queue. It starts with the first request, ends with the reader, and
starts a thread for each file.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from ... import _forebay
from ...remotes.service import QueueServer
from ._scratch import scratch_folder
from .storage._downloader import CloudDownloader

__all__ = ["DownloaderStream", "downloader_queue", "making_reader"]


class DownloaderStream(Protocol):
    """Part of a `Stream` that fetches its files in Python."""

    _uses_downloader: bool
    _has_given_downloader: bool
    _downloader: CloudDownloader

    def _fetch_into(self, folder: str, name: str, downloader: CloudDownloader) -> str:
        """Fetches the file `name` into `folder` with `downloader`; returns its path."""


def downloader_queue(streams: Sequence[DownloaderStream]) -> tuple[_forebay.Fetches, list[int]] | None:
    """Returns the queue for streams that the engine does not fetch from, and their numbers; None if there are none."""
    numbers = [number for number, stream in enumerate(streams) if stream._uses_downloader]
    if not numbers:
        return None
    return _forebay.Fetches(functools.partial(_Service, streams)), numbers


# One thread at a time makes a reader. Held during a fork, so that a child does not inherit it locked by a different thread.
making_reader = threading.Lock()
os.register_at_fork(before=making_reader.acquire, after_in_parent=making_reader.release, after_in_child=making_reader.release)


class _Cancelled(BaseException):
    """Ends a download that does not end by itself. Not an `Exception`, because downloaders may retry after one."""


class _Service(QueueServer):
    """Threads that serve one queue.

    Args:
        streams: The streams by their number in requests.
        queue: Queue of the requests.
    """

    def __init__(self, streams: Sequence[DownloaderStream], queue: _forebay.Fetches) -> None:
        self.streams, self.queue = streams, queue
        self._lock = threading.Lock()
        self._fetching: dict[int, threading.Thread] = {}
        # Idle copies of the streams' own downloaders.
        self._idle: dict[int, tuple[CloudDownloader, list[CloudDownloader]]] = {}
        self._at_end = contextlib.ExitStack()
        self._folder: str | None = None
        self._is_over = False
        super().__init__(queue, "forebay-downloads")

    def run(self) -> None:
        while (request := self.queue.next()) is not None:
            if isinstance(request, int):
                self._cancel(request)
            else:
                self._start(request)
        with self._lock:
            self._is_over = True
            self._at_end.close()
        for _, idle in self._idle.values():
            for downloader in idle:
                _disconnect(downloader)

    def _start(self, request: _forebay.Fetch) -> None:
        thread = threading.Thread(target=self._answer, args=(request,), name="forebay-download", daemon=True)
        with self._lock:
            self._fetching[request.number] = thread
        try:
            thread.start()
        except RuntimeError as error:
            self._fetching.pop(request.number)
            request.failed(error)

    def _answer(self, request: _forebay.Fetch) -> None:
        with contextlib.suppress(_Cancelled):
            try:
                self._fetch(request)
            except BaseException as error:  # noqa: BLE001: raised by the reader that waits for the file
                request.failed(error)
            finally:
                with self._lock:
                    self._fetching.pop(request.number, None)

    def _fetch(self, request: _forebay.Fetch) -> None:
        stream = self.streams[request.stream]
        # Not in the stream's folder, which has only complete, checked files.
        folder = tempfile.mkdtemp(dir=self._scratch())
        try:
            request.begin(folder)
            with self._downloader(stream) as downloader:
                path = stream._fetch_into(folder, request.key, downloader)
            request.done(path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _scratch(self) -> str:
        with self._lock:
            if self._is_over:
                raise RuntimeError("the reader of this file has been closed")
            if self._folder is None:
                self._folder = self._at_end.enter_context(scratch_folder())
            return self._folder

    @contextlib.contextmanager
    def _downloader(self, stream: DownloaderStream) -> Iterator[CloudDownloader]:
        """Provides a downloader for one file: the program's own, which threads share as in the reference, or else one
        for this thread alone. Dropping its connection after a failure then does not affect the remaining threads."""
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
        # Not reused after a failure.
        idle.append(downloader)
        if self._is_over:
            _disconnect(downloader)

    def _cancel(self, number: int) -> None:
        """Raises an exception in the thread of a fetch, at its next Python instruction."""
        with self._lock:
            # The removal decides: the exception must not reach a thread that has ended, or a new one with its number.
            thread = self._fetching.pop(number, None)
            if thread is not None and thread.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Cancelled))

    def at_shutdown(self) -> None:
        # Connections end with the process, and an orderly close may take long.
        self._idle.clear()


def _disconnect(downloader: CloudDownloader) -> None:
    # The result does not matter.
    with contextlib.suppress(Exception):
        downloader.clean_up()
