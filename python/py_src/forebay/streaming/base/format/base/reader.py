"""Base class of readers: a shard on local disk as a sequence of samples."""

from __future__ import annotations

import json
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from ..... import _forebay
from .....errors import Error, FormatError
from ..._originals import Originals
from ..._sizes import bytes_to_int
from ...array import Array

__all__ = ["FileInfo", "JointReader", "Reader", "SplitReader"]

_PAIR = struct.Struct("<2I")


@dataclass
class FileInfo:
    """Entry of a shard's file in the index."""

    basename: str
    """Name, relative to the data set's folder."""
    bytes: int
    """Size in bytes."""
    hashes: dict[str, str]
    """Hashes by algorithm, in hexadecimal digits."""


class Reader(Array, ABC):
    """Samples of one shard.

    Args:
        dirname: The data set's folder.
        split: Sub-folder of it.
        compression: Compression of the files, such as "zstd:7".
        hashes: Algorithms of the hashes in the index.
        samples: Samples of the shard.
        size_limit: Largest raw shard at the time of writing, in bytes or as "64mb".
    """

    format: ClassVar[str]
    """Name of the format in the index."""

    _file_arguments: ClassVar[tuple[str, ...]]
    """Arguments that describe files."""

    _column_arguments: ClassVar[tuple[str, ...]]
    """Arguments that describe columns."""

    _by_engine: bool = False
    """True if the engine reads and decodes samples."""

    _decoding: ClassVar[Originals]
    """The engine does so instead of these functions."""

    @staticmethod
    def _decoder_of(encoding: str, is_built_in: bool) -> Callable[[bytes], Any] | None:
        """Returns the function that decodes a column of a binary format, or None for the engine's."""
        return None

    _engine: _forebay.SingleShard | None = None
    """The engine's reader, made at the first sample."""

    def __init_subclass__(cls, by_engine: bool = False, **more: Any) -> None:
        super().__init_subclass__(**more)
        if by_engine:
            cls._by_engine = True
            cls._decoding = Originals(cls, "get_sample_data", "decode_sample")
        elif not vars(cls).keys().isdisjoint(("get_sample_data", "decode_sample")):
            # Not for a class with its own function for either.
            cls._by_engine = False

    def __init__(
        self,
        dirname: str,
        split: str | None,
        compression: str | None,
        hashes: list[str],
        samples: int,
        size_limit: int | str | None,
    ) -> None:
        if size_limit:
            size_limit = bytes_to_int(size_limit)
            if size_limit < 0:
                raise ValueError(f"`size_limit` must be greater than zero, instead, found as {size_limit}.")
        self.dirname = dirname
        self.split = split or ""
        self.compression = compression
        self.hashes = hashes
        self.samples = samples
        self.size_limit = size_limit
        self.file_pairs: list[tuple[FileInfo, FileInfo | None]] = []

    @classmethod
    def from_json(cls, dirname: str, split: str | None, obj: dict[str, Any]) -> Reader:
        """Makes the reader of a shard from its entry in the index.

        Raises:
            TypeError: A field of the entry is missing or unknown.
            ValueError: The entry has a wrong version or format.
        """
        arguments = dict(obj)
        version = arguments.pop("version")
        if version != 2:
            raise ValueError(f"Unsupported streaming data version: {version}. Expected version 2.")
        format = arguments.pop("format")
        if format != cls.format:
            raise ValueError(f"Unsupported data format: {format}. Expected to be `{cls.format}`.")
        for name in cls._file_arguments:
            arguments[name] = FileInfo(**arguments[name]) if arguments[name] else None
        return cls(dirname=dirname, split=split, **arguments)

    def validate(self, allow_unsafe_types: bool) -> None:
        """Rejects a shard that can be read only if it is trusted.

        Args:
            allow_unsafe_types: True if it is trusted.

        Raises:
            ValueError: A column holds pickles, which are not allowed.
        """

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.samples

    def __len__(self) -> int:
        return self.samples

    def _path(self, info: FileInfo) -> str:
        return os.path.join(self.dirname, self.split, info.basename)

    def _raw_infos(self) -> list[FileInfo]:
        return [raw for raw, _ in self.file_pairs]

    def _zip_infos(self) -> list[FileInfo]:
        return [packed for _, packed in self.file_pairs if packed is not None]

    def _remove(self, infos: list[FileInfo]) -> int:
        """Removes files; returns the freed bytes."""
        freed = 0
        for info in infos:
            try:
                os.remove(self._path(info))
            except FileNotFoundError:
                continue
            freed += info.bytes
        return freed

    def _evict_raw(self) -> int:
        return self._remove(self._raw_infos())

    def _evict_zip(self) -> int:
        return self._remove(self._zip_infos())

    def evict(self) -> int:
        """Removes all files of the shard.

        Returns:
            The freed bytes.
        """
        return self._evict_raw() + self._evict_zip()

    def set_up_local(self, listing: set[str], safe_keep_zip: bool) -> int:
        """Removes incomplete and unneeded files of the shard.

        Args:
            listing: Paths of all files in the data set's folder.
            safe_keep_zip: Keep compressed files next to the unpacked ones.

        Returns:
            Bytes of the remaining files; 0 if the shard is not resident.

        Raises:
            ValueError: The shard has a compressed file, but no compression in the index.
        """

        def complete(infos: list[FileInfo]) -> bool:
            present = [self._path(info) in listing for info in infos]
            if any(present) and not all(present):
                self._remove(infos)
            return bool(present) and all(present)

        has_raw = complete(self._raw_infos())
        has_zip = complete(self._zip_infos())
        if has_zip and not self.compression:
            raise ValueError("Shard is invalid: compression was not used, but has a compressed form.")
        if self.compression and has_raw:
            if has_zip and not safe_keep_zip:
                # Reads use the raw file.
                self._evict_zip()
                has_zip = False
            elif safe_keep_zip and not has_zip:
                # The remaining files would not be the whole shard.
                self._evict_raw()
                has_raw = False
        return (self.get_raw_size() if has_raw else 0) + ((self.get_zip_size() or 0) if has_zip else 0)

    def get_raw_size(self) -> int:
        """Returns the bytes of the shard's raw files."""
        return sum(info.bytes for info in self._raw_infos())

    def get_zip_size(self) -> int | None:
        """Returns the bytes of its compressed files; None if it has none."""
        infos = self._zip_infos()
        return sum(info.bytes for info in infos) if len(infos) == len(self.file_pairs) else None

    def get_max_size(self) -> int:
        """Returns the peak bytes on disk: raw and compressed files while the shard is unpacked."""
        return self.get_raw_size() + (self.get_zip_size() or 0)

    def get_persistent_size(self, keep_zip: bool) -> int:
        """Returns the bytes of the shard after unpacking.

        Args:
            keep_zip: True if compressed files are kept.
        """
        return self.get_max_size() if self.compression and keep_zip else self.get_raw_size()

    @abstractmethod
    def decode_sample(self, data: bytes) -> dict[str, Any]:
        """Decodes a sample's bytes to its columns by name."""
        raise NotImplementedError

    @abstractmethod
    def get_sample_data(self, idx: int) -> bytes:
        """Returns the bytes of the sample at `idx`.

        Raises:
            FileNotFoundError: The shard's file does not exist.
            IndexError: The shard has no such sample.
        """
        raise NotImplementedError

    def get_item(self, idx: int) -> dict[str, Any]:
        """Returns the sample at `idx` as a dict of its columns."""
        if self._by_engine and 0 <= idx < self.samples and not self._decoding.are_replaced(self):
            if self._engine is None:
                self._engine = self._open_engine()
            if self._engine is not None:
                return self._engine.sample(int(idx))
        return self.decode_sample(self.get_sample_data(idx))

    def describe(self) -> dict[str, Any]:
        """Returns the shard's entry in an index."""
        files = {name: getattr(self, name) and asdict(getattr(self, name)) for name in self._file_arguments}
        columns = {name: getattr(self, name) for name in self._column_arguments}
        return {
            "version": 2,
            "format": self.format,
            "compression": self.compression,
            "hashes": self.hashes,
            "size_limit": self.size_limit,
            "samples": self.samples,
            **files,
            **columns,
        }

    def _open_engine(self) -> _forebay.SingleShard | None:
        """Opens the engine's reader of the raw files; None, now and later, if the engine rejects the shard."""
        entry = {**self.describe(), "compression": None, "hashes": [], "size_limit": None}
        for name in self._file_arguments:
            entry[name] = {**entry[name], "hashes": {}} if name.startswith("raw") else None
        folder = os.path.join(self.dirname, self.split)
        try:
            index = _forebay.Index(json.dumps({"version": 2, "shards": [entry]}).encode(), folder)
        except Error:
            self._by_engine = False
            return None
        return _forebay.SingleShard(index, folder, self._decoder_of)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def _read(self, table: FileInfo, data: FileInfo, idx: int) -> bytes:
        """Reads the sample at `idx`. Its offsets are at the front of `table`."""
        if not 0 <= idx < self.samples:
            raise IndexError(f"Relative sample index {idx} is not present in the {data.basename} file.")
        pair = _read_at(self._path(table), 8, 4 + 4 * idx)
        if len(pair) < 8:
            raise FormatError(f"{self._path(table)} ends before the offsets of sample {idx}")
        begin, end = _PAIR.unpack(pair)
        sample = _read_at(self._path(data), end - begin, begin) if begin < end else b""
        if len(sample) != max(0, end - begin):
            raise FormatError(f"{self._path(data)} ends within sample {idx}, at byte {begin + len(sample)} of {end}")
        return sample


def _read_at(path: str, length: int, offset: int) -> bytes:
    """Reads `length` bytes of a file from `offset`, fewer only at its end."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(file, length, offset)
        while len(data) < length:
            # A read is short at 2 GiB, and at the end of the file.
            more = os.pread(file, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data
    finally:
        os.close(file)


class JointReader(Reader):
    """Shard of one file.

    Args:
        dirname: As for `Reader`, like all except the two files.
        split: As above.
        compression: As above.
        hashes: As above.
        raw_data: The file, unpacked.
        samples: As above.
        size_limit: As above.
        zip_data: The file, compressed.
    """

    _file_arguments = ("raw_data", "zip_data")

    def __init__(
        self,
        dirname: str,
        split: str | None,
        compression: str | None,
        hashes: list[str],
        raw_data: FileInfo,
        samples: int,
        size_limit: int | str | None,
        zip_data: FileInfo | None,
    ) -> None:
        super().__init__(dirname, split, compression, hashes, samples, size_limit)
        self.raw_data = raw_data
        self.zip_data = zip_data
        self.file_pairs.append((raw_data, zip_data))


class SplitReader(Reader):
    """Shard of two files: data, and a meta file with the offsets.

    Args:
        dirname: As for `Reader`, like all except the four files.
        split: As above.
        compression: As above.
        hashes: As above.
        raw_data: The data, unpacked.
        raw_meta: The meta file, unpacked.
        samples: As above.
        size_limit: As above.
        zip_data: The data, compressed.
        zip_meta: The meta file, compressed.
    """

    _file_arguments = ("raw_data", "raw_meta", "zip_data", "zip_meta")

    def __init__(
        self,
        dirname: str,
        split: str | None,
        compression: str | None,
        hashes: list[str],
        raw_data: FileInfo,
        raw_meta: FileInfo,
        samples: int,
        size_limit: int | str | None,
        zip_data: FileInfo | None,
        zip_meta: FileInfo | None,
    ) -> None:
        super().__init__(dirname, split, compression, hashes, samples, size_limit)
        self.raw_data = raw_data
        self.raw_meta = raw_meta
        self.zip_data = zip_data
        self.zip_meta = zip_meta
        self.file_pairs += [(raw_meta, zip_meta), (raw_data, zip_data)]

    def get_sample_data(self, idx: int) -> bytes:
        return self._read(self.raw_meta, self.raw_data, idx)
