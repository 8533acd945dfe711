"""File objects."""

from __future__ import annotations

import codecs
import io
import logging
import os
from typing import Any, Literal, get_args, overload

from .._arguments import one_of
from .._choices import OpenMode
from ..errors import ConfigError
from .stores import StoreOptions, opened, url_of

_FRONT = 1 << 20
"""Bytes that are fetched when a file is opened."""

_CHUNK = 8 << 20
"""Bytes of one request of sequential reads, and of one append of a writer."""

_BUFFER = 128 << 10
"""Bytes that small reads and lines are cut from. A read after a jump requests as many more than it needs."""

_AHEAD_MAX = 8
"""Chunks that are fetched ahead of sequential reads."""


_log = logging.getLogger("forebay")


class PositionedFile(io.RawIOBase):
    """Raw file that is read at a position."""

    _at = 0

    size: int
    """Bytes of the file."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0, self._at, self.size)[whence]
        if at < 0:
            raise ValueError(f"a position before the start of the file: {at}")
        self._at = at
        return at


class _Chunks(PositionedFile):
    """Bytes of a file in a store, fetched in chunks, and ahead of sequential reads."""

    mode = "rb"

    def __init__(self, url: str, store: StoreOptions | None) -> None:
        self.name: str = url_of("url", url)
        self._ranges: Any = opened(store).open(self.name, _FRONT)
        self.size: int = self._ranges.size
        # The received chunk and its offset; chunks in flight by their offset; how many to fetch ahead.
        self._chunk, self._chunk_at = memoryview(self._ranges.front()), 0
        self._in_flight: dict[int, Any] = {}
        self._ahead = 1

    def readinto(self, buffer: Any, /) -> int:
        with memoryview(buffer).cast("B") as view:
            piece = self._piece(len(view))
            view[: len(piece)] = piece
            return len(piece)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._piece(self.size), b""))

    def _piece(self, size: int) -> bytes | memoryview:
        """Returns at most `size` bytes at the position, which moves to their end. Only at the end of the file there are none."""
        size = min(size, max(self.size - self._at, 0))
        begin = self._at - self._chunk_at
        if size and not 0 <= begin < len(self._chunk):
            if size >= _CHUNK and self._at not in self._in_flight:
                # It is divided into ranges that are fetched in parallel.
                piece = self._ranges.fetch(self._at, self._at + size).wait()
                self._at += size
                return piece
            self._receive(size)
            begin = 0
        piece = self._chunk[begin : begin + size]
        self._at += len(piece)
        return piece

    def _receive(self, size: int) -> None:
        """Receives the chunk at the position, from which `size` bytes are needed, and requests the ones after it."""
        length = _CHUNK
        if self._at not in self._in_flight and self._at != self._chunk_at + len(self._chunk):
            self._in_flight, self._ahead = {}, 0
            # A read of more than its buffer ends with one more buffer.
            length = size + _BUFFER
        for start in (self._at + number * length for number in range(1 + self._ahead)):
            if start < self.size and start not in self._in_flight:
                self._in_flight[start] = self._ranges.fetch(start, min(start + length, self.size))
        self._chunk, self._chunk_at = memoryview(self._in_flight.pop(self._at).wait()), self._at
        self._ahead = min(max(2 * self._ahead, 1), _AHEAD_MAX)

    def close(self) -> None:
        self._in_flight, self._chunk = {}, memoryview(b"")
        super().close()


class FileReader(io.BufferedReader):
    """File of a store that is read: by `open(url)`.

    Sequential reads fetch ahead. All bytes have one version: an error is raised if the file is replaced meanwhile. One thread at a
    time uses it: open the file in each thread.
    """

    def __init__(self, url: str, store: StoreOptions | None = None) -> None:
        self._chunks = _Chunks(url, store)
        super().__init__(self._chunks, _BUFFER)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._chunks.size


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
    mode = one_of("mode", mode, get_args(OpenMode))
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
