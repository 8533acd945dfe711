"""Downloads and uploads of shards by the scheme of a URL.

Data sets fetch from folders, http(s) and s3 with the engine, and from all other schemes with these classes. Programs,
writers and merged indexes use the classes too. A cloud's library is imported when its class is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazy

if TYPE_CHECKING:
    from .download import (
        AlipanDownloader,
        AzureDataLakeDownloader,
        AzureDownloader,
        CloudDownloader,
        DatabricksUnityCatalogDownloader,
        DBFSDownloader,
        GCSDownloader,
        HFDownloader,
        LocalDownloader,
        OCIDownloader,
        S3Downloader,
        SFTPDownloader,
    )
    from .upload import (
        AzureDataLakeUploader,
        AzureUploader,
        CloudUploader,
        GCSUploader,
        HFUploader,
        LocalUploader,
        OCIUploader,
        S3Uploader,
    )

__all__ = [
    "AlipanDownloader",
    "AzureDataLakeDownloader",
    "AzureDataLakeUploader",
    "AzureDownloader",
    "AzureUploader",
    "CloudDownloader",
    "CloudUploader",
    "DBFSDownloader",
    "DatabricksUnityCatalogDownloader",
    "GCSDownloader",
    "GCSUploader",
    "HFDownloader",
    "HFUploader",
    "LocalDownloader",
    "LocalUploader",
    "OCIDownloader",
    "OCIUploader",
    "S3Downloader",
    "S3Uploader",
    "SFTPDownloader",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "download": [name for name in __all__ if name.endswith("Downloader")],
        "upload": [name for name in __all__ if name.endswith("Uploader")],
    },
)
