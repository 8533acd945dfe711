"""Schemes that fsspec has a file system for, such as `hdfs://`, `webhdfs://`, `smb://`, `ftp://` and `gcs://`.

Credentials and addresses are as in the file system's own package. Options of it that are not in the address come from
fsspec's configuration (`~/.config/fsspec`, or variables such as `FSSPEC_FTP_TIMEOUT`).
"""

from __future__ import annotations

import contextlib
import io
import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import NetworkError, UnsupportedError
from .folder import CHUNK_BYTES, RemoteFile, RemoteFolder, temporary_name

# Names in different file systems of the values that differ between versions of a file.
_VERSIONS = ("etag", "ETag", "checksum", "mtime", "modified", "modify", "last_modified", "created")


def serves(scheme: str) -> bool:
    """Returns true if fsspec has a file system for `scheme`. Imports its package.

    Raises:
        UnsupportedError: fsspec has one, but its package is not installed; or fsspec itself is not installed.
    """
    try:
        from fsspec.registry import get_filesystem_class, known_implementations, registry
    except ImportError as error:
        raise UnsupportedError(
            f"{scheme}:// remotes are neither the engine's nor of a registered scheme, and all the rest need the package fsspec: pip "
            "install fsspec, and the package that fsspec needs for this scheme"
        ) from error
    if scheme not in registry and scheme not in known_implementations:
        return False
    try:
        get_filesystem_class(scheme)
    except ImportError as error:
        raise UnsupportedError(f"{scheme}:// remotes need one more package: {error}") from error
    return True


class FileSystemFolder(RemoteFolder):
    """Folder of a file system of fsspec, by its path there."""

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path.rstrip("/")

    def _of(self, key: str) -> str:
        return f"{self._path}/{key}"

    def stat(self, key: str) -> RemoteFile | None:
        try:
            info = self._files.info(self._of(key))
        except FileNotFoundError:
            return None
        if info.get("type") == "directory" or info.get("size") is None:
            return None
        version = next((str(info[name]) for name in _VERSIONS if info.get(name) is not None), None)
        return RemoteFile(key, int(info["size"]), version and f"{version}-{info['size']}")

    def get(self, key: str, start: int) -> Iterator[bytes]:
        with self._files.open(self._of(key), "rb") as file:
            if isinstance(file, io.BytesIO):
                # A file system in memory has one object for all readers of a file, with one position.
                content = file.getvalue()
                for at in range(start, len(content), CHUNK_BYTES):
                    yield content[at : at + CHUNK_BYTES]
                return
            file.seek(start)
            while data := file.read(CHUNK_BYTES):
                yield data

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        path = self._of(key)
        temporary = temporary_name(path)
        with contextlib.suppress(NotImplementedError):
            self._files.makedirs(posixpath.dirname(path), exist_ok=True)
        try:
            with self._files.open(temporary, "wb") as file:
                for piece in pieces:
                    file.write(piece)
            # Some file systems do not replace files.
            self.delete(key)
            self._files.mv(temporary, path)
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(temporary)
            raise

    def list(self, prefix: str) -> Iterator[RemoteFile]:
        # Only the folder that has all of the keys: the root may be a whole server.
        for path, info in self._below(self._of(posixpath.dirname(prefix)).rstrip("/")):
            # Some file systems return paths with a slash at their start, and some without.
            key = path.lstrip("/").removeprefix(self._path.lstrip("/")).lstrip("/")
            if key:
                yield RemoteFile(key, int(info.get("size") or 0))

    def _below(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        from fsspec.asyn import AsyncFileSystem
        from fsspec.spec import AbstractFileSystem

        kind = type(self._files)
        is_general = kind.find is AbstractFileSystem.find
        if isinstance(self._files, AsyncFileSystem):
            is_general = is_general and kind._find is AsyncFileSystem._find
        try:
            if is_general:
                yield from self._walk(self._files._strip_protocol(folder))
            else:
                # Stores list all levels in one request.
                yield from self._files.find(folder, detail=True).items()
        except FileNotFoundError:
            return

    def _walk(self, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the files of a folder and of those below. `find` of fsspec leaves out folders that it cannot read."""
        for info in self._files.ls(folder, detail=True):
            path = info["name"]
            if info.get("type") != "directory":
                yield path, info
            elif path.strip("/") != folder.strip("/"):
                try:
                    yield from self._walk(path)
                except FileNotFoundError as error:
                    raise NetworkError(f"the folder {path} is in its folder, and cannot be listed: {error}") from error

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._of(key))


def open_folder(remote: str, timeout: float) -> FileSystemFolder:
    """Opens a folder of a file system of fsspec. `timeout` is not used: file systems have their own."""
    import fsspec

    # One object per connection, because some clients must not be shared by threads; and no old listings.
    files, path = fsspec.url_to_fs(remote, skip_instance_cache=True, use_listings_cache=False)
    return FileSystemFolder(files, path)
