"""Uploads of single files by the scheme of the folder's URL."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..._lazy import lazy
from .._retry import retry as retry
from ._uploader import UPLOADERS, CloudUploader, LocalUploader

if TYPE_CHECKING:
    from ._absent import AlipanUploader
    from ._azure import AzureDataLakeUploader, AzureUploader
    from ._databricks import DatabricksUnityCatalogUploader, DatabricksUploader, DBFSUploader
    from ._gcs import GCSAuthentication, GCSUploader
    from ._huggingface import HFUploader
    from ._oci import OCIUploader
    from ._s3 import S3Uploader

__all__ = [
    "UPLOADERS",
    "AlipanUploader",
    "AzureDataLakeUploader",
    "AzureUploader",
    "CloudUploader",
    "DBFSUploader",
    "DatabricksUnityCatalogUploader",
    "DatabricksUploader",
    "GCSAuthentication",
    "GCSUploader",
    "HFUploader",
    "LocalUploader",
    "OCIUploader",
    "S3Uploader",
]

logger = logging.getLogger(__name__)

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_absent": ("AlipanUploader",),
        "_azure": ("AzureDataLakeUploader", "AzureUploader"),
        "_databricks": ("DBFSUploader", "DatabricksUnityCatalogUploader", "DatabricksUploader"),
        "_gcs": ("GCS_ERROR_NO_AUTHENTICATION", "GCSAuthentication", "GCSUploader"),
        "_huggingface": ("HFUploader",),
        "_oci": ("OCIUploader",),
        "_messages": ("get_import_exception_message",),
        "_s3": ("BOTOCORE_CLIENT_ERROR_CODES", "S3Uploader"),
    },
    package=__package__,
)
