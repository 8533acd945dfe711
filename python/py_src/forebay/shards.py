"""Access to shards one sample at a time: writer and reader of local data sets."""

from __future__ import annotations

import decimal
import json
import operator
import os
import pickle
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _forebay
from .arguments import U32, by_name, byte_size, flag, shown, text, whole
from .errors import ConfigError, DecodeError, Error, FormatError, NotFoundError, SampleIndexError, _of_system

__all__ = ["MDSWriter", "ShardReader", "read_index"]


def read_index(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Returns the shards of an index.json after checking it.

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
    path = _folder(path)
    if os.path.isdir(path) or not (path.endswith(".json") or os.path.isfile(path)):
        path = os.path.join(path, "index.json")
    try:
        content = _read(path, "the index cannot be read")
    except NotFoundError:
        there = _forebay.Index.describe_folder(os.path.dirname(path))
        raise NotFoundError(f"there is no {os.path.basename(path)}: {there} (file {path})") from None
    index = _forebay.Index(content, path)
    return index, json.loads(index.describe())


def _read(path: str, failed: str) -> bytes:
    """Returns a file's bytes. `failed` begins the message of an error."""
    try:
        # Without O_NONBLOCK a pipe in place of the file would block the call.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FormatError(f"{failed}: it is not a regular file (file {path})")
            return file.read()
    except OSError as error:
        raise _of_system(error, failed, file=path) from error


def _folder(path: str | os.PathLike[str]) -> str:
    """Checks that `path` is a local path, and returns it for any working directory."""
    path = os.fspath(path)
    if "\0" in path:
        raise ConfigError(f"a path has no null character, but it is {shown(path)}")
    # The same rule as `is_url` in Rust's `store::url`, which checks a loader's `local`.
    if re.match(r"[A-Za-z][A-Za-z0-9-]+:/", path):
        raise ConfigError(f"{shown(path)} is a URL, and this works on a local folder: copy from or to the store yourself")
    return os.path.abspath(os.path.expanduser(path))


class ShardReader(Sequence[dict[str, Any]]):
    """A local folder of shards (MDS, JSONL, CSV, TSV, XSV) as a sequence of samples.

    A sample is a dict of its columns: numbers, text and bytes in types of Python and numpy, arrays of numpy, raw pixels
    as a Pillow image. JPEG, PNG and pickle columns are returned as the stored bytes. Compressed shards are unpacked in
    memory, and the last one is kept. Hashes are not checked; the loader checks them when it fetches or unpacks a shard.

    Args:
        local: Folder with index.json.
        split: Sub-folder of `local`.

    Raises:
        NotFoundError: There is no index, or a shard is missing. `reader[number]` raises its subclass
            `SampleIndexError`, which is an `IndexError`, for a number beyond the end.
        FormatError: The index or a shard is damaged.
        DecodeError: A value cannot be converted; the message names column, sample and shard.
        AccessError: The file system denies access.
    """

    def __init__(self, local: str | os.PathLike[str], split: str | None = None) -> None:
        self._folder = os.path.join(_folder(local), split or "")
        self._index, self.shards = _open_index(os.path.join(self._folder, "index.json"))
        self._starts = []
        total = 0
        for shard in self.shards:
            self._starts.append(total)
            total += shard["samples"]
        self._total = total
        # The open shard: number, offsets, bytes.
        self._open: tuple[int, _forebay.Offsets, memoryview] | None = None

    def __len__(self) -> int:
        return self._total

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
        shard = self._shard_of(number)
        offsets, data = self._shard(shard)
        start, length = offsets.range(number - self._starts[shard])
        sample = bytes(data[start : start + length])
        place = {"sample": str(number), "shard": self.shards[shard]["files"][-1]["raw"]}
        try:
            columns = self._index.decode(shard, sample)
        except Error as error:
            raise _located(type(error), str(error), error.context | place) from None
        values = {}
        for name, kind, value in columns:
            try:
                values[name] = _value(kind, value)
            except (ArithmeticError, RecursionError, ValueError) as error:
                raise _located(DecodeError, f"a value is no {kind}: {error}", {"column": name} | place) from error
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(self._total))

    def _shard_of(self, number: int) -> int:
        low, high = 0, len(self._starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._starts[middle] <= number else (low, middle)
        # An empty shard has the same start as the next one; the last of them has the sample.
        return low

    def _shard(self, number: int) -> tuple[_forebay.Offsets, memoryview]:
        if self._open is None or self._open[0] != number:
            files = [self._file(number, i) for i in range(len(self.shards[number]["files"]))]
            self._open = (number, self._index.offsets(number, bytes(files[0])), memoryview(files[-1]))
        return self._open[1], self._open[2]

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
        return decimal.Decimal(value)
    if kind == "int":
        return int(value)
    if kind in _NUMBERS and isinstance(value, bytes):
        import numpy

        return numpy.frombuffer(value, kind)[0]
    return value


_NUMBERS = frozenset(
    ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
)


@by_name('out="folder", columns={"image": "jpeg", "class": "int"}')
class MDSWriter:
    """Writer of MDS shards and their index, byte for byte like MosaicML streaming's. Threads compress and hash.

        with MDSWriter(out="data/train", columns={"image": "jpeg", "class": "int"}, hashes=["xxh64"]) as writer:
            writer.write({"image": jpeg_bytes, "class": 3})

    The index is written last, so an interrupted run leaves no complete data set. An exception in the block writes no
    index.

    Args:
        out: Local folder to write to, new or empty. It can be copied to a store without changes.
        columns: Encoding of each column, such as "bytes", "str", "int", "float32", "ndarray:uint16:2048" or "jpeg".
        compression: "zstd", "gz", "bz2", "br" or "snappy", optionally with a level ("zstd:7"). None: raw shards.
        hashes: Hashes to record, such as ["xxh64"]. Without one, damaged downloads are not noticed, and local copies of
            a data set that was written again in its place may be mixed with it.
        size_limit: Largest raw shard, in bytes or as "64mb". None: one shard.
        exist_ok: Empty the folder if it is not empty, instead of an error.
        threads: Threads that compress and write. None: the CPUs of this process.
        jpeg_row_index: Append to each shard the positions of the rows of every JPEG in "jpeg" columns, 0.2 to 0.3 % of
            its bytes, so that `Loader` skips the parts above and right of a crop. Other readers, such as MosaicML
            streaming, ignore it. Samples and shards do not change, and `size_limit` does not include it. `python -m
            forebay.index` adds it to existing data.
        jpeg_transcode: Rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with the same pixels and markers.
            They decode faster and can have a row index.

    Raises:
        ConfigError: `out` is not empty or is a URL, an encoding is unknown, or an argument fits none of the columns.
    """

    def __init__(
        self,
        *,
        out: str | os.PathLike[str],
        columns: Mapping[str, str],
        compression: str | None = None,
        hashes: Sequence[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        exist_ok: bool = False,
        threads: int | None = None,
        jpeg_row_index: bool = False,
        jpeg_transcode: bool = False,
    ) -> None:
        if isinstance(hashes, str):
            raise ConfigError(f"hashes is a list, such as [{hashes!r}], but it is {hashes!r}")
        if not isinstance(columns, Mapping) or not columns:
            raise ConfigError(f'columns is a dict such as {{"image": "jpeg", "class": "int"}}, but it is {columns!r}')
        columns = {text("a column's name", name): text(f"columns[{name!r}]", kind) for name, kind in columns.items()}
        exist_ok = flag("exist_ok", exist_ok)
        jpeg_row_index, jpeg_transcode = flag("jpeg_row_index", jpeg_row_index), flag("jpeg_transcode", jpeg_transcode)
        threads = _forebay.cpu_count() if threads is None else whole("threads", threads, 1, U32)
        if (jpeg_row_index or jpeg_transcode) and "jpeg" not in columns.values():
            raise ConfigError('jpeg_row_index and jpeg_transcode are for columns of the encoding "jpeg", and there is none')
        self._transcode = jpeg_transcode
        # Values are stored in the order of their names.
        self._columns = dict(sorted(columns.items()))
        self._writer = _forebay.MdsWriter(
            _folder(out),
            list(self._columns.items()),
            compression,
            sorted(set(hashes or ())),
            byte_size("size_limit", size_limit),
            exist_ok,
            threads,
            jpeg_row_index,
        )

    def write(self, sample: Mapping[str, Any]) -> None:
        """Adds a sample.

        Args:
            sample: A value for every column. Bytes are stored unchanged with every encoding. Otherwise "jpeg", "png"
                and "pil" accept Pillow images, "ndarray" numpy arrays, "json" any value for `json.dumps`.

        Raises:
            ConfigError: A column is missing, or its value does not fit its encoding.
        """
        if not isinstance(sample, Mapping):
            raise ConfigError(f"a sample is a dict of {', '.join(self._columns)}, but it is a {type(sample).__name__}")
        values = []
        for name, encoding in self._columns.items():
            if name not in sample:
                raise ConfigError(f"the sample has no column {name!r}")
            kind, value = _plain(encoding, sample[name], name)
            if self._transcode and encoding == "jpeg":
                value = _forebay.jpeg_to_baseline(value)
            values.append((kind, value))
        self._writer.write(values)

    def finish(self) -> None:
        """Writes the last shard and the index. No sample can be written after it."""
        self._writer.finish()

    def __enter__(self) -> MDSWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self._writer.abandon()


def _plain(encoding: str, value: Any, column: str) -> tuple[str, Any]:
    """Converts `value` to types that the extension reads: the kind of value and its parts."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    base = encoding.partition(":")[0]
    if base == "ndarray":
        import numpy

        array = numpy.asarray(value)
        little = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        return "array", (array.dtype.name, list(array.shape), little.tobytes())
    if base == "json":
        try:
            return "json", json.dumps(value, default=lambda v: v.tolist())
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigError(f"column {column!r}: the value is no JSON document: {error}") from error
    if base == "pkl":
        return "bytes", pickle.dumps(value)
    if base == "str_decimal":
        return "decimal", str(value)
    if base in ("pil", "jpeg", "png"):
        return _picture(base, value, column)
    if base.startswith("list[") or base in ("jpeg_array", "jpegarray"):
        inner = base[5:-1] if base.startswith("list[") else "jpeg"
        return "list", [_plain(inner, item, column) for item in value]
    if base in _NUMBERS and type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        # Numbers of numpy keep their type, because the largest uint64 is not an int64.
        return "scalar", (value.dtype.name, value.astype(value.dtype.newbyteorder("<")).tobytes())
    if base == "uint64" and isinstance(value, int) and 0 <= value < 1 << 64:
        return "scalar", ("uint64", value.to_bytes(8, "little"))
    if isinstance(value, int):
        return "int", str(int(value))
    if isinstance(value, float):
        return "float", float(value)
    if isinstance(value, str):
        return "str", value
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return _plain(encoding, value.item(), column)
    raise ConfigError(f"column {column!r}: a {type(value).__name__} cannot be stored as {encoding!r}")


def _picture(encoding: str, value: Any, column: str) -> tuple[str, Any]:
    import io

    if not hasattr(value, "tobytes") or not hasattr(value, "mode"):
        raise ConfigError(f"column {column!r}: {encoding!r} takes bytes or a Pillow image, not a {type(value).__name__}")
    if encoding == "pil":
        return "pixels", (*value.size, value.mode, value.tobytes())
    if encoding == "jpeg" and value.format == "JPEG" and os.path.exists(getattr(value, "filename", "")):
        # An image that was opened from a file keeps the bytes of the file, because encoding again would lose quality.
        with open(value.filename, "rb") as file:
            return "bytes", file.read()
    out = io.BytesIO()
    value.save(out, format=encoding.upper())
    return "bytes", out.getvalue()
