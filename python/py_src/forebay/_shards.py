"""Access to shards of local data sets, one sample at a time."""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import operator
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, overload

from . import _forebay
from ._arguments import address, folder, text
from ._convert.ragged import NUMBERS
from .errors import DecodeError, Error, FormatError, NotFoundError, SampleIndexError, UnsupportedError, of_system
from .remotes import library_stores

# Most bytes of a shard that is kept in memory.
KEPT_BYTES_MAX = 256 << 20

_UNREADABLE = (FormatError, NotFoundError, UnsupportedError)
"""Errors of an index that a different reader may understand."""

# Bytes from which each column of a sample is read alone, so that it is in memory once.
LARGE_BYTES = 16 << 20


def read_index(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the shards of an index.json after checking it, as in `read_index("data/train")[0]["samples"]`.

    Args:
        path: The file, or its folder.

    Returns:
        For each shard its `format`, `samples`, `columns` (pairs of name and encoding), `compression` (such as "zstd:3"
        or None) and `files` (`raw` and `zip` names, `raw_bytes`).

    Raises:
        FormatError: The file is not a valid index; the message names the field.
        NotFoundError: There is no such file; the message names the data sets in the folder, or next to it.
    """
    _, shards = _open_index(path)
    return shards


def _open_index(path: str | os.PathLike[str]) -> tuple[_forebay.Index, list[dict[str, Any]]]:
    path = folder("path", path)
    if os.path.isdir(path) or not (path.endswith(".json") or os.path.isfile(path)):
        path = os.path.join(path, "index.json")
    try:
        content = _read(path, "the index cannot be read")
    except NotFoundError:
        there = _forebay.Index.describe_folder(os.path.dirname(path))
        raise NotFoundError(f"there is no {os.path.basename(path)}: {there} (file {path})") from None
    index = _forebay.Index(content, path)
    return index, json.loads(index.describe())


def _read(path: str, failed: str, start: int = 0, length: int = -1) -> bytes:
    """Returns a file's bytes, or `length` of them from `start` on. `failed` begins the message of an error."""
    try:
        # Without O_NONBLOCK a pipe instead of the file would block the call.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FormatError(f"{failed}: it is not a regular file (file {path})")
            file.seek(start)
            return file.read(length)
    except OSError as error:
        raise of_system(error, failed, file=path) from error


class _LargeFile:
    """Raw file of a shard that is not read as a whole: a slice of it is read when it is needed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getitem__(self, at: slice) -> bytes:
        data = _read(self.path, "a shard cannot be read", at.start, at.stop - at.start)
        if len(data) < at.stop - at.start:
            raise FormatError(f"{self.path} ends at byte {at.start + len(data)}, within a sample that ends at {at.stop}")
        return data


class ShardReader(Sequence[dict[str, Any]]):
    """A data set as a sequence of samples: a folder of shards, or any kind that a `Loader` reads.

        reader = ShardReader("data/train")
        reader = ShardReader("s3://bucket/train-{000..146}.tar")
        reader[7]["cls"]

    A sample is a dict of its columns: numbers, text and bytes in types of Python and numpy, arrays of numpy, raw pixels
    as a Pillow image. JPEG, PNG and pickle columns are returned as the stored bytes. Compressed shards are unpacked in
    memory, and the last one is kept; of a raw shard above 256 MiB only the samples are read. Hashes are not checked: the
    loader checks them when it fetches or unpacks a shard.

    Shards behind a URL and files of lists, such as WebDataset's tars, are fetched into the folder that a loader uses without
    `local` (of tables a loader with `Skip(errors=...)`), when their first sample is read; tars, LitData's chunks and loose
    files in a folder are read where they are. A sample has the columns that are stored for it; a null of Parquet and Arrow files
    is None.
    It is a data set for torch's DataLoader: each worker opens its own reader.

    Args:
        local: Folder with index.json, or of files such as pictures; the URL of one; or a list of files, as `remote` of a `Loader`.
        split: Sub-folder of `local`.

    Raises:
        NotFoundError: There is no index, or a shard is missing. `reader[number]` raises its subclass
            `SampleIndexError`, which is an `IndexError`, for a number beyond the end.
        FormatError: The index or a shard is damaged.
        ConfigError: A column of tables has times of different units in two files.
        DecodeError: A value cannot be converted; the message names column, sample and shard.
        AccessError: The file system denies access.
    """

    def __init__(self, local: str | os.PathLike[str], split: str | None = None) -> None:
        self._engine = None
        self.shards: list[dict[str, Any]]
        source = address("local", local, "the path of a local folder, or an address")
        split = None if split is None else text("split", split)
        # The error about a different kind of file has the way to read it.
        if _forebay.is_url(source) or _forebay.is_file_list(source) or os.path.isfile(source):
            self._read_by(EngineReader(source, split), source)
            return
        self._folder = os.path.join(folder("local", local), split or "")
        try:
            self._index, self.shards = _open_index(os.path.join(self._folder, "index.json"))
        except _UNREADABLE as error:
            if not os.path.isdir(source):
                raise
            # A folder of files, or with the index of a different program.
            with contextlib.suppress(*_UNREADABLE):
                self._read_by(EngineReader(source, split), self._folder)
            if self._engine is None:
                raise error
            return
        *self._starts, self._total = itertools.accumulate((shard["samples"] for shard in self.shards), initial=0)
        # The open shard: number, offsets, bytes.
        self._open: tuple[int, _forebay.Offsets, memoryview | _LargeFile] | None = None

    def _read_by(self, engine: EngineReader, source: str) -> None:
        """Reads samples by `engine`."""
        self._engine, self._folder, self._total = engine, _forebay.redact(source), len(engine)

    def __repr__(self) -> str:
        return f"<forebay.ShardReader, {self._total} samples, {os.path.normpath(self._folder)}>"

    def __len__(self) -> int:
        return self._total

    @overload
    def __getitem__(self, at: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(self._total))]
        try:
            number = operator.index(at)
        except TypeError:
            raise TypeError(f"samples have numbers and columns have names: use reader[0], not reader[{at!r}]") from None
        if number < 0:
            number += self._total
        if not 0 <= number < self._total:
            raise SampleIndexError(f"there is no sample {at}: the data set has {self._total} (folder {self._folder})")
        if self._engine is not None:
            return _values(self._engine.columns(number), {"sample": str(number)})
        # An empty shard has the same start as the next one; the last of them has the sample.
        shard = bisect.bisect_right(self._starts, number) - 1
        offsets, data = self._shard(shard)
        start, length = offsets.range(number - self._starts[shard])
        facts = {"sample": str(number), "shard": self.shards[shard]["files"][-1]["raw"]}
        columns = None
        try:
            if isinstance(data, _LargeFile) and length >= LARGE_BYTES:
                columns = self._index.decode_file(shard, data.path, start, length)
            if columns is None:
                # The bytes of a slice of a large file are passed on without a copy.
                columns = self._index.decode(shard, bytes(data[start : start + length]))
        except Error as error:
            raise _located(type(error), str(error), error.context | facts) from None
        return _values(columns, facts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(self._total))

    def _shard(self, number: int) -> tuple[_forebay.Offsets, memoryview | _LargeFile]:
        if self._open is None or self._open[0] != number:
            self._open = self._large(number)
        if self._open is None:
            files = [self._file(number, i) for i in range(len(self.shards[number]["files"]))]
            self._open = (number, self._index.offsets(number, bytes(files[0])), memoryview(files[-1]))
        return self._open[1], self._open[2]

    def _large(self, number: int) -> tuple[int, _forebay.Offsets, _LargeFile] | None:
        """Returns a shard with a raw data file that is too large to be kept in memory; None for the rest."""
        shard = self.shards[number]
        names, is_split = shard["files"][-1], len(shard["files"]) > 1
        raw = os.path.join(self._folder, names["raw"])
        # The samples of further formats are found by reading all of the file.
        has_table = is_split or shard["format"] == "mds"
        if names["raw_bytes"] <= KEPT_BYTES_MAX or not has_table or not os.path.isfile(raw):
            return None
        size = os.path.getsize(raw)
        if size != names["raw_bytes"]:
            raise FormatError(f"{raw} has {size} bytes, but the index has {names['raw_bytes']}")
        data = _LargeFile(raw)
        table = self._file(number, 0) if is_split else data[0 : min(shard["table_bytes"], size)]
        return number, self._index.offsets(number, table), data

    def _file(self, shard: int, number: int) -> bytes:
        """Returns a raw file of a shard, unpacked if it is compressed."""
        names = self.shards[shard]["files"][number]
        raw = os.path.join(self._folder, names["raw"])
        if names["zip"] is None or os.path.exists(raw):
            data = _read(raw, "a shard cannot be read")
            if len(data) != names["raw_bytes"]:
                raise FormatError(f"{raw} has {len(data)} bytes, but the index has {names['raw_bytes']}")
            return data
        packed = _read(os.path.join(self._folder, names["zip"]), "a compressed shard cannot be read")
        return self._index.unpack(shard, number, packed)


class EngineReader:
    """The engine's reader of a data set, as a `Loader` opens it. A process that gets it by a fork or as a pickle opens its own."""

    def __init__(self, remote: str, split: str | None) -> None:
        self._source = remote, split
        stream = {"remote": remote} if split is None else {"remote": remote, "split": split}
        config = json.dumps({"streams": [stream], "batch_size": 1})
        self._data = _forebay.DataSet.of_loader(config, library_stores(remote))
        self._reader: tuple[int, _forebay.Reader] | None = None

    def __len__(self) -> int:
        return len(self._data)

    def columns(self, number: int) -> list[tuple[str, str, Any]]:
        """Returns name, kind and value of each column of a sample. A null of a table has the kind "null"."""
        if self._reader is None or self._reader[0] != os.getpid():
            # The data set is plain memory, which a forked process may use.
            stores = library_stores(self._source[0])
            self._reader = os.getpid(), _forebay.Reader(self._data, lambda encoding, is_built_in: None, None, stores)
        return self._reader[1].columns(number)

    def __reduce__(self) -> Any:
        return EngineReader, self._source


def _values(columns: list[tuple[str, str, Any]], facts: dict[str, str]) -> dict[str, Any]:
    """Returns the values of a sample by name. `facts` has the facts about it for an error."""
    values = {}
    for name, kind, value in columns:
        try:
            values[name] = _value(kind, value)
        except (ArithmeticError, RecursionError, ValueError) as error:
            raise _located(DecodeError, f"a value is not a {kind}: {error}", {"column": name} | facts) from error
    return values


def _located(kind: type[Error], message: str, context: dict[str, str]) -> Error:
    """Returns an exception of a sample; the message gets the facts of `context` that it does not have."""
    facts = [f"{name} {fact}" for name, fact in context.items() if f"{name} {fact}" not in message]
    error = kind(f"{message} ({', '.join(facts)})")
    error.context = context
    return error


def _value(kind: str, value: Any) -> Any:
    """Converts a decoded column to the usual Python type."""
    if kind == "array":
        import numpy

        dtype, shape, data = value
        return numpy.frombuffer(data, dtype).reshape(shape)
    if kind == "pixels":
        from PIL import Image

        width, height, mode, data = value
        return Image.frombytes(mode, (width, height), data)
    if kind == "list":
        return [_value(*item) for item in value]
    if kind == "json":
        return json.loads(value)
    if kind == "decimal":
        import decimal  # Imported late, as few columns have such values.

        return decimal.Decimal(value)
    if kind == "int":
        return int(value)
    if kind in NUMBERS and isinstance(value, bytes):
        import numpy

        return numpy.frombuffer(value, kind)[0]
    return value
