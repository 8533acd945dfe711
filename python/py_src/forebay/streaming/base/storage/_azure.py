"""Azure blobs and Data Lake, with Azure's libraries."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from typing import Any

from ...._forebay import redact
from ._downloader import CloudDownloader, whole_file
from ._uploader import CloudUploader

__all__ = ["AzureDataLakeDownloader", "AzureDataLakeUploader", "AzureDownloader", "AzureUploader"]


def _account(url: str) -> str:
    """Returns AZURE_ACCOUNT_NAME, else the first part of the URL's host."""
    return os.environ.get("AZURE_ACCOUNT_NAME") or url.split("://")[1].split(".")[0]


def _credential() -> Any:
    """Returns AZURE_ACCOUNT_ACCESS_KEY, else the login of the command line or the machine."""
    key = os.environ.get("AZURE_ACCOUNT_ACCESS_KEY")
    if key is not None:
        return key
    from azure.identity import AzureCliCredential, ChainedTokenCredential, DefaultAzureCredential

    return ChainedTokenCredential(AzureCliCredential(), DefaultAzureCredential())


def _blob_service(url: str) -> Any:
    from azure.storage.blob import BlobServiceClient

    return BlobServiceClient(f"https://{_account(url)}.blob.core.windows.net", credential=_credential())


def _lake_service(url: str) -> Any:
    from azure.storage.filedatalake import DataLakeServiceClient

    return DataLakeServiceClient(f"https://{_account(url)}.dfs.core.windows.net", credential=_credential())


class AzureUploader(CloudUploader):
    """Uploads blobs; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        self.azure_service = _blob_service(self.remote)
        self.check_bucket_exists(self.remote)

    def check_bucket_exists(self, remote: str) -> None:
        """Raises FileNotFoundError if the container does not exist."""
        bucket = urllib.parse.urlparse(remote).netloc
        if self.azure_service.get_container_client(container=bucket).exists() is False:
            raise FileNotFoundError(f"Either bucket `{bucket}` does not exist! or check the bucket permission.")

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        url = urllib.parse.urlparse(remote)
        container = self.azure_service.get_container_client(container=url.netloc)
        with open(local, "rb") as data:
            container.upload_blob(name=url.path.lstrip("/"), data=data, overwrite=True)
        advance(os.stat(local).st_size)


class AzureDataLakeUploader(CloudUploader):
    """Uploads to Data Lake; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        self.azure_service = _lake_service(self.remote)
        self.check_container_exists(self.remote)

    def check_container_exists(self, remote: str) -> None:
        """Raises FileNotFoundError if the container does not exist."""
        container = urllib.parse.urlparse(remote).netloc
        if self.azure_service.get_file_system_client(file_system=container).exists() is False:
            raise FileNotFoundError(
                f"Either container `{container}` does not exist! or check the container permission."
            )

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        url = urllib.parse.urlparse(remote)
        file = self.azure_service.get_file_client(file_system=url.netloc, file_path=url.path.lstrip("/"))
        with open(local, "rb") as data:
            file.upload_data(data=data, overwrite=True)
        advance(os.stat(local).st_size)


class _AzureDownloader(CloudDownloader):
    """Base class of both downloaders, with a service client."""

    def __init__(self) -> None:
        self._service: Any = None

    @staticmethod
    def _client_identifier() -> str | None:
        return None

    def clean_up(self) -> None:
        self._service = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_service": None}

    def _connect(self, remote: str) -> Any:
        raise NotImplementedError

    def _open(self, url: urllib.parse.ParseResult) -> Any:
        """Opens a file; the result has `readinto`."""
        raise NotImplementedError

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        from azure.core.exceptions import ResourceNotFoundError

        if self._service is None:
            self._service = self._connect(remote)
        try:
            with whole_file(local) as path, open(path, "wb") as file:
                self._open(urllib.parse.urlparse(remote)).readinto(file)
        except ResourceNotFoundError as error:
            raise FileNotFoundError(f"Object {redact(remote)} not found.") from error


class AzureDownloader(_AzureDownloader):
    """Fetches blobs; the container is the first part of the path."""

    @staticmethod
    def _client_identifier() -> str:
        return "azure"

    def _connect(self, remote: str) -> Any:
        return _blob_service(remote)

    def _open(self, url: urllib.parse.ParseResult) -> Any:
        container, _, blob = url.path.lstrip("/").partition("/")
        return self._service.get_blob_client(container=container, blob=blob).download_blob()


class AzureDataLakeDownloader(_AzureDownloader):
    """Fetches from Data Lake."""

    @staticmethod
    def _client_identifier() -> str:
        return "azure-dl"

    def _connect(self, remote: str) -> Any:
        return _lake_service(remote)

    def _open(self, url: urllib.parse.ParseResult) -> Any:
        return self._service.get_file_client(file_system=url.netloc, file_path=url.path.lstrip("/")).download_file()
