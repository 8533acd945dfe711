"""Storage of the reference that this package does not support."""

from __future__ import annotations

from typing import Any

from ....errors import UnsupportedError
from ._downloader import CloudDownloader
from ._uploader import CloudUploader

_WHY = "alipan:// is not supported: copy the data set to a local folder, or to a supported store (s3, gs, azure, oci, hf)"


class AlipanDownloader(CloudDownloader):
    """Raises an error for every file: Alipan is not supported."""

    @staticmethod
    def _client_identifier() -> str:
        return "alipan"

    def clean_up(self) -> None:
        pass

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        raise UnsupportedError(_WHY)


class AlipanUploader(CloudUploader):
    """Raises an error: Alipan is not supported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnsupportedError(_WHY)
