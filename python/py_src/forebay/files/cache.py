"""Files on local disk, by their address and version, for all processes of a node.

The engine's cache does not serve here. It keeps the shards of one data set in a separate folder, with the names and the sizes that
`index.json` records, and its locks are bytes of that index. A list of files has no index: one folder keeps files of any lists, stores
and versions, with equal names among them, and the checksum of a file is known only after its fetch.

    FOLDER/total             bytes on disk of the files and of those that are being written; its lock is held for every
                             change
    FOLDER/new/ID-BYTES      file that is being written, of BYTES at its end. Its writer holds its lock
    FOLDER/ab/abcd...-CRC    whole file, named by the digest of its address and version, and the checksum of its bytes

The number in `total` is never below the truth: it grows before a file begins and shrinks after a file is gone. A process
that is killed leaves it too high, or a file in `new` without a lock. Both are found by the next count, which is made when
the number has no room for a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sys
import warnings
import zlib
from collections.abc import Iterator

from .._forebay import bytes_on_disk, is_url
from ..errors import ConfigError
from .listing import File

_COPY = re.compile("[0-9a-f]{40}-[0-9a-f]{8}")

_TIME_ERROR = 1e-5
"""Seconds by which the time of a file may differ from itself, after its way through a list."""

_ROOM = 10
"""Part of the limit that is free after a count, so that not every file needs one."""


class FileCache:
    """Folder of files with a limit. It has no descriptors between calls, so that it can be forked and pickled."""

    def __init__(self, folder: str, limit: int | None) -> None:
        self._folder = os.path.abspath(folder)
        self._limit = sys.maxsize if limit is None else limit

    def find(self, file: File) -> str | None:
        """Returns the path of a file's copy, which may be evicted at any time, or be damaged.

        Raises:
            ConfigError: The file has no version.
        """
        name = _name(file)
        folder = os.path.join(self._folder, name[:2])
        try:
            found = next((entry for entry in os.listdir(folder) if entry.startswith(name)), None)
        except OSError:
            found = None
        if found is None:
            return None
        path = os.path.join(folder, found)
        # The time of the last use, for the eviction.
        with contextlib.suppress(OSError):
            os.utime(path)
        return path

    @staticmethod
    def is_whole(path: str, data: bytes) -> bool:
        """Returns true if the bytes of a copy are those that it was made of."""
        return path.endswith(f"-{zlib.crc32(data):08x}")

    def add(self, file: File, data: bytes) -> None:
        """Keeps the bytes of a file, if the limit and the disk have room."""
        if self._on_disk(len(data)) > self._limit or self.find(file) is not None:
            return
        try:
            new = self._begin(len(data))
            if new is not None:
                self._write(*new, f"{_name(file)}-{zlib.crc32(data):08x}", data)
        except OSError as error:
            # The disk is full, for example. The job can do without the copy.
            warnings.warn(f"a file is not kept in the cache {self._folder}: {error}", stacklevel=2)

    def discard(self, path: str) -> None:
        """Removes a copy."""
        with self._change() as total, contextlib.suppress(FileNotFoundError):
            size = self._on_disk(os.stat(path).st_size)
            os.remove(path)
            total.write(total.read() - size)

    def _on_disk(self, length: int) -> int:
        return bytes_on_disk(self._folder, length)

    def _write(self, path: str, descriptor: int, name: str, data: bytes) -> None:
        try:
            with open(descriptor, "wb") as writer:
                writer.write(data)
                writer.flush()
                self._publish(path, name, len(data))
        except BaseException:
            with self._change() as total:
                if _remove(path):
                    total.write(total.read() - self._on_disk(len(data)))
            raise

    def _begin(self, length: int) -> tuple[str, int] | None:
        """Creates a file with room for `length` bytes, and returns its path and descriptor."""
        size = self._on_disk(length)
        with self._change() as total:
            if total.read() + size > self._limit:
                total.write(self._count(size))
                if total.read() + size > self._limit:
                    return None
            path = os.path.join(self._folder, "new", f"{os.urandom(16).hex()}-{length}")
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            total.write(total.read() + size)
            return path, descriptor

    def _publish(self, path: str, name: str, length: int) -> None:
        to = os.path.join(self._folder, name[:2], name)
        with self._change() as total:
            os.makedirs(os.path.dirname(to), exist_ok=True)
            is_second = os.path.exists(to)
            os.replace(path, to)
            if is_second:
                # A second process had the same file at the same time.
                total.write(total.read() - self._on_disk(length))

    def _count(self, size: int) -> int:
        """Removes the files that killed processes left, and the files that were not used for longest until there is room for `size`
        bytes on disk. Returns the bytes of the rest."""
        total = 0
        for entry in os.scandir(os.path.join(self._folder, "new")):
            if _has_writer(entry.path):
                total += self._on_disk(int(entry.name.rpartition("-")[2]))
            else:
                _remove(entry.path)
        kept = []
        for folder in os.scandir(self._folder):
            if len(folder.name) == 2 and folder.is_dir():
                # Anything else in the folder is not the cache's to remove.
                for entry in (entry for entry in os.scandir(folder.path) if _COPY.fullmatch(entry.name)):
                    found = entry.stat()
                    occupied = self._on_disk(found.st_size)
                    kept.append((found.st_mtime_ns, occupied, entry.path))
                    total += occupied
        if total + size > self._limit:
            room = max(size, self._limit // _ROOM)
            for _, occupied, path in sorted(kept):
                if total + room <= self._limit:
                    break
                _remove(path)
                total -= occupied
        return total

    @contextlib.contextmanager
    def _change(self) -> Iterator[_Total]:
        """Excludes changes by all processes and threads but this one."""
        try:
            os.makedirs(os.path.join(self._folder, "new"), exist_ok=True)
            descriptor = os.open(os.path.join(self._folder, "total"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(f"cache must be a folder that can be written: {error}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield _Total(descriptor)
        finally:
            # Closing is not enough: a child that was forked meanwhile has the descriptor too.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


class _Total:
    """Number of bytes in an open file."""

    _DIGITS = 20

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> int:
        text = os.pread(self._descriptor, self._DIGITS, 0)
        # Absent, or damaged after a loss of power: a count follows.
        return int(text) if text.isdigit() and len(text) == self._DIGITS else sys.maxsize

    def write(self, total: int) -> None:
        os.pwrite(self._descriptor, b"%0*d" % (self._DIGITS, max(total, 0)), 0)


def is_of_list(file: File, etag: str | None, modified: float | None) -> bool:
    """Returns false if bytes with this entity tag, or of this time, are of a different version than the one in the list."""
    if file.etag is not None and etag is not None:
        return file.etag == etag
    if file.modified is None:
        return True
    if modified is not None:
        # Responses have whole seconds.
        return int(file.modified.timestamp()) == int(modified)
    if is_url(file.url):
        return True
    with contextlib.suppress(OSError):
        return abs(os.stat(file.url).st_mtime - file.modified.timestamp()) < _TIME_ERROR
    return False


def _name(file: File) -> str:
    version = file.etag or file.modified
    if file.size is None or version is None:
        raise ConfigError(
            f"{file.url} has no version, by which a cache keeps it: pass files of forebay.list_files from a store that lists "
            "entity tags or times, or load them without cache"
        )
    import hashlib  # Imported late, with the library that it loads: most processes have no such cache.

    return hashlib.sha256(repr((file.url, file.size, str(version))).encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _has_writer(path: str) -> bool:
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _remove(path: str) -> bool:
    try:
        os.remove(path)
    except FileNotFoundError:
        return False
    return True
