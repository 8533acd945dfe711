"""Composer's interface of object stores."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from composer.utils import ObjectStore as _ObjectStore
from composer.utils import ObjectStoreTransientError

from ... import checkpoint as checkpoints
from ...checkpoint.commit import folder_of
from ...errors import AccessError, ConfigError, IoError, NetworkError, NotFoundError, StalledError
from ...files import StoreOptions, list_files
from ...files import open as open_file

__all__ = ["LATEST", "ObjectStore"]

LATEST = "latest"
"""Name of the newest whole checkpoint of a folder."""

_CHUNK = 8 << 20
"""Bytes of one read of a copy."""

_Progress = Callable[[int, int], None]


class ObjectStore(_ObjectStore):
    """Files under a URL as Composer's `ObjectStore`: for `load_object_store`, for example.

    A checkpoint of `CheckpointSaver` is one file here, and `FOLDER/latest` is the newest whole one of a folder. Each block
    is compared with its digest before it is written to disk.

    Args:
        url: URL or path that the names of objects are relative to, such as "s3://bucket". Composer removes the scheme and
            the bucket from a `load_path`.
        store: Settings that differ from the environment's.
    """

    def __init__(self, url: Any, store: StoreOptions | None = None) -> None:
        self._url, self._store = folder_of("url", url), store

    def get_uri(self, object_name: str) -> str:
        """Returns the URL of an object."""
        return f"{self._url}/{object_name.lstrip('/')}"

    def upload_object(self, object_name: str, filename: Any, callback: _Progress | None = None, **others: Any) -> None:
        """Uploads a file. The object is whole or absent."""
        if others:
            raise ConfigError(f"uploads have no arguments {', '.join(others)}: pass ObjectStore(url, forebay.StoreOptions(...))")
        with _transient(), open(filename, "rb") as source, open_file(self.get_uri(object_name), "wb", store=self._store) as target:
            _copy(source, target, os.path.getsize(filename), callback)

    def get_object_size(self, object_name: str) -> int:
        """Returns the bytes of an object.

        Raises:
            NotFoundError: There is none, or saving it was not finished.
        """
        with _transient(), self._open(object_name) as file:
            return _size(file)

    def download_object(
        self, object_name: str, filename: Any, overwrite: bool = False, callback: _Progress | None = None
    ) -> None:
        """Downloads an object. The file is whole or absent.

        Raises:
            FileExistsError: The file exists, and `overwrite` is not set.
            NotFoundError: There is no object, or saving it was not finished.
            ChecksumError: It is damaged.
        """
        filename = os.fspath(filename)
        if os.path.exists(filename) and not overwrite:
            raise FileExistsError(f"{filename} exists: remove it, or pass overwrite=True")
        os.makedirs(os.path.dirname(filename) or ".", exist_ok=True)
        new = f"{filename}.{uuid.uuid4().hex}.tmp"
        try:
            with _transient(), self._open(object_name) as source, open(new, "xb") as target:
                _copy(source, target, _size(source), callback)
            os.replace(new, filename)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(new)

    def list_objects(self, prefix: str | None = None) -> list[str]:
        """Returns the names of the files that start with a prefix: the files of a checkpoint one by one."""
        with _transient():
            files = list(list_files(self.get_uri(prefix or ""), store=self._store))
        return [file.url[len(self._url) + 1 :] for file in files]

    def _open(self, name: str) -> Any:
        """Opens the only part of a checkpoint, or a file."""
        url = self.get_uri(name)
        try:
            return _open_part(checkpoints.Checkpoint.open(url, store=self._store))
        except (NotFoundError, AccessError, IoError) as error:
            # A store that denies lists may also deny access to objects that it does not have. A local file is no folder (IoError).
            first = error
        try:
            return open_file(url, store=self._store)
        except NotFoundError:
            folder, _, last = url.rpartition("/")
            found = checkpoints.latest(folder, store=self._store) if last == LATEST else None
            if found is None:
                raise first from None
            return _open_part(found)


def _open_part(checkpoint: checkpoints.Checkpoint) -> Any:
    if len(checkpoint.parts) != 1:
        raise ConfigError(f"{checkpoint.url} has {len(checkpoint.parts)} parts: Composer loads checkpoints of its CheckpointSaver, which have one part")
    return checkpoint.open_part(*checkpoint.parts)


def _size(file: Any) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _copy(source: Any, target: Any, size: int, callback: _Progress | None) -> None:
    done = 0
    while True:
        if callback is not None:
            callback(done, size)
        piece = source.read(_CHUNK)
        if not piece:
            return
        target.write(piece)
        done += len(piece)


@contextlib.contextmanager
def _transient() -> Iterator[None]:
    """Raises errors of the network as those after which Composer tries again."""
    try:
        yield
    except (NetworkError, StalledError) as error:
        raise ObjectStoreTransientError(str(error)) from error
