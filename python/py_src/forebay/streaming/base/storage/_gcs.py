"""Google Cloud Storage: with boto3 and an HMAC key, else with google-cloud-storage."""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from ._s3 import BOTOCORE_CLIENT_ERROR_CODES, bucket_and_key, check_bucket, list_keys
from ._downloader import CloudDownloader, whole_file
from ._uploader import CloudUploader

__all__ = ["GCSAuthentication", "GCSDownloader", "GCSUploader"]

GCS_ERROR_NO_AUTHENTICATION = (
    "Either set the environment variables `GCS_KEY` and `GCS_SECRET` or use any of the methods in "
    "https://cloud.google.com/docs/authentication/external/set-up-adc to set up Application Default Credentials. "
    "See also https://docs.mosaicml.com/projects/mcli/en/latest/resources/secrets/gcp.html."
)


class GCSAuthentication(Enum):
    """Signature of requests."""

    HMAC = 1
    """With GCS_KEY and GCS_SECRET."""
    SERVICE_ACCOUNT = 2
    """With Google's default credentials."""


def _client() -> tuple[Any, GCSAuthentication]:
    if "GCS_KEY" in os.environ and "GCS_SECRET" in os.environ:
        import boto3

        client = boto3.session.Session().client(
            "s3",
            region_name="auto",
            endpoint_url="https://storage.googleapis.com",
            aws_access_key_id=os.environ["GCS_KEY"],
            aws_secret_access_key=os.environ["GCS_SECRET"],
        )
        return client, GCSAuthentication.HMAC
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError
    from google.cloud import storage

    try:
        credentials, _ = google.auth.default()
        return storage.Client(credentials=credentials), GCSAuthentication.SERVICE_ACCOUNT
    except (DefaultCredentialsError, OSError) as error:
        raise ValueError(GCS_ERROR_NO_AUTHENTICATION) from error


class GCSUploader(CloudUploader):
    """Uploads to Google Cloud Storage; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        self.gcs_client, self.authentication = _client()
        self.check_bucket_exists(self.remote)

    def check_bucket_exists(self, remote: str) -> None:
        """Raises the client's error if the bucket does not exist."""
        if self.authentication == GCSAuthentication.HMAC:
            check_bucket(self.gcs_client, remote)
        else:
            self.gcs_client.get_bucket(bucket_and_key(remote)[0])

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        bucket, key = bucket_and_key(remote)
        if self.authentication == GCSAuthentication.HMAC:
            self.gcs_client.upload_file(local, bucket, key, Callback=advance)
        else:
            self.gcs_client.bucket(bucket).blob(key).upload_from_filename(local)
            advance(os.stat(local).st_size)

    def _list(self, prefix: str | None) -> list[str]:
        if self.authentication == GCSAuthentication.HMAC:
            return list_keys(self.gcs_client, self.remote, prefix)
        bucket, folder = bucket_and_key(self.remote)
        blobs = self.gcs_client.get_bucket(bucket).list_blobs(prefix=os.path.join(folder, prefix or ""))
        return [blob.name for blob in blobs]


class GCSDownloader(CloudDownloader):
    """Fetches from Google Cloud Storage."""

    def __init__(self) -> None:
        self._gcs_client: Any = None
        self._authentication: GCSAuthentication | None = None

    @staticmethod
    def _client_identifier() -> str:
        return "gs"

    def clean_up(self) -> None:
        self._gcs_client = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_gcs_client": None}

    def _create_gcs_client(self) -> None:
        self._gcs_client, self._authentication = _client()

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        if self._gcs_client is None:
            self._create_gcs_client()
        bucket, key = bucket_and_key(remote)
        with whole_file(local) as path:
            if self._authentication == GCSAuthentication.HMAC:
                self._fetch_hmac(bucket, key, path)
            else:
                self._gcs_client.bucket(bucket).blob(key).download_to_filename(path, timeout=timeout)

    def _fetch_hmac(self, bucket: str, key: str, path: str) -> None:
        from boto3.s3.transfer import TransferConfig
        from botocore.exceptions import ClientError

        try:
            self._gcs_client.download_file(bucket, key, path, Config=TransferConfig(use_threads=False))
        except ClientError as error:
            if error.response["Error"]["Code"] in BOTOCORE_CLIENT_ERROR_CODES:
                why = "not found, or access is denied: check the path and the permission"
                raise FileNotFoundError(f"Object gs://{bucket}/{key} {why}") from error
            raise
