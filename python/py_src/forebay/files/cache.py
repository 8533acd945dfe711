"""Copies of files on local disk, by their address and version. The engine's `FileCache` has the folder, its limit and its locks."""

from __future__ import annotations

import contextlib
import os
import warnings
import zlib

from .. import _forebay
from ..errors import ConfigError, Error
from .listing import File

_TIME_ERROR = 1e-5
"""Seconds by which the time of a file may differ from itself, after its way through a list."""


class FileCache:
    """Folder of files with a limit, which can be forked and pickled."""

    def __init__(self, folder: str, limit: int | None) -> None:
        self._folder = os.path.abspath(folder)
        self._cache = _forebay.FileCache(self._folder, limit)

    def find(self, file: File) -> str | None:
        """Returns the path of a file's copy, which may be evicted at any time, or be damaged.

        Raises:
            ConfigError: The file has no version.
        """
        return self._cache.find(_digest(file))

    @staticmethod
    def is_whole(path: str, data: bytes) -> bool:
        """Returns true if the bytes of a copy are those that it was made of."""
        return path.endswith(f"-{zlib.crc32(data):08x}")

    def add(self, file: File, data: bytes) -> None:
        """Keeps the bytes of a file, if the limit and the disk have room."""
        if self.find(file) is not None:
            return
        try:
            self._cache.add(f"{_digest(file)}-{zlib.crc32(data):08x}", data)
        except ConfigError:
            raise
        except Error as error:
            # The disk is full, for example. The job can do without the copy.
            warnings.warn(f"a file is not kept in the cache {self._folder}: {error}", stacklevel=2)

    def discard(self, path: str) -> None:
        """Removes a copy."""
        self._cache.discard(path)


def is_of_list(file: File, etag: str | None, modified: float | None) -> bool:
    """Returns false if bytes with this entity tag, or of this time, have a different version than the one in the list."""
    if file.etag is not None and etag is not None:
        return file.etag == etag
    if file.modified is None:
        return True
    if modified is not None:
        # Responses have whole seconds.
        return int(file.modified.timestamp()) == int(modified)
    if _forebay.is_url(file.url):
        return True
    with contextlib.suppress(OSError):
        return abs(os.stat(file.url).st_mtime - file.modified.timestamp()) < _TIME_ERROR
    return False


def _digest(file: File) -> str:
    version = file.etag or file.modified
    if file.size is None or version is None:
        raise ConfigError(
            f"{file.url} has no version, by which a cache keeps it: pass files of forebay.list_files from a store that lists "
            "entity tags or times, or load them without cache"
        )
    return _forebay.hex_digest("sha256", repr((file.url, file.size, str(version))).encode("utf-8", "surrogatepass"))[:40]
