"""Checkpoints of Lightning on every store.

    trainer = lightning.Trainer(plugins=[CheckpointIO()], default_root_dir="s3://bucket/run")
"""

from __future__ import annotations

import importlib.util
import logging
import threading
from typing import Any

import fsspec

from .. import checkpoint as checkpoints
from ..checkpoint.commit import folder_of
from ..checkpoint.folder import Folder
from ..checkpoint.formats import FORMATS
from ..checkpoint.group import Alone
from ..checkpoint.retention import find, survey
from ..checkpoint.saving import Writer
from ..errors import Error
from ..files import StoreOptions, list_files, remove_files
from ..files import open as open_file

try:
    from lightning.pytorch.plugins.io import CheckpointIO as _CheckpointIO
except ModuleNotFoundError:
    from pytorch_lightning.plugins.io import CheckpointIO as _CheckpointIO

__all__ = ["CheckpointIO"]

_log = logging.getLogger("forebay")

_lock = threading.Lock()
"""Held for removals, by all plugins: Lightning pickles a plugin, which a lock in it would prevent."""

_PENDING_MAX = 1000
"""Removals that wait for a save."""

_LIBRARIES = {"s3": "s3fs", "gs": "gcsfs"}
"""Library that fsspec needs for a scheme."""


class CheckpointIO(_CheckpointIO):
    """Plugin of Lightning's Trainer that saves checkpoints with a commit, each whole or absent.

    A complete checkpoint replaces an earlier one at its path. Paths are URLs of stores or local paths; a checkpoint is a
    folder. For saves behind training wrap it: `AsyncCheckpointIO(CheckpointIO())`. Lightning then removes an old checkpoint
    while the new one is still being saved: the removal waits until a newer one is whole.

    Lightning looks for folders by fsspec. If s3fs or gcsfs is not installed, fsspec lists `s3://` and `gs://` by this package.

    Args:
        store: Settings of the store that differ from the environment's.
    """

    def __init__(self, store: StoreOptions | None = None) -> None:
        self._store = store
        self._newest: str | None = None
        self._pending: list[str] = []
        for scheme, library in _LIBRARIES.items():
            if importlib.util.find_spec(library) is None:
                fsspec.register_implementation(scheme, _FileSystem, clobber=True)

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Saves a checkpoint. Lightning calls it only on rank 0."""
        if storage_options is not None:
            raise TypeError("storage_options are not taken: pass CheckpointIO(store=forebay.StoreOptions(...))")
        step, epoch = checkpoint.get("global_step"), checkpoint.get("epoch")
        folder = Folder(path, step=step, metadata={"epoch": epoch}, overwrite=True, store=self._store)
        Writer(folder, Alone(), checkpoint, True, FORMATS["torch"]).run()
        with _lock:
            self._newest = folder.url
            try:
                self._pending = [url for url in self._pending if url == folder.url or not self._remove(url)]
            except Error as error:
                # The checkpoint is whole, so training continues. The next save tries again.
                _log.warning("older checkpoints than %s cannot be removed: %s", folder.url, error)

    def load_checkpoint(self, path: Any, map_location: Any | None = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Loads a checkpoint, on any number of ranks.

        Raises:
            NotFoundError: There is none, or saving it was not finished.
            ChecksumError: It is damaged.
        """
        found = checkpoints.Checkpoint.open(path, store=self._store)
        return found.load(
            map_location=map_location or "cpu", weights_only=True if weights_only is None else weights_only, part=0
        )

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint, as soon as there is a newer one that is whole. One that does not exist is no error."""
        url = folder_of("path", path)
        with _lock:
            if not (self._has_newer(url) and self._remove(url)) and url not in self._pending:
                self._pending = [*self._pending, url][-_PENDING_MAX:]

    def _has_newer(self, url: str) -> bool:
        """Returns true if a checkpoint that is whole is newer than `url`."""
        if self._newest is not None:
            return self._newest != url
        # This object has saved none, as after a resume.
        others = [found.url for found in survey(url.rpartition("/")[0], self._store) if found.problem is None]
        return bool(others) and others[-1] != url

    def _remove(self, url: str) -> bool:
        """Removes a checkpoint. Returns false if there is none, which may be because its save has not begun."""
        found = find(url, self._store)
        if found is None or not found.has_commit:
            return False
        checkpoints.remove(url, store=self._store)
        return True


class _FileSystem(fsspec.AbstractFileSystem):
    """Operations of fsspec that Lightning needs to find checkpoints."""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return path.rstrip("/") if isinstance(path, str) else [each.rstrip("/") for each in path]

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        found = [_info(file) for file in list_files(f"{path}/", recursive=False)]
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        for file in list_files(path, recursive=False):
            if file.url.rstrip("/") == path:
                return _info(file)
        raise FileNotFoundError(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Does nothing: a bucket has no folders."""

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Does nothing: a bucket has no folders."""

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return open_file(path, mode)

    def rm_file(self, path: str) -> None:
        remove_files([path])


def _info(file: Any) -> dict[str, Any]:
    kind = "directory" if file.url.endswith("/") else "file"
    return {"name": file.url.rstrip("/"), "size": file.size or 0, "type": kind}
