"""Files that the engine does not fetch itself: streams whose scheme it does not speak, through their downloaders.

The engine asks through a queue (`_forebay.Fetches`), from threads that never touch the interpreter. One thread of ours
answers, in each process that reads; it starts with the first file that is wanted and ends with the reader.
"""

from __future__ import annotations

import atexit
import functools
import os
import tempfile
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ... import _forebay

if TYPE_CHECKING:
    from .stream import Stream

__all__ = ["outside"]


def outside(streams: Sequence[Stream]) -> tuple[_forebay.Fetches, list[int]] | None:
    """The queue for files of those streams that the engine does not fetch from, and their numbers; None without any."""
    numbers = [number for number, stream in enumerate(streams) if stream._is_outside]
    if not numbers:
        return None
    return _forebay.Fetches(functools.partial(_Service, streams)), numbers


class _Service:
    """The thread that answers one queue.

    Args:
        streams: The streams, by the numbers that requests have.
        queue: Where requests come from.
    """

    def __init__(self, streams: Sequence[Stream], queue: _forebay.Fetches) -> None:
        self.streams, self.queue = streams, queue
        self.pid = os.getpid()
        self.is_fetching = False
        self.thread = threading.Thread(target=self.run, name="forebay-download", daemon=True)
        _alive.add(self)
        self.thread.start()

    def run(self) -> None:
        while (wanted := self.queue.next()) is not None:
            self.is_fetching = True
            try:
                self.fetch(wanted)
            except BaseException as error:  # noqa: BLE001: whoever waits for the file raises it
                wanted.failed(error)
            self.is_fetching = False

    def fetch(self, wanted: _forebay.Fetch) -> None:
        if not wanted.is_wanted:
            return
        # Not in the stream's folder: what stands there is whole and checked, and nothing else.
        with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
            wanted.begin(folder)
            path = os.path.join(folder, os.path.basename(wanted.key))
            self.streams[wanted.stream]._download_to(wanted.key, path)
            wanted.done(path)

    def end(self) -> None:
        """No more requests. An interpreter that goes down must find no thread on its way back from the engine."""
        if self.pid == os.getpid():
            self.queue.close()
            if not self.is_fetching:
                self.thread.join()


_alive: weakref.WeakSet[_Service] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    for service in list(_alive):
        service.end()
