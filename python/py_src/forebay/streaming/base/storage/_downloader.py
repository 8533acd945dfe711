"""Base class of downloaders, and the choice of a downloader by the scheme of a URL."""

from __future__ import annotations

import abc
import contextlib
import importlib
import os
import shutil
import threading
import urllib.parse
from collections.abc import Iterator

from ...._forebay import redact
from ....remotes import serves
from ..constant import DEFAULT_TIMEOUT
from ._secrets import without_secrets

__all__ = ["DOWNLOADER_MAPPINGS", "CloudDownloader", "LocalDownloader", "is_native", "whole_file"]

# Module of this package and class by scheme, imported at first use.
_CLASSES = {
    "s3": ("_s3", "S3Downloader"),
    "gs": ("_gcs", "GCSDownloader"),
    "oci": ("_oci", "OCIDownloader"),
    "hf": ("_huggingface", "HFDownloader"),
    "azure": ("_azure", "AzureDownloader"),
    "azure-dl": ("_azure", "AzureDataLakeDownloader"),
    "dbfs-uc": ("_databricks", "DatabricksUnityCatalogDownloader"),
    "dbfs": ("_databricks", "DBFSDownloader"),
    "sftp": ("_sftp", "SFTPDownloader"),
    "alipan": ("_absent", "AlipanDownloader"),
}

DOWNLOADER_MAPPINGS: dict[str, type[CloudDownloader]] = {}
"""Classes by scheme. Subclasses of programs are added when they are defined."""


class CloudDownloader(abc.ABC):
    """Downloader of one scheme.

    A subclass returns its scheme in `_client_identifier`, fetches a file in `_download_file_impl` and releases its
    client in `clean_up`. It is then used for all URLs of its scheme.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        scheme = cls._client_identifier()
        if scheme is not None:
            DOWNLOADER_MAPPINGS[scheme] = cls

    @classmethod
    def get(cls, remote_dir: str | None = None) -> CloudDownloader:
        """Returns the downloader for `remote_dir`, or for local folders if it is None.

        Raises:
            ValueError: The scheme is unknown.
        """
        if remote_dir is None:
            return LocalDownloader()
        scheme = _scheme(remote_dir)
        if scheme not in DOWNLOADER_MAPPINGS and scheme in _CLASSES:
            module, name = _CLASSES[scheme]
            DOWNLOADER_MAPPINGS[scheme] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
        if scheme not in DOWNLOADER_MAPPINGS:
            if not serves(remote_dir):
                raise ValueError(f"Unsupported remote path: {redact(remote_dir)}")
            # Not imported above, because it imports this module.
            return importlib.import_module(f"{__package__}._remotes").RemotesDownloader()
        return DOWNLOADER_MAPPINGS[scheme]()

    @classmethod
    def direct_download(cls, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Fetches one file with a new downloader, like `download`."""
        downloader = cls.get(remote)
        try:
            downloader.download(remote, local, timeout)
        finally:
            downloader.clean_up()

    def download(self, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Fetches a file; does nothing if `local` exists. Errors of the cloud's library are raised without the secrets of
        the URL.

        Args:
            remote: URL of the file.
            local: Local path; folders are made.
            timeout: Timeout in seconds, if the cloud's library has one.

        Raises:
            ValueError: There is no URL, or it has a wrong scheme.
        """
        if os.path.exists(local):
            return
        if not remote:
            raise ValueError("In the absence of local dataset, path to remote dataset must be provided")
        with without_secrets(remote):
            self._validate_remote_path(remote)
            os.makedirs(os.path.dirname(local) or ".", exist_ok=True)
            self._download_file_impl(remote, local, timeout)

    @staticmethod
    @abc.abstractmethod
    def _client_identifier() -> str:
        """Returns the scheme."""

    @abc.abstractmethod
    def clean_up(self) -> None:
        """Releases the client; the next download makes a new one."""

    @abc.abstractmethod
    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        """Fetches a file to a free name."""

    def _validate_remote_path(self, remote: str) -> None:
        scheme = urllib.parse.urlparse(remote).scheme
        if scheme != self._client_identifier():
            raise ValueError(
                f"Expected remote path to start with url scheme of `{self._client_identifier()}`, got {remote}."
            )


class LocalDownloader(CloudDownloader):
    """Copies files of a local folder."""

    @staticmethod
    def _client_identifier() -> str:
        return ""

    def clean_up(self) -> None:
        pass

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        with whole_file(local) as path:
            shutil.copy(remote, path)


def _scheme(remote: str) -> str:
    """Returns the key of a URL's class."""
    return "dbfs-uc" if remote.startswith("dbfs:/Volumes") else urllib.parse.urlparse(remote).scheme


# Schemes of the engine.
_NATIVE = frozenset(["", "file", "http", "https", "s3"])


def is_native(remote: str) -> bool:
    """Returns true if the engine fetches from `remote`: it supports the scheme, and the program has neither replaced
    nor patched the class of that scheme."""
    scheme = _scheme(remote)
    cls = DOWNLOADER_MAPPINGS.get(scheme)
    if scheme not in _NATIVE or cls is None:
        return scheme in _NATIVE
    methods = (cls._download_file_impl, cls.download)
    return all(str(getattr(method, "__module__", None)).startswith(f"{__package__}.") for method in methods)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """Provides a temporary name for this thread; renames the file to `path` on success, removes it on failure."""
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
