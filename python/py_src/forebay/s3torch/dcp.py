"""The classes of `s3torchconnector.dcp`.

Their checkpoints have no commit, as with s3torchconnector: each side reads both. For checkpoints that are whole or
absent, with checksums and the loader's state, use `forebay.checkpoint.distributed`.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
import string
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint import filesystem
from torch.distributed.checkpoint.planner import LoadPlan, SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from ..errors import NotFoundError
from ..files import remove_files
from . import S3ClientConfig, S3Exception, S3Reader, S3Writer, bucket_and_key, raising, store_options

__all__ = [
    "BinaryPrefixStrategy",
    "DefaultPrefixStrategy",
    "HexPrefixStrategy",
    "NumericPrefixStrategy",
    "RoundRobinPrefixStrategy",
    "S3FileSystem",
    "S3PrefixStrategyBase",
    "S3StorageReader",
    "S3StorageWriter",
]

_COPIED = 8 << 20
"""Bytes that a rename copies at a time."""


class S3FileSystem(filesystem.FileSystemBase):
    """Files of a bucket for torch's readers and writers of checkpoints.

    Args:
        region: Region of the bucket.
        s3_client: Accepted and not used.
        s3client_config: Settings of requests.
        reader_constructor: Accepted and not used.
        endpoint: Server instead of AWS.
    """

    def __init__(
        self,
        region: str | None = None,
        s3_client: Any = None,
        s3client_config: S3ClientConfig | None = None,
        reader_constructor: Any = None,
        *,
        endpoint: str | None = None,
    ) -> None:
        self._store = store_options(region, endpoint, s3client_config)
        self.failure: BaseException | None = None
        """First failure of a file that was written, which torch drops in its extra threads."""

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        """Opens an object, with the mode "rb" or "wb"."""
        if mode == "rb":
            with S3Reader(os.fspath(path), self._store) as reader:
                yield reader
        elif mode == "wb":
            try:
                with S3Writer(os.fspath(path), self._store) as writer:
                    yield writer
            except BaseException as error:
                self.failure = self.failure or error
                raise
        else:
            raise ValueError(f"mode must be 'rb' or 'wb', not {mode!r}")

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        """Returns the path of a file in a folder."""
        return os.path.join(os.fspath(path), suffix)

    def init_path(self, path: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """Returns a path as the rest of the methods take it."""
        return path

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Copies an object and removes the old one."""
        if bucket_and_key(os.fspath(path))[0] != bucket_and_key(os.fspath(new_path))[0]:
            raise ValueError("a rename cannot lead to a different bucket")
        with self.create_stream(path, "rb") as reader, self.create_stream(new_path, "wb") as writer:
            while piece := reader.read(_COPIED):
                writer.write(piece)
        with raising():
            remove_files([path], store=self._store)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Does nothing: a bucket has no folders."""

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Returns True if there is an object."""
        try:
            with self.create_stream(path, "rb") as reader:
                reader.read(0)
        except S3Exception as error:
            if isinstance(error.__cause__, NotFoundError):
                return False
            raise
        return True

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Removes an object. One that does not exist is no error."""
        with raising():
            remove_files([path], store=self._store)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Returns True for a URL or a path."""
        return isinstance(checkpoint_id, os.PathLike) or "://" in str(checkpoint_id)


class S3PrefixStrategyBase(abc.ABC):
    """Starts of the names of each rank's files."""

    def __call__(self, rank: int) -> str:
        return self.generate_prefix(rank)

    @abc.abstractmethod
    def generate_prefix(self, rank: int) -> str:
        """Returns the start of the names of a rank's files."""


class DefaultPrefixStrategy(S3PrefixStrategyBase):
    """Names that start with the rank."""

    def generate_prefix(self, rank: int) -> str:
        return f"__{rank}_"


class RoundRobinPrefixStrategy(S3PrefixStrategyBase):
    """Prefixes that the ranks use in turn.

    Args:
        user_prefixes: The prefixes.
        epoch_num: Epoch, for a separate folder.
    """

    def __init__(self, user_prefixes: list[str], epoch_num: int | None = None) -> None:
        if not user_prefixes:
            raise ValueError("user_prefixes must not be empty")
        self.user_prefixes: list[str] = list(user_prefixes)
        self.epoch_num: int | None = _epoch(epoch_num)

    def generate_prefix(self, rank: int) -> str:
        return _joined(self.user_prefixes[rank % len(self.user_prefixes)], self.epoch_num, rank)


class NumericPrefixStrategy(S3PrefixStrategyBase):
    """Prefixes that are numbers with their digits reversed, so that the first digits differ.

    Args:
        base: Base of the numbers, 2 to 16.
        epoch_num: Epoch, for a separate folder.
        min_prefix_length: Least number of digits.
        prefix_count: Number of prefixes, by default the number of ranks.
    """

    def __init__(
        self, base: int, epoch_num: int | None = None, min_prefix_length: int = 10, prefix_count: int | None = None
    ) -> None:
        if min_prefix_length < 1:
            raise ValueError(f"min_prefix_length must be at least 1, not {min_prefix_length}")
        if prefix_count is not None and (not isinstance(prefix_count, int) or prefix_count < 1):
            raise ValueError(f"prefix_count must be an integer of at least 1, not {prefix_count}")
        self.base: int = base
        self.epoch_num: int | None = _epoch(epoch_num)
        self.min_prefix_len: int = min_prefix_length
        self.prefix_count: int = prefix_count or (dist.get_world_size() if dist.is_initialized() else 1)

    def generate_prefix(self, rank: int) -> str:
        number, digits = rank % self.prefix_count, ""
        while number:
            number, digit = divmod(number, self.base)
            digits += string.hexdigits[digit]
        return _joined(digits.ljust(self._length(), "0"), self.epoch_num, rank)

    def _length(self) -> int:
        """Returns the digits of each prefix."""
        length = self.min_prefix_len
        while self.base**length < self.prefix_count:
            length += 1
        return length


class BinaryPrefixStrategy(NumericPrefixStrategy):
    """Binary prefixes. The arguments are as in `NumericPrefixStrategy`."""

    def __init__(self, epoch_num: int | None = None, min_prefix_length: int = 10, prefix_count: int | None = None) -> None:
        super().__init__(2, epoch_num, min_prefix_length, prefix_count)


class HexPrefixStrategy(NumericPrefixStrategy):
    """Hexadecimal prefixes. The arguments are as in `NumericPrefixStrategy`."""

    def __init__(self, epoch_num: int | None = None, min_prefix_length: int = 10, prefix_count: int | None = None) -> None:
        super().__init__(16, epoch_num, min_prefix_length, prefix_count)


def _epoch(number: Any) -> int | None:
    if number is not None and not isinstance(number, int):
        raise ValueError(f"epoch_num must be an integer or None, not {number!r}")
    return number


def _joined(prefix: str, epoch: int | None, rank: int) -> str:
    return f"{prefix}/__{rank}_" if epoch is None else f"{prefix}/epoch_{epoch}/__{rank}_"


@dataclasses.dataclass
class _Prefix:
    """Start of the names of a rank's files, as torch's writer takes it."""

    prefix: str


class S3StorageWriter(filesystem.FileSystemWriter):
    """`storage_writer` of `torch.distributed.checkpoint.save`.

    Args:
        region: Region of the bucket.
        path: URL of the checkpoint's folder.
        s3client_config: Settings of requests.
        prefix_strategy: Starts of the names of files.
        thread_count: Files that a rank writes at a time.
        endpoint: Server instead of AWS.
        kwargs: Arguments of torch's `FileSystemWriter`.
    """

    def __init__(
        self,
        region: str | None,
        path: str,
        s3client_config: S3ClientConfig | None = None,
        prefix_strategy: S3PrefixStrategyBase | None = None,
        thread_count: int = 1,
        *,
        endpoint: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(path, sync_files=False, thread_count=thread_count, **kwargs)
        self._files = S3FileSystem(region, s3client_config=s3client_config, endpoint=endpoint)
        self.fs: Any = self._files
        self.path: str = path
        self.prefix_strategy: S3PrefixStrategyBase = prefix_strategy or DefaultPrefixStrategy()

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            dataclasses.replace(plan, storage_data=_Prefix(self.prefix_strategy(rank))) for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        self._files.failure = None
        results = super().write_data(plan, planner)
        if self._files.failure is not None:
            raise self._files.failure
        return results

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return S3FileSystem.validate_checkpoint_id(checkpoint_id)


class S3StorageReader(filesystem.FileSystemReader):
    """`storage_reader` of `torch.distributed.checkpoint.load`.

    Args:
        region: Region of the bucket.
        path: URL of the checkpoint's folder.
        s3client_config: Settings of requests.
        reader_constructor: Accepted and not used.
        endpoint: Server instead of AWS.
    """

    def __init__(
        self,
        region: str | None,
        path: str | os.PathLike[str],
        s3client_config: S3ClientConfig | None = None,
        reader_constructor: Any = None,
        *,
        endpoint: str | None = None,
    ) -> None:
        super().__init__(path)
        self.fs: Any = S3FileSystem(region, s3client_config=s3client_config, endpoint=endpoint)
        self.path: str = path

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Sorts the items by their offsets, for reads that fetch ahead."""
        plan.items.sort(key=lambda item: self.storage_data[item.storage_index].offset)
        return plan

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return S3FileSystem.validate_checkpoint_id(checkpoint_id)
