"""Fetching single files, by the scheme of their URL."""

from __future__ import annotations

import abc
import contextlib
import os
import shutil
import threading
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..._lazy import lazy
from ..constant import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from ._absent import AlipanDownloader
    from ._azure import AzureDataLakeDownloader, AzureDownloader
    from ._databricks import DatabricksUnityCatalogDownloader, DBFSDownloader
    from ._gcs import GCSDownloader
    from ._huggingface import HFDownloader
    from ._oci import OCIDownloader
    from ._s3 import S3Downloader
    from ._sftp import SFTPDownloader

__all__ = [
    "AlipanDownloader",
    "AzureDataLakeDownloader",
    "AzureDownloader",
    "CloudDownloader",
    "DBFSDownloader",
    "DatabricksUnityCatalogDownloader",
    "GCSDownloader",
    "HFDownloader",
    "LocalDownloader",
    "OCIDownloader",
    "S3Downloader",
    "SFTPDownloader",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_absent": ("AlipanDownloader",),
        "_azure": ("AzureDataLakeDownloader", "AzureDownloader"),
        "_databricks": ("DBFSDownloader", "DatabricksUnityCatalogDownloader"),
        "_gcs": ("GCSDownloader",),
        "_huggingface": ("HFDownloader",),
        "_oci": ("OCIDownloader",),
        "_s3": ("S3Downloader",),
        "_sftp": ("SFTPDownloader",),
    },
    package=__package__,
)

_CLASSES = {
    "s3": "S3Downloader",
    "gs": "GCSDownloader",
    "oci": "OCIDownloader",
    "hf": "HFDownloader",
    "azure": "AzureDownloader",
    "azure-dl": "AzureDataLakeDownloader",
    "dbfs-uc": "DatabricksUnityCatalogDownloader",
    "dbfs": "DBFSDownloader",
    "sftp": "SFTPDownloader",
    "alipan": "AlipanDownloader",
}

DOWNLOADER_MAPPINGS: dict[str, type[CloudDownloader]] = {}
"""Classes by scheme, as they are defined: a subclass of yours is there too."""


class CloudDownloader(abc.ABC):
    """Fetches files of one scheme.

    A subclass says which scheme in `_client_identifier`, fetches a file in `_download_file_impl` and lets go of its client
    in `clean_up`; its URLs are its from then on.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        scheme = cls._client_identifier()
        if scheme is not None:
            DOWNLOADER_MAPPINGS[scheme] = cls

    @classmethod
    def get(cls, remote_dir: str | None = None) -> CloudDownloader:
        """What fetches files below `remote_dir`; a local folder's if that is None.

        Raises:
            ValueError: The scheme is not known.
        """
        if remote_dir is None:
            return LocalDownloader()
        scheme = _scheme(remote_dir)
        if scheme not in DOWNLOADER_MAPPINGS and scheme in _CLASSES:
            DOWNLOADER_MAPPINGS[scheme] = __getattr__(_CLASSES[scheme])
        if scheme not in DOWNLOADER_MAPPINGS:
            raise ValueError(f"Unsupported remote path: {remote_dir}")
        return DOWNLOADER_MAPPINGS[scheme]()

    @classmethod
    def direct_download(cls, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Fetches one file with a downloader of its own; as `download`."""
        downloader = cls.get(remote)
        try:
            downloader.download(remote, local, timeout)
        finally:
            downloader.clean_up()

    def download(self, remote: str | None, local: str, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Fetches a file; nothing is done if `local` is there.

        Args:
            remote: The file's URL.
            local: Where it goes; folders are made.
            timeout: Seconds that it may take, where the cloud's library has such a bound.

        Raises:
            ValueError: There is no URL, or it has another scheme.
        """
        if os.path.exists(local):
            return
        if not remote:
            raise ValueError("In the absence of local dataset, path to remote dataset must be provided")
        self._validate_remote_path(remote)
        os.makedirs(os.path.dirname(local) or ".", exist_ok=True)
        self._download_file_impl(remote, local, timeout)

    @staticmethod
    @abc.abstractmethod
    def _client_identifier() -> str:
        """The scheme."""

    @abc.abstractmethod
    def clean_up(self) -> None:
        """Lets go of the client; another download makes a new one."""

    @abc.abstractmethod
    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        """Fetches a file to a name that is not taken."""

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
    """The key of a URL's class."""
    return "dbfs-uc" if remote.startswith("dbfs:/Volumes") else urllib.parse.urlparse(remote).scheme


# What the engine's own store speaks.
_NATIVE = frozenset(["", "file", "http", "https", "s3"])


def is_native(remote: str) -> bool:
    """Whether the engine's own store fetches what lies below `remote`: it speaks the scheme, and the program has neither
    put a class of its own in the place of ours nor changed how ours downloads."""
    scheme = _scheme(remote)
    cls = DOWNLOADER_MAPPINGS.get(scheme)
    if scheme not in _NATIVE or cls is None:
        return scheme in _NATIVE
    methods = (cls._download_file_impl, cls.download)
    return all(str(getattr(method, "__module__", None)).startswith(f"{__package__}.") for method in methods)


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[str]:
    """A name to write to, of this thread alone; the file gets its own name when it is whole, and none if that fails."""
    temporary = f"{path}.{os.getpid()}-{threading.get_ident()}.tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise
