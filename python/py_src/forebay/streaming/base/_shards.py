"""Shards of a stream, and of all streams of a data set, as sequences of readers."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ... import _forebay
from ...errors import Error, UnsupportedError
from .format import (
    ENGINE_READERS,
    Reader,
    get_index_basename,
    has_python_readers,
    reader_from_json,
    reads_in_python,
)

__all__ = ["AllShards", "GivenShards", "StreamShards", "open_shards"]


def open_shards(local: str, split: str) -> StreamShards | list[Reader]:
    """Opens the shards in the index of a local folder: for the engine, or as a list of readers if the program registers
    classes for their formats in `format._readers`.

    Args:
        local: The folder.
        split: Sub-folder of it.

    Raises:
        json.JSONDecodeError: The index is empty or not JSON.
        ValueError: The version of the index is not supported.
    """
    path = os.path.join(local, split, get_index_basename())
    if has_python_readers():
        index = _json(_read(path), path)
        if any(reads_in_python(entry["format"]) for entry in index["shards"]):
            return [reader_from_json(local, split, entry) for entry in index["shards"]]
    return StreamShards(local, split)


class StreamShards(Sequence[Reader]):
    """Shards of a stream. Readers are made on demand, because an index may list a hundred thousand shards.

    Args:
        local: The stream's local folder.
        split: Sub-folder of it.
    """

    def __init__(self, local: str, split: str) -> None:
        self._local, self._split = local, split
        self._open()

    def _open(self) -> None:
        path = os.path.join(self._local, self._split, get_index_basename())
        try:
            # Each spawned worker reads it, at once with the rest: the text of a million shards is 300 MB.
            self.index = _forebay.Index.read(path)
        except (Error, OSError):
            # The whole has the reference's error, and may be of a different program.
            self.index = _parsed(_read(path), path)
        self._count = len(self.samples)
        self._entries: list[dict[str, Any]] | None = None
        self._readers: dict[int, Reader] = {}

    def max_size(self) -> int:
        """Bytes of the largest shard on disk."""
        return self.index.shard_bytes_max()

    @property
    def samples(self) -> NDArray[np.int64]:
        """Samples of each shard."""
        return np.frombuffer(self.index.samples_per_shard(), np.int64)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Reader: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Reader]: ...
    def __getitem__(self, at: int | slice) -> Reader | Sequence[Reader]:
        numbers = range(len(self))[at]
        if isinstance(numbers, range):
            return [self._reader(number) for number in numbers]
        return self._reader(numbers)

    def _reader(self, number: int) -> Reader:
        reader = self._readers.get(number)
        if reader is None:
            if self._entries is None:
                with open(os.path.join(self._local, self._split, get_index_basename()), encoding="utf-8") as file:
                    self._entries = json.load(file)["shards"]
            reader = reader_from_json(self._local, self._split, self._entries[number])
            self._readers[number] = reader
        return reader

    def __getstate__(self) -> dict[str, str]:
        return {"_local": self._local, "_split": self._split}

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__.update(state)
        self._open()


class GivenShards(Sequence[Reader]):
    """Shards that a stream's own `get_shards` returned.

    Args:
        readers: Reader of each shard: an object with `samples` that can be indexed.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._readers = list(readers)
        self._open()

    def _open(self) -> None:
        # Everything that the order needs.
        shards = [_unreadable_shard(number, int(reader.samples)) for number, reader in enumerate(self._readers)]
        text = json.dumps({"version": 2, "shards": shards}).encode()
        self.index = _forebay.Index(text, "the shards of a stream of your own")

    @property
    def samples(self) -> NDArray[np.int64]:
        """Samples of each shard."""
        return np.array([reader.samples for reader in self._readers], np.int64)

    def index_of_files(self, folder: str) -> _forebay.Index | None:
        """Returns an index of the shards that the engine can read, by which it fetches their files; None without any.

        Args:
            folder: Name of the index in messages.
        """
        entries = [reader.describe() for reader in self._readers if type(reader) in ENGINE_READERS]
        if not entries:
            return None
        return _forebay.Index(json.dumps({"version": 2, "shards": entries}).encode(), folder)

    def max_size(self) -> int:
        """Bytes of the largest shard on disk."""
        return max((reader.get_max_size() for reader in self._readers), default=0)

    def __len__(self) -> int:
        return len(self._readers)

    @overload
    def __getitem__(self, at: int) -> Reader: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Reader]: ...
    def __getitem__(self, at: int | slice) -> Reader | Sequence[Reader]:
        return self._readers[at]

    def __getstate__(self) -> dict[str, Any]:
        return {"_readers": self._readers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def _unreadable_shard(number: int, samples: int) -> dict[str, Any]:
    """Returns an index entry in which only the number of samples is real."""
    return {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": None,
        "samples": samples,
        # The minimum size of a shard with this number of samples.
        "raw_data": {"basename": str(number), "bytes": 1024 + 8 * samples, "hashes": {}},
        "zip_data": None,
        "column_names": [],
        "column_encodings": [],
        "column_sizes": [],
    }


class AllShards(Sequence[Reader]):
    """Shards of several streams in sequence. A reader that is assigned replaces the reader at its index.

    Args:
        parts: The shards of each stream.
    """

    def __init__(self, parts: Sequence[Sequence[Reader]]) -> None:
        self._parts = list(parts)
        self.replaced: dict[int, Reader] = {}
        """Readers that the program has assigned, by number."""

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @overload
    def __getitem__(self, at: int) -> Reader: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Reader]: ...
    def __getitem__(self, at: int | slice) -> Reader | Sequence[Reader]:
        number = range(len(self))[at]
        if isinstance(number, range):
            return [self[one] for one in number]
        if number in self.replaced:
            return self.replaced[number]
        for shards in self._parts:
            if number < len(shards):
                return shards[number]
            number -= len(shards)
        raise AssertionError("a number within the range is in no stream")

    @overload
    def __setitem__(self, at: int, value: Reader) -> None: ...
    @overload
    def __setitem__(self, at: slice, value: Sequence[Reader]) -> None: ...
    def __setitem__(self, at: int | slice, value: Reader | Sequence[Reader]) -> None:
        numbers = range(len(self))[at]
        if not isinstance(numbers, range):
            numbers, value = range(numbers, numbers + 1), [value]
        readers = list(value)
        if len(readers) != len(numbers):
            raise ValueError(f"{len(readers)} readers cannot replace {len(numbers)} shards")
        # A new object, so that a change is found by identity.
        self.replaced = {**self.replaced, **dict(zip(numbers, readers))}

    def __iter__(self) -> Iterator[Reader]:
        for number, reader in enumerate(itertools.chain.from_iterable(self._parts)):
            yield self.replaced.get(number, reader)


def _read(path: str) -> bytes:
    """Returns the bytes of a file. An error does not show secrets of an address that was passed as a folder."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        shown = type(error)(error.errno, error.strerror, _forebay.redact(path))
    # Not in the handler: the handler's error would be its context.
    raise shown


def _parsed(text: bytes, path: str) -> _forebay.Index:
    """Parses an index with the engine. Invalid JSON and an unsupported version raise the reference's errors."""
    try:
        return _forebay.Index(text, path)
    except (ValueError, UnsupportedError):
        found = _json(text, path)
        if isinstance(found, dict):
            shards = found.get("shards")
            parts = [found, *(shards if isinstance(shards, list) else ())]
            for version in (part.get("version") for part in parts if isinstance(part, dict)):
                if version != 2:
                    raise ValueError(f"Unsupported streaming data version: {version}. Expected version 2.") from None
        raise


def _json(text: bytes, path: str) -> Any:
    """Parses the text of an index, with the reference's error."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(
            f"Index file at {path} is empty or corrupted. {error.msg}", error.doc, error.pos
        ) from error
