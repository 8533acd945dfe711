"""Checkpoints of Lightning on every store.

    trainer = lightning.Trainer(plugins=[CheckpointIO()], default_root_dir="s3://bucket/run")
"""

from __future__ import annotations

import importlib.util
from typing import Any

import fsspec

from .. import checkpoint as checkpoints
from ..checkpoint.folder import Folder
from ..checkpoint.formats import FORMATS
from ..checkpoint.group import Alone
from ..checkpoint.saving import Writer
from ..files import StoreOptions, list_files, remove_files
from ..files import open as open_file

try:
    from lightning.pytorch.plugins.io import CheckpointIO as _CheckpointIO
except ModuleNotFoundError:
    from pytorch_lightning.plugins.io import CheckpointIO as _CheckpointIO

__all__ = ["CheckpointIO"]

_LIBRARIES = {"s3": "s3fs", "gs": "gcsfs"}
"""Library that fsspec needs for a scheme."""


class CheckpointIO(_CheckpointIO):
    """Plugin of Lightning's Trainer that saves checkpoints with a commit, each whole or absent.

    A checkpoint replaces the one of its path when it is complete. Paths are URLs of stores or local ones; a checkpoint is a
    folder. For saves behind training wrap it: `AsyncCheckpointIO(CheckpointIO())`.

    Lightning looks for folders by fsspec. If s3fs or gcsfs is not installed, fsspec lists `s3://` and `gs://` by this package.

    Args:
        store: Settings of the store that differ from the environment's.
    """

    def __init__(self, store: StoreOptions | None = None) -> None:
        self._store = store
        for scheme, library in _LIBRARIES.items():
            if importlib.util.find_spec(library) is None:
                fsspec.register_implementation(scheme, _FileSystem, clobber=True)

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Saves a checkpoint. Lightning calls it on rank 0 alone."""
        if storage_options is not None:
            raise TypeError("storage_options are not taken: pass CheckpointIO(store=forebay.StoreOptions(...))")
        step, epoch = checkpoint.get("global_step"), checkpoint.get("epoch")
        folder = Folder(path, step=step, metadata={"epoch": epoch}, overwrite=True, store=self._store)
        Writer(folder, Alone(), checkpoint, True, FORMATS["torch"]).run()

    def load_checkpoint(self, path: Any, map_location: Any | None = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Loads a checkpoint, on any number of ranks.

        Raises:
            NotFoundError: There is none, or saving it was not finished.
            ChecksumError: It is damaged.
        """
        found = checkpoints.Checkpoint.open(path, store=self._store)
        return found.load(
            map_location=map_location or _unmoved, weights_only=True if weights_only is None else weights_only, part=0
        )

    def remove_checkpoint(self, path: Any) -> None:
        """Removes a checkpoint. One that does not exist is no error."""
        checkpoints.remove(path, store=self._store)


def _unmoved(storage: Any, location: Any) -> Any:
    """Leaves a tensor in host memory, as Lightning's own plugin does."""
    return storage


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
