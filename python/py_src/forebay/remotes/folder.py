"""Interface of remote folders."""

from __future__ import annotations

import abc
import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import UnsupportedError

CHUNK_BYTES = 1 << 20
"""Bytes that a folder returns at a time: few enough that progress is visible on a slow connection."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a remote folder."""

    key: str
    """Path relative to the folder, with slashes."""
    bytes: int
    """Size."""
    version: str | None = None
    """Text that differs whenever the file's bytes do. None: not known, so that a change during a fetch is found by its hash
    alone."""


class RemoteFolder(abc.ABC):
    """Folder of a remote, over one connection. One thread at a time uses it; after an error it is closed, and a new one
    is opened.

    An error of the classes in `forebay.errors` is raised with its message. `NetworkError`, `StalledError` and errors of further
    libraries lead to a new attempt; FileNotFoundError, PermissionError and all the rest do not. Texts of errors are shown
    without the secrets of the folder's address.
    """

    @abc.abstractmethod
    def stat(self, key: str) -> RemoteFile | None:
        """Returns the file `key`; None if there is none."""

    @abc.abstractmethod
    def get(self, key: str, start: int) -> Iterator[bytes]:
        """Returns the bytes of the file `key` from `start` to its end, in pieces of up to about `CHUNK_BYTES`."""

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Stores a file, instead of an older one: completely, or not under this name. Folders are made."""
        raise self._read_only()

    def list(self, prefix: str) -> Iterator[RemoteFile]:
        """Returns all files with keys that start with `prefix`, also those in sub-folders; more are ignored. A folder that does
        not exist has none."""
        raise self._read_only()

    def delete(self, key: str) -> None:
        """Removes a file. One that does not exist is no error."""
        raise self._read_only()

    def close(self) -> None:
        """Ends the connection. Must not fail or wait for long."""

    def _read_only(self) -> UnsupportedError:
        return UnsupportedError(f"{type(self).__name__} can be read only: write into a folder, and copy it to the remote")


# As the engine names the temporary files of a folder on this machine.
_START, _END = ".forebay-", ".tmp"


def temporary_name(path: str) -> str:
    """Returns a new name that no file has, in the folder of `path`, for a file that is being written. An earlier attempt
    that was given up may still be writing under a different name."""
    return posixpath.join(posixpath.dirname(path), f"{_START}{os.urandom(8).hex()}{_END}")


def is_temporary(key: str) -> bool:
    """Returns true for a key of such a file, which listings leave out."""
    name = posixpath.basename(key)
    return name.startswith(_START) and name.endswith(_END)
