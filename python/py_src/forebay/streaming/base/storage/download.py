"""Downloads of single files by the scheme of their URL."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..._lazy import lazy
from ._downloader import DOWNLOADER_MAPPINGS, CloudDownloader, LocalDownloader

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
    "DOWNLOADER_MAPPINGS",
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

logger = logging.getLogger(__name__)

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_absent": ("AlipanDownloader",),
        "_azure": ("AzureDataLakeDownloader", "AzureDownloader"),
        "_databricks": ("DBFSDownloader", "DatabricksUnityCatalogDownloader"),
        "_gcs": ("GCS_ERROR_NO_AUTHENTICATION", "GCSDownloader"),
        "_huggingface": ("HFDownloader",),
        "_oci": ("OCIDownloader",),
        "_messages": ("get_import_exception_message",),
        "_s3": ("BOTOCORE_CLIENT_ERROR_CODES", "S3Downloader"),
        "_sftp": ("SFTPDownloader",),
    },
    package=__package__,
)

_LOCAL_DOWNLOADER = LocalDownloader


def _register_cloud_downloader_subclasses() -> dict[str, type[CloudDownloader]]:
    """Returns `DOWNLOADER_MAPPINGS`. In the reference it adds the subclasses defined so far, and programs call it."""
    return DOWNLOADER_MAPPINGS
