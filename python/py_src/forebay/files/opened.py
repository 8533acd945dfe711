"""File objects."""

from __future__ import annotations

import codecs
import io
import itertools
import logging
import operator
import os
from collections.abc import Iterator
from typing import Any, Literal, overload

from .._arguments import one_of
from .._choices import OpenMode
from ..errors import ConfigError
from .stores import StoreOptions, opened, url_of

_FRONT = 1 << 20
"""Bytes that are fetched when a file is opened."""

_CHUNK = 8 << 20
"""Bytes of one request of sequential reads, and of one append of a writer."""

_SMALL = 256 << 10
"""Bytes of the request of a read after a jump, unless more are needed."""

_WINDOW = 128 << 10
"""Bytes from which an iterator takes the lines at once: they are copied, and again after each read between two lines."""

_AHEAD_MAX = 8
"""Chunks that are fetched ahead of sequential reads."""


_log = logging.getLogger("forebay")


class Reader(io.BufferedIOBase):
    """File that is read at any position. A class of it has `read` or `readinto`."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)

    def readinto1(self, buffer: Any, /) -> int:
        return self.readinto(buffer)


class FileReader(Reader):
    """File of a store that is read: by `open(url)`.

    Sequential reads fetch ahead. All bytes are of one version: an error is raised if the file is replaced meanwhile. One thread at a
    time uses it: open the file in each thread.
    """

    mode = "rb"

    def __init__(self, url: str, store: StoreOptions | None = None) -> None:
        super().__init__()
        # Lines from the position on that an iterator returns: the ones that it has returned come on top of the position. `close` needs
        # it, also of a file that could not be opened.
        self._lines: io.BytesIO | None = None
        self.name: str = url_of("url", url)
        self._ranges: Any = opened(store).open(self.name, _FRONT)
        self._at = 0
        # The received chunk and its offset; chunks in flight by their offset; how many to fetch ahead.
        self._chunk, self._chunk_at = self._ranges.front(), 0
        self._in_flight: dict[int, Any] = {}
        self._ahead = 1

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._ranges.size

    def tell(self) -> int:
        if self._lines is not None:
            return self._at + self._lines.tell()
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence must be 0, 1 or 2, not {whence}")
        at = operator.index(offset) + (0, self._at, self.size)[whence]
        if at < 0:
            raise ValueError(f"a position before the start of the file: {at}")
        self._at = at
        return at

    def read(self, size: int | None = -1, /) -> bytes:
        self._check()
        left = max(self.size - self._at, 0)
        size = left if size is None or size < 0 else min(size, left)
        pieces = []
        while size > 0:
            piece = self._piece(size)
            pieces.append(piece)
            size -= len(piece)
            self._at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read1(self, size: int = -1, /) -> bytes:
        self._check()
        begin = self._at - self._chunk_at
        at_hand = len(self._chunk) - begin if 0 <= begin < len(self._chunk) else _CHUNK
        return self.read(at_hand if size < 0 else min(size, at_hand))

    def readline(self, size: int | None = -1, /) -> bytes:
        # A base class would read byte by byte.
        self._check()
        left = max(self.size - self._at, 0)
        left = left if size is None or size < 0 else min(size, left)
        pieces = []
        while left > 0:
            begin = self._at - self._chunk_at
            if not 0 <= begin < len(self._chunk):
                self._turn(1)
                continue
            end = min(begin + left, len(self._chunk))
            end = self._chunk.find(b"\n", begin, end) + 1 or end
            pieces.append(self._chunk[begin:end])
            self._at += end - begin
            left -= end - begin
            if pieces[-1].endswith(b"\n"):
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __iter__(self) -> Iterator[bytes]:
        """Returns an iterator of the lines from the position on, which it moves. Reads and jumps may be in between."""
        self._check()
        return self._lines_on()

    def _lines_on(self) -> Iterator[bytes]:
        while self.tell() < self.size:
            self._end_lines()
            begin = self._at - self._chunk_at
            end = self._chunk.rfind(b"\n", begin, begin + _WINDOW) + 1 if begin >= 0 else 0
            if end:
                # A call for each line, as by the base class, would be most of the time of short ones.
                self._lines = io.BytesIO(self._chunk[begin:end])
                # Not from the lines themselves: an iterator that is dropped would close them, and their position is needed.
                yield from itertools.chain(self._lines)
            else:
                yield self.readline()

    def _end_lines(self) -> None:
        """Ends the iterators of lines in the chunk. They begin again at the position."""
        if (lines := self._lines) is not None:
            self._at, self._lines = self.tell(), None
            lines.seek(0, io.SEEK_END)

    def _piece(self, size: int) -> bytes:
        """Returns at most `size` bytes at the position, which is before the end."""
        begin = self._at - self._chunk_at
        if 0 <= begin < len(self._chunk):
            return self._chunk[begin : begin + size]
        if size >= _CHUNK and self._at not in self._in_flight:
            # It is divided into ranges that are fetched in parallel.
            return self._ranges.fetch(self._at, self._at + size).wait()
        self._turn(size)
        return self._piece(size)

    def _turn(self, size: int) -> None:
        """Receives the chunk at the position, from which `size` bytes are needed, and requests the ones after it."""
        length = _CHUNK
        if self._at not in self._in_flight and self._at != self._chunk_at + len(self._chunk):
            self._in_flight, self._ahead = {}, 0
            length = max(size, _SMALL)
        for start in (self._at + number * length for number in range(1 + self._ahead)):
            if start < self.size and start not in self._in_flight:
                self._in_flight[start] = self._ranges.fetch(start, min(start + length, self.size))
        self._chunk, self._chunk_at = self._in_flight.pop(self._at).wait(), self._at
        self._ahead = min(max(2 * self._ahead, 1), _AHEAD_MAX)

    def close(self) -> None:
        self._end_lines()
        self._in_flight, self._chunk = {}, b""
        super().close()

    def _check(self) -> None:
        self._end_lines()
        if self.closed:
            raise ValueError(f"the file is closed: {self.name}")


class FileWriter(io.BufferedIOBase):
    """File of a store that is written: by `open(url, "wb")`.

    Parts are sent while more is written. The file appears when it is closed. After an exception inside `with`, and when the
    object is dropped without `close`, there is no file, and one of that name that existed stays as it was.
    """

    mode = "wb"

    def __init__(self, url: str, store: StoreOptions | None = None, size: int | None = None) -> None:
        super().__init__()
        self._upload: Any = None
        self.name: str = url_of("url", url)
        # The largest size, if it is known: parts are equal up to it.
        self._upload, self._pid = opened(store).upload(self.name, size), os.getpid()
        self._buffer = bytearray()
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._at

    def write(self, data: Any, /) -> int:
        self._check()
        with memoryview(data).cast("B") as view:
            count = len(view)
            if count >= _CHUNK:
                self._send()
                for start in range(0, count, _CHUNK):
                    self._upload.write(bytes(view[start : start + _CHUNK]))
            else:
                self._buffer += view
                if len(self._buffer) >= _CHUNK:
                    self._send()
        self._at += count
        return count

    def _send(self) -> None:
        if self._buffer:
            data, self._buffer = bytes(self._buffer), bytearray()
            self._upload.write(data)

    def close(self) -> None:
        """Waits until the store has the file.

        Raises:
            Error: The store does not take it; there is no file then.
        """
        if self.closed or self._upload is None:
            super().close()
            return
        upload = self._upload
        try:
            self._send()
            upload.finish()
        finally:
            self._upload = None
            super().close()

    def abandon(self) -> None:
        """Closes without a file."""
        if self._upload is not None:
            upload, self._upload = self._upload, None
            upload.abandon()
        super().close()

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        # A base class would complete the file.
        if not self.closed:
            _warn_of_drop(self)
            self.abandon()

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"the file is closed: {self.name}")


@overload
def open(url: str, mode: Literal["rb"] = ..., *, store: StoreOptions | None = ...) -> FileReader: ...
@overload
def open(url: str, mode: Literal["wb"], *, store: StoreOptions | None = ...) -> FileWriter: ...
@overload
def open(
    url: str, mode: Literal["r", "w", "rt", "wt"], *, encoding: str | None = ..., errors: str | None = ..., newline: str | None = ...,
    store: StoreOptions | None = ...,
) -> io.TextIOWrapper: ...
def open(
    url: str,
    mode: OpenMode = "rb",
    *,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    store: StoreOptions | None = None,
) -> Any:
    """Opens a file of a store, as in `with forebay.open("s3://bucket/a.txt", "w") as file: file.write("text")`.

    Args:
        url: URL, or a path.
        mode: "rb" to read, "wb" to write; "r" and "w" for text.
        encoding: Encoding of text, by default UTF-8.
        errors: Treatment of characters that the encoding does not have, as in the built-in `open`.
        newline: Ends of lines, as in the built-in `open`: "" leaves them as they are, for the module csv.
        store: Settings that differ from the environment's.

    Returns:
        A `FileReader` or `FileWriter`, both of `io.BufferedIOBase`, or one of them in an `io.TextIOWrapper`.

    Raises:
        NotFoundError: There is no such file to read.
        ConfigError: An argument is wrong.
    """
    mode = one_of("mode", mode, ("rb", "wb", "r", "w", "rt", "wt"))
    kind = FileReader if mode.startswith("r") else FileWriter
    if mode.endswith("b"):
        if (encoding, errors, newline) != (None, None, None):
            raise ConfigError(f'encoding, errors and newline are for text: pass mode="{mode[0]}", or leave them out')
        return kind(url, store)
    try:
        # Before a request.
        io.TextIOWrapper(io.BytesIO(), encoding=encoding or "utf-8", errors=errors, newline=newline)
    except (LookupError, TypeError, ValueError) as error:
        raise ConfigError(f"encoding, errors and newline are as for the built-in open, but {error}") from None
    file = kind(url, store)
    if kind is FileWriter and codecs.lookup(encoding or "utf-8").name in ("utf-16", "utf-32"):
        # A text file that has no positions leaves the mark of the byte order out.
        file.write("".encode(encoding))
    return _Text(file, encoding=encoding or "utf-8", errors=errors, newline=newline)


class _Text(io.TextIOWrapper):
    """Text file that leaves no file after an exception, or without `close`, as a binary one."""

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is not None and isinstance(self.buffer, FileWriter):
            self.buffer.abandon()
            return
        super().__exit__(kind, *rest)

    def __del__(self) -> None:
        # A base class would complete the file.
        try:
            file = self.buffer
        except (AttributeError, ValueError):
            return
        if isinstance(file, FileWriter) and not file.closed:
            _warn_of_drop(file)
            file.abandon()


def _warn_of_drop(file: FileWriter) -> None:
    # Wrappers such as gzip.open's leave the file that they were given open. A forked process has copies of files.
    if file._upload is not None and file._pid == os.getpid():
        _log.warning("%s is not written: its file object was dropped without close(). Use it in a with block", file.name)
