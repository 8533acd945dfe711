"""Amazon S3 and compatible stores, with boto3."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from typing import Any

from ...._forebay import redact
from ....errors import FormatError
from ..constant import DEFAULT_TIMEOUT
from ._downloader import CloudDownloader, whole_file
from ._uploader import CloudUploader

__all__ = ["S3Downloader", "S3Uploader", "bucket_and_key", "check_bucket", "list_keys"]

# Status codes of stores for a missing object; some hide its absence.
BOTOCORE_CLIENT_ERROR_CODES = {"403", "404", "NoSuchKey"}


def bucket_and_key(url: str) -> tuple[str, str]:
    """Splits an object's URL."""
    parts = urllib.parse.urlparse(url)
    return parts.netloc, parts.path.lstrip("/")


def check_bucket(client: Any, remote: str) -> None:
    """Checks that the bucket exists; raises the client's error with a hint."""
    from botocore.exceptions import ClientError

    bucket, _ = bucket_and_key(remote)
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] in BOTOCORE_CLIENT_ERROR_CODES:
            error.args = (f"Either bucket `{bucket}` does not exist! or check the bucket permission.",)
        raise


def list_keys(client: Any, remote: str, prefix: str | None) -> list[str]:
    """Returns all keys below `remote` for which the rest of the key starts with `prefix`."""
    bucket, folder = bucket_and_key(remote)
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=os.path.join(folder, prefix or "")
    )
    keys: list[str] = []
    for number, page in enumerate(pages, 1):
        keys += [entry["Key"] for entry in page.get("Contents", ())]
        if page.get("IsTruncated") and not page.get("NextContinuationToken"):
            # boto3 takes it for the last page.
            why = "the page is not the last one, and has no NextContinuationToken"
            raise FormatError(f"the listing is incomplete: {why} (page {number}, remote {redact(remote)})")
    return keys


class S3Uploader(CloudUploader):
    """Uploads to S3. S3_ENDPOINT_URL names a different server, S3_CANNED_ACL an access list of uploads; arguments as for
    `CloudUploader`."""

    def _connect(self) -> None:
        import boto3

        self.s3 = boto3.session.Session().client("s3", endpoint_url=os.environ.get("S3_ENDPOINT_URL"))
        self.check_bucket_exists(self.remote)

    def check_bucket_exists(self, remote: str) -> None:
        """Raises botocore's ClientError if the bucket does not exist."""
        check_bucket(self.s3, remote)

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        acl = os.environ.get("S3_CANNED_ACL")
        arguments = {} if acl is None else {"ACL": acl}
        self.s3.upload_file(local, *bucket_and_key(remote), ExtraArgs=arguments, Callback=advance)

    def _list(self, prefix: str | None) -> list[str]:
        return list_keys(self.s3, self.remote, prefix)


class S3Downloader(CloudDownloader):
    """Fetches from S3. S3_ENDPOINT_URL names a different server, MOSAICML_STREAMING_AWS_REQUESTER_PAYS a comma-separated
    list of buckets for which the reader pays the traffic. Without credentials requests are not signed."""

    def __init__(self) -> None:
        self._s3_client: Any = None
        pays = os.environ.get("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "")
        self._requester_pays_buckets = [name.strip() for name in pays.split(",")]

    @staticmethod
    def _client_identifier() -> str:
        return "s3"

    def clean_up(self) -> None:
        self._s3_client = None

    def __getstate__(self) -> dict[str, Any]:
        # A client cannot be pickled; each process makes its own.
        return {**vars(self), "_s3_client": None}

    def _create_s3_client(self, unsigned: bool = False, timeout: float = DEFAULT_TIMEOUT) -> None:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config

        session = boto3.session.Session()
        unsigned = unsigned or session.get_credentials() is None
        config = Config(read_timeout=timeout, retries={"mode": "adaptive"})
        if unsigned:
            config = config.merge(Config(signature_version=UNSIGNED))
        self._s3_client = session.client("s3", config=config, endpoint_url=os.environ.get("S3_ENDPOINT_URL"))

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        from botocore.exceptions import ClientError

        if self._s3_client is None:
            self._create_s3_client(timeout=timeout)
        try:
            self._fetch(remote, local)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in BOTOCORE_CLIENT_ERROR_CODES:
                error.args = (
                    f"Object {remote} not found! Either check the bucket path or the bucket permission. If the bucket is "
                    "a requester pays bucket, then provide the bucket name to the environment variable "
                    "`MOSAICML_STREAMING_AWS_REQUESTER_PAYS`.",
                )
            if code != "400":
                raise
            # The bucket rejects these credentials; a public bucket needs none.
            self._create_s3_client(unsigned=True, timeout=timeout)
            self._fetch(remote, local)

    def _fetch(self, remote: str, local: str) -> None:
        from boto3.s3.transfer import TransferConfig

        bucket, key = bucket_and_key(remote)
        arguments = {"RequestPayer": "requester"} if bucket in self._requester_pays_buckets else {}
        with whole_file(local) as path:
            self._s3_client.download_file(
                bucket, key, path, ExtraArgs=arguments, Config=TransferConfig(use_threads=False)
            )
