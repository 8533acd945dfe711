"""The classes of `s3torchconnector`, over this package's stores: for S3 and all further schemes.

    from forebay.s3torch import S3IterableDataset

    dataset = S3IterableDataset.from_prefix("s3://bucket/texts/", region="eu-west-1")

Names, arguments and results are as in s3torchconnector 1.5. Differences on purpose:

* URLs of all stores and paths are accepted, and `region` may be left out.
* `S3IterableDataset` divides its objects among ranks and workers of a DataLoader unless `enable_sharding=False`: there,
  each of them reads everything by default. It reads objects ahead, `shuffle=True` gives a new order in each epoch, and
  it has `set_epoch`, `state_dict` and `load_state_dict`.
* An error is an `S3Exception` with one of `forebay.errors` as its cause.

`dcp` has the classes for `torch.distributed.checkpoint`, `lightning` that for Lightning.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch.utils.data

from .._arguments import one_of, whole
from ..errors import Error
from ..files import File, FileList, FileReader, FileWriter, StoreOptions, list_files, load_files
from ..files.order import warn_of_second_division
from ..files.listing import check_prefix
from ..files.loading import is_marker

__all__ = [
    "S3Checkpoint",
    "S3ClientConfig",
    "S3Exception",
    "S3IterableDataset",
    "S3MapDataset",
    "S3Reader",
    "S3ReaderConstructor",
    "S3Writer",
]

_WHOLE_MAX = 64 << 20
"""Largest object that a data set reads ahead."""


class S3Exception(Exception):
    """Failure of a store."""


@contextlib.contextmanager
def raising() -> Iterator[None]:
    try:
        yield
    except Error as error:
        raise S3Exception(str(error)) from error


@dataclasses.dataclass(frozen=True)
class S3ClientConfig:
    """Settings of requests.

    Args:
        throughput_target_gbps: Accepted and not used: the number of requests follows from the network.
        part_size: Bytes of one request of a large object, from 5 MiB to 5 GiB.
        unsigned: Do not sign requests.
        force_path_style: Accepted and not used: buckets of an own endpoint are always part of the path.
        max_attempts: Attempts of each request. Of the default number, 5 are made as long as the endpoint accepts no connection.
        profile: Profile of the AWS files.
        requester_pays: Pay for the requests.
    """

    throughput_target_gbps: float = 10.0
    part_size: int = 8 << 20
    unsigned: bool = False
    force_path_style: bool = False
    max_attempts: int = 10
    profile: str | None = None
    requester_pays: bool = False

    def __post_init__(self) -> None:
        if not 5 << 20 <= self.part_size <= 5 << 30:
            raise ValueError(f"part_size must be from 5 MiB to 5 GiB, not {self.part_size} bytes")
        whole("max_attempts", self.max_attempts, least=1, below=1 << 32)
        if self.unsigned and self.requester_pays:
            raise ValueError("requester_pays needs signed requests: leave out unsigned")


class _DefaultAttempts(StoreOptions):
    """Settings with the default number of attempts, which the program has not asked for: a wrong endpoint is an error sooner."""

    _first_contact = 5


def store_options(region: str | None, endpoint: str | None, config: S3ClientConfig | None) -> StoreOptions:
    config = config or S3ClientConfig()
    options = _DefaultAttempts if config.max_attempts == S3ClientConfig.max_attempts else StoreOptions
    return options(
        endpoint=endpoint or None,
        region=region or None,
        profile=config.profile,
        unsigned=config.unsigned,
        requester_pays=config.requester_pays,
        part_size=config.part_size,
        retry=config.max_attempts,
    )


def _identity(reader: S3Reader) -> S3Reader:
    return reader


def bucket_and_key(url: str) -> tuple[str, str]:
    scheme, separator, rest = url.partition("://")
    bucket, _, key = (rest if separator else scheme).partition("/")
    return bucket, key


class S3ReaderConstructor:
    """Kinds of readers. All of them read ranges, and fetch ahead of sequential reads, so the kind makes no difference."""

    @staticmethod
    def sequential() -> str:
        return "sequential"

    @staticmethod
    def range_based(buffer_size: int | None = None) -> str:
        return "range_based"

    @staticmethod
    def dcp_optimized(max_gap_size: int = 32 << 20) -> str:
        return "dcp_optimized"

    @staticmethod
    def default() -> str:
        return "sequential"

    @staticmethod
    def get_reader_type_string(constructor: str | None) -> str:
        """Returns the name of a kind."""
        return constructor or "sequential"


class S3Reader(io.BufferedIOBase):
    """Object that is read. It is opened by the first read. Not for several threads at once."""

    def __init__(self, url: str, store: StoreOptions | None = None, content: bytes | None = None) -> None:
        super().__init__()
        self.bucket: str
        self.key: str
        self.bucket, self.key = bucket_and_key(url)
        self._url, self._store = url, store
        self._file: Any = None if content is None else io.BytesIO(content)
        self._size = None if content is None else len(content)

    def _open(self) -> Any:
        if self.closed:
            raise ValueError(f"the reader is closed: {self._url}")
        if self._file is None:
            with raising():
                self._file = FileReader(self._url, self._store)
            self._size = self._file.size
        return self._file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = None, /) -> bytes:
        if size is not None and not isinstance(size, int):
            raise TypeError(f"argument should be integer or None, not {type(size).__name__!r}")
        file = self._open()
        with raising():
            return file.read(-1 if size is None else size)

    def readinto(self, buffer: Any, /) -> int:
        file = self._open()
        with raising():
            return file.readinto(buffer)

    def read1(self, size: int = -1, /) -> bytes:
        file = self._open()
        with raising():
            return file.read1(size)

    def readline(self, size: int | None = -1, /) -> bytes:
        file = self._open()
        with raising():
            return file.readline(size)

    def __iter__(self) -> Iterator[bytes]:
        file = self._open()

        def lines() -> Iterator[bytes]:
            with raising():
                # Not from the file itself: an iterator that is dropped would close it.
                yield from itertools.chain(file)

        return lines()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if not isinstance(offset, int):
            raise TypeError(f"integer argument expected, got {type(offset).__name__!r}")
        file = self._open()
        # A position beyond the end is the end.
        at = file.seek(offset, whence)
        return at if at <= self._size else file.seek(0, io.SEEK_END)

    def tell(self) -> int:
        return self._open().tell()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()


class S3Writer(FileWriter):
    """Object that is written. It appears when it is closed, and not after an exception inside `with`."""

    def __init__(self, url: str, store: StoreOptions | None = None) -> None:
        with raising():
            super().__init__(url, store)
        self.bucket: str
        self.key: str
        self.bucket, self.key = bucket_and_key(url)

    def write(self, data: Any, /) -> int:
        with raising():
            return super().write(data)

    def flush(self) -> None:
        """Does nothing: parts are sent as they are complete."""

    def close(self) -> None:
        with raising():
            super().close()


class S3Checkpoint:
    """Readers and writers of checkpoints, for `torch.load` and `torch.save`.

    Args:
        region: Region of the bucket.
        endpoint: Server instead of AWS.
        s3client_config: Settings of requests.
        reader_constructor: Accepted and not used.
    """

    def __init__(
        self,
        region: str | None = None,
        endpoint: str | None = None,
        s3client_config: S3ClientConfig | None = None,
        reader_constructor: Any = None,
    ) -> None:
        self.region: str | None = region
        self.endpoint: str | None = endpoint
        self._store = store_options(region, endpoint, s3client_config)

    def reader(self, s3_uri: str) -> S3Reader:
        """Returns a reader of an object."""
        return S3Reader(s3_uri, self._store)

    def writer(self, s3_uri: str) -> S3Writer:
        """Returns a writer of an object."""
        return S3Writer(s3_uri, self._store)


class _DataSet:
    """Common parts of the data sets: their objects, and a transform of each reader."""

    def __init__(self, files: Any, region: str | None, endpoint: str | None, transform: Any, store: StoreOptions) -> None:
        self.region: str | None = region
        self.endpoint: str | None = endpoint
        self._files, self._transform, self._store = files, transform, store

    @classmethod
    def from_prefix(
        cls,
        s3_uri: str,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Callable[[S3Reader], Any] = _identity,
        s3client_config: S3ClientConfig | None = None,
        reader_constructor: Any = None,
        **more: Any,
    ) -> Any:
        """Makes a data set of the objects with URLs that start with a prefix. The list is made when it is needed.

        Args:
            s3_uri: Start of the URLs; a slash at its end selects a folder.
            region: Region of the bucket.
            endpoint: Server instead of AWS.
            transform: Function of an `S3Reader`; its result is the sample.
            s3client_config: Settings of requests.
            reader_constructor: Accepted and not used.
            more: Arguments of the class alone.
        """
        store = store_options(region, endpoint, s3client_config)
        files = list_files(check_prefix(s3_uri), store=store).with_markers()
        return cls(files, region, endpoint, transform, store, **more)

    @classmethod
    def from_objects(
        cls,
        object_uris: str | Iterable[str],
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Callable[[S3Reader], Any] = _identity,
        s3client_config: S3ClientConfig | None = None,
        reader_constructor: Any = None,
        **more: Any,
    ) -> Any:
        """Makes a data set of the objects with some URLs. The remaining arguments are as in `from_prefix`."""
        uris = [object_uris] if isinstance(object_uris, str) else list(object_uris)
        store = store_options(region, endpoint, s3client_config)
        return cls([File(uri) for uri in uris], region, endpoint, transform, store, **more)

    def _sample(self, url: str, content: bytes | None = None) -> Any:
        return self._transform(S3Reader(url, self._store, content))


class S3MapDataset(_DataSet, torch.utils.data.Dataset):
    """Data set with `len` and `dataset[i]`: by `from_prefix` or `from_objects`."""

    def __len__(self) -> int:
        with raising():
            return len(self._files)

    def __getitem__(self, at: int) -> Any:
        with raising():
            file = self._files[at]
        return self._sample(file.url, b"" if is_marker(file) else None)


class S3IterableDataset(_DataSet, torch.utils.data.IterableDataset):
    """Data set to iterate: by `from_prefix` or `from_objects`, with the additional arguments of this class.

    Args:
        enable_sharding: True and "auto" divide the objects among ranks, and among workers of a DataLoader. With False, each
            of them reads all.
        shuffle: A new order in each epoch, equal on all ranks. By default the order of the list.
        seed: Seed of the shuffle.
        concurrency: Objects that are read ahead.
    """

    def __init__(
        self,
        files: FileList | list[File],
        region: str | None,
        endpoint: str | None,
        transform: Callable[[S3Reader], Any],
        store: StoreOptions,
        enable_sharding: bool | str = "auto",
        shuffle: bool = False,
        seed: int = 0,
        concurrency: int = 64,
    ) -> None:
        super().__init__(files, region, endpoint, transform, store)
        one_of("enable_sharding", str(enable_sharding).lower(), ("auto", "true", "false"))
        shard = "none" if enable_sharding is False else "auto"
        self._loader = load_files(
            files, shuffle=shuffle, seed=seed, shard=shard, concurrency=concurrency, store=store, whole_max=_WHOLE_MAX
        )
        self._loader.has_markers = True
        self._is_divided = shard == "auto"

    def __iter__(self) -> Iterator[Any]:
        if self._is_divided:
            warn_of_second_division(self, "enable_sharding=False")
        loaded = iter(self._loader)
        while True:
            with raising():
                item = next(loaded, None)
            if item is None:
                return
            yield self._sample(*item)

    def set_epoch(self, epoch: int) -> None:
        """Continues with the beginning of an epoch."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, in the form of the position of `forebay.load_files`."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position."""
        self._loader.load_state_dict(state)
