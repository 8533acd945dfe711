"""torchdata's DataPipes for S3, which torchdata no longer has, over this package's stores: for every scheme.

    from torch.utils.data.datapipes.iter import IterableWrapper
    import forebay.datapipes

    urls = IterableWrapper(["s3://bucket/train"]).list_files_by_s3(masks="*.tar").shuffle().sharding_filter()
    for url, stream in urls.load_files_by_s3():
        stream.read()

Arguments, environment variables and results are as in torchdata 0.9. Differences on purpose: an error is raised, where
the original printed it and returned short data; a wrong region is corrected or an error, not an empty list; several
files are fetched at once; `request_timeout_ms=-1` is 60 s without progress; `S3_VERIFY_SSL=0` is an error: add the
authority to the system's certificates instead.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data.datapipes._decorator import functional_datapipe
from torch.utils.data.datapipes.datapipe import IterDataPipe
from torch.utils.data.datapipes.utils.common import StreamWrapper

from .errors import ConfigError
from .files import StoreOptions, list_files, load_files
from .files.listing import check_prefix

__all__ = ["S3FileLister", "S3FileLoader"]


def _store(request_timeout_ms: int, region: str, part_size: int | None = None) -> StoreOptions:
    if os.environ.get("S3_VERIFY_SSL") == "0":
        raise ConfigError(
            "S3_VERIFY_SSL=0 is not supported: add the store's authority to the system's certificates, or use SSL_CERT_FILE"
        )
    endpoint = os.environ.get("S3_ENDPOINT_URL")
    if endpoint and "://" not in endpoint:
        scheme = "http" if os.environ.get("S3_USE_HTTPS") == "0" else "https"
        endpoint = f"{scheme}://{endpoint}"
    return StoreOptions(
        endpoint=endpoint or None,
        region=region or None,
        part_size=part_size,
        timeout=60.0 if request_timeout_ms == -1 else request_timeout_ms / 1000,
    )


@functional_datapipe("list_files_by_s3")
class S3FileLister(IterDataPipe):
    """URLs of the files below prefixes.

    Args:
        source_datapipe: Prefixes, such as "s3://bucket/folder".
        length: Value of `len`; -1 for none.
        request_timeout_ms: Milliseconds without progress after which an attempt fails; -1 for 60 s.
        region: Region of the buckets; by default `AWS_REGION` or the store's answer.
        masks: Pattern, or several, of the names to list.
    """

    def __init__(
        self,
        source_datapipe: Any,
        length: int = -1,
        request_timeout_ms: int = -1,
        region: str = "",
        masks: str | Sequence[str] = "",
    ) -> None:
        self.source_datapipe: Any = source_datapipe
        self.length: int = length
        self.masks: str | Sequence[str] = masks
        self._store = _store(request_timeout_ms, region)

    def __iter__(self) -> Iterator[str]:
        for prefix in self.source_datapipe:
            files = list_files(check_prefix(prefix), masks=self.masks or None, store=self._store)
            yield from (file.url for file in files)

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("load_files_by_s3")
class S3FileLoader(IterDataPipe):
    """Pairs of URL and stream, for the URLs of a DataPipe, in their order.

    Args:
        source_datapipe: URLs.
        request_timeout_ms: Milliseconds without progress after which an attempt fails; -1 for 60 s.
        region: Region of the buckets; by default `AWS_REGION` or the store's answer.
        buffer_size: Bytes of files that are fetched ahead; by default `S3_BUFFER_SIZE`, or 256 MiB.
        multi_part_download: Divide large files into ranges that are fetched at once; by default yes, unless
            `S3_MULTI_PART_DOWNLOAD` is "OFF".
    """

    def __init__(
        self,
        source_datapipe: Any,
        request_timeout_ms: int = -1,
        region: str = "",
        buffer_size: int | None = None,
        multi_part_download: bool | None = None,
    ) -> None:
        self.source_datapipe = source_datapipe
        if multi_part_download is None:
            multi_part_download = os.environ.get("S3_MULTI_PART_DOWNLOAD", "").upper() != "OFF"
        self._buffer = buffer_size or int(os.environ.get("S3_BUFFER_SIZE") or 256 << 20)
        # One range has the whole file where it is not to be divided.
        self._store = _store(request_timeout_ms, region, None if multi_part_download else 5 << 40)

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        loader = load_files(self.source_datapipe, shard="none", buffer=self._buffer, store=self._store)
        for url, data in loader:
            yield url, StreamWrapper(io.BytesIO(data))

    def __len__(self) -> int:
        return len(self.source_datapipe)
