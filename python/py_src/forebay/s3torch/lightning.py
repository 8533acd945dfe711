"""The class of `s3torchconnector.lightning`."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch.plugins.io import CheckpointIO

from ..files import remove_files
from . import S3Checkpoint, S3ClientConfig, raising, store_options

__all__ = ["S3LightningCheckpoint"]


class S3LightningCheckpoint(CheckpointIO):
    """Plugin of Lightning's Trainer with checkpoints that are single objects, as in s3torchconnector.

    `forebay.integrations.lightning.CheckpointIO` has checksums, and also paths.

    Args:
        region: Region of the bucket.
        s3client_config: Settings of requests.
        endpoint: Server instead of AWS.
    """

    def __init__(
        self, region: str | None = None, s3client_config: S3ClientConfig | None = None, endpoint: str | None = None
    ) -> None:
        self.region = region
        self._store = store_options(region, endpoint, s3client_config)
        self._objects = S3Checkpoint(region, endpoint, s3client_config)

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str, storage_options: Any | None = None) -> None:
        """Saves a checkpoint to an object."""
        with self._objects.writer(_text(path)) as writer:
            torch.save(checkpoint, writer)

    def load_checkpoint(self, path: str, map_location: Any | None = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Loads the checkpoint of an object."""
        with self._objects.reader(_text(path)) as reader:
            return torch.load(reader, map_location, weights_only=weights_only)

    def remove_checkpoint(self, path: str) -> None:
        """Removes the object of a checkpoint."""
        with raising():
            remove_files([_text(path)], store=self._store)

    def teardown(self) -> None:
        """Does nothing."""


def _text(path: Any) -> str:
    if not isinstance(path, str):
        raise TypeError(f"{type(path).__name__!r} is not a supported type for 'path'. Must be a string formatted as an S3 uri.")
    return path
