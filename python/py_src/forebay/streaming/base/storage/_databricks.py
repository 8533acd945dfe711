"""Databricks' volumes (dbfs:/Volumes/...) and file system (dbfs:/...), with its library."""

from __future__ import annotations

import os
import pathlib
import urllib.parse
from collections.abc import Callable
from typing import Any

from ...._forebay import redact
from ._messages import get_import_exception_message
from ._downloader import CloudDownloader, whole_file
from ._uploader import CloudUploader

__all__ = [
    "DBFSDownloader",
    "DBFSUploader",
    "DatabricksUnityCatalogDownloader",
    "DatabricksUnityCatalogUploader",
    "DatabricksUploader",
]

_PIECE_BYTES = 1 << 26
_WHERE = (
    "Ensure the file path or credentials are set correctly. For Databricks Unity Catalog, file path must starts with "
    "`dbfs:/Volumes` and for Databricks File System, file path must starts with `dbfs`. "
)


def _workspace() -> Any:
    try:
        from databricks.sdk import WorkspaceClient
    except ImportError as error:
        error.msg = get_import_exception_message("databricks", "databricks")
        raise
    return WorkspaceClient()


class DatabricksUploader(CloudUploader):
    """Base class of both uploaders; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        self.client = self._create_workspace_client()

    def _create_workspace_client(self) -> Any:
        return _workspace()


class DatabricksUnityCatalogUploader(DatabricksUploader):
    """Uploads to a volume."""

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        path = urllib.parse.urlparse(remote).path
        size = os.stat(local).st_size
        with open(local, "rb") as file:
            self.client.files.upload(path, file, overwrite=True)
        # An upload may fail without an error.
        stored = self.client.files.get_metadata(path).content_length
        if stored != size:
            raise RuntimeError(f"Uploading failed! {redact(remote)} has {stored} bytes of {size}")
        advance(size)


class DBFSUploader(DatabricksUploader):
    """Uploads to the file system."""

    def _connect(self) -> None:
        super()._connect()
        self.dbfs_path = self.remote.removeprefix("dbfs:")
        self.check_folder_exists()

    def check_folder_exists(self) -> None:
        """Raises FileNotFoundError if the folder does not exist."""
        from databricks.sdk.errors.base import DatabricksError

        try:
            if not self.client.dbfs.exists(self.dbfs_path):
                raise FileNotFoundError(f"Databricks File System path {self.dbfs_path} not found")
        except DatabricksError as error:
            if error.error_code == "PERMISSION_DENIED":
                error.args = (_WHERE + error.args[0],)
            raise

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        with open(local, "rb") as file:
            self.client.dbfs.upload(remote.removeprefix("dbfs:"), file, overwrite=True)
        advance(os.stat(local).st_size)


class _DatabricksDownloader(CloudDownloader):
    """Base class of both downloaders."""

    def __init__(self) -> None:
        self._workspace: Any = None

    @staticmethod
    def _client_identifier() -> str | None:
        return None

    def clean_up(self) -> None:
        self._workspace = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_workspace": None}

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        if self._workspace is None:
            self._workspace = _workspace()
        from databricks.sdk.errors.base import DatabricksError

        content = self._workspace.files.download(urllib.parse.urlparse(remote).path).contents
        try:
            with content, whole_file(local) as path, open(path, "wb") as file:
                while piece := content.read(_PIECE_BYTES):
                    file.write(piece)
        except DatabricksError as error:
            if error.error_code == "NOT_FOUND":
                raise FileNotFoundError(f"Object {redact(remote)} not found.") from error
            if error.error_code == "REQUEST_LIMIT_EXCEEDED":
                error.args = (
                    "Dataset download request has been rejected due to too many concurrent operations. Increase the "
                    "`download_retry` value to retry downloading a file.",
                )
            if error.error_code == "PERMISSION_DENIED":
                error.args = (_WHERE + error.args[0],)
            raise


class DatabricksUnityCatalogDownloader(_DatabricksDownloader):
    """Fetches from a volume."""

    @staticmethod
    def _client_identifier() -> str:
        return "dbfs-uc"

    def _validate_remote_path(self, remote: str) -> None:
        prefix = os.path.join(*pathlib.Path(remote).parts[:2])
        if prefix != "dbfs:/Volumes":
            raise ValueError(
                "Expected path prefix to be `dbfs:/Volumes` if it is a Databricks Unity Catalog, instead, got "
                f"{prefix} for remote={remote}."
            )


class DBFSDownloader(_DatabricksDownloader):
    """Fetches from the file system."""

    @staticmethod
    def _client_identifier() -> str:
        return "dbfs"
