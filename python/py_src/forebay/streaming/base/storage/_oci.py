"""Oracle's object storage, with its library and its configuration file. URLs are oci://bucket@namespace/key."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from typing import Any

from ...._forebay import redact
from ....errors import FormatError
from ._downloader import CloudDownloader, whole_file
from ._uploader import CloudUploader

__all__ = ["OCIDownloader", "OCIUploader"]

_PIECE_BYTES = 1 << 22


def _client() -> Any:
    import oci

    return oci.object_storage.ObjectStorageClient(
        config=oci.config.from_file(), retry_strategy=oci.retry.DEFAULT_RETRY_STRATEGY
    )


def _bucket_and_key(url: str, namespace: str) -> tuple[str, str]:
    parts = urllib.parse.urlparse(url)
    return parts.netloc.split(f"@{namespace}")[0], parts.path.strip("/")


class OCIUploader(CloudUploader):
    """Uploads to Oracle's object storage; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        import oci

        self.client = _client()
        self.namespace = self.client.get_namespace().data
        self.upload_manager = oci.object_storage.UploadManager(self.client)
        self.check_bucket_exists(self.remote)

    def check_bucket_exists(self, remote: str) -> None:
        """Raises oci's ServiceError if the bucket does not exist."""
        from oci.exceptions import ServiceError

        bucket, _ = _bucket_and_key(remote, self.namespace)
        try:
            self.client.head_bucket(bucket_name=bucket, namespace_name=self.namespace)
        except ServiceError as error:
            if error.status == 404:
                error.args = (
                    f"Bucket `{bucket}` does not exist! Check the bucket permission or create the bucket.",
                )
            raise

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        bucket, key = _bucket_and_key(remote, self.namespace)
        self.upload_manager.upload_file(
            namespace_name=self.namespace,
            bucket_name=bucket,
            object_name=key,
            file_path=local,
            progress_callback=advance,
        )

    def _list(self, prefix: str | None) -> list[str]:
        bucket, folder = _bucket_and_key(self.remote, self.namespace)
        names: list[str] = []
        start = None
        while True:
            page = self.client.list_objects(
                namespace_name=self.namespace,
                bucket_name=bucket,
                prefix=os.path.join(folder, prefix or ""),
                start=start,
            ).data
            names += [entry.name for entry in page.objects]
            if page.next_start_with and start is not None and page.next_start_with <= start:
                why = "the store repeats the token of an earlier page of a listing, which would not end"
                raise FormatError(f"{why} (remote {redact(self.remote)})")
            start = page.next_start_with
            if not start:
                return names


class OCIDownloader(CloudDownloader):
    """Fetches from Oracle's object storage."""

    def __init__(self) -> None:
        self._oci_client: Any = None

    @staticmethod
    def _client_identifier() -> str:
        return "oci"

    def clean_up(self) -> None:
        self._oci_client = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_oci_client": None}

    def _create_oci_client(self) -> None:
        self._oci_client = _client()

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        if self._oci_client is None:
            self._create_oci_client()
        namespace = self._oci_client.get_namespace().data
        answer = self._oci_client.get_object(namespace, *_bucket_and_key(remote, namespace))
        with whole_file(local) as path, open(path, "wb") as file:
            for piece in answer.data.raw.stream(_PIECE_BYTES, decode_content=False):
                file.write(piece)
