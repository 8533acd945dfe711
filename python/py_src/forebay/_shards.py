"""Access to the samples of data sets, one at a time."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, overload

from . import _forebay
from ._arguments import address, folder, none_or, text
from ._convert.ragged import NUMBERS
from .errors import DecodeError, SampleIndexError
from .remotes import library_stores


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
    path = folder("path", path)
    if os.path.isdir(path) or not (path.endswith(".json") or os.path.isfile(path)):
        path = os.path.join(path, "index.json")
    return json.loads(_forebay.Index.open(path).describe())


class ShardReader(Sequence[dict[str, Any]]):
    """A data set as a sequence of samples: a folder of shards, or any kind that a `Loader` reads.

        reader = ShardReader("data/train")
        reader = ShardReader("s3://bucket/train-{000..146}.tar")
        reader[7]["cls"]

    A sample is a dict of its columns: numbers, text and bytes in types of Python and numpy, arrays of numpy, raw pixels
    as a Pillow image. JPEG, PNG and pickle columns are returned as the stored bytes.

    Raw shards, tars, LitData's chunks and loose files in a folder are read where they are. Compressed shards are unpacked, and
    shards behind a URL and files of lists are fetched, into the folder that a loader uses without `local` (of tables a loader
    with `Skip(errors=...)`), when their first sample is read. A sample has the columns that are stored for it; a null of Parquet
    and Arrow files is None. It is a data set for torch's DataLoader: each worker opens its own reader.

    Args:
        local: Folder with index.json, or of files such as pictures; the URL of one; or a list of files, as `remote` of a `Loader`.
        split: Sub-folder of `local`.

    Raises:
        NotFoundError: There is no index, or a shard is missing. `reader[number]` raises its subclass
            `SampleIndexError`, which is an `IndexError`, for a number beyond the end.
        FormatError: The index or a shard is damaged.
        ConfigError: The data set is empty, or a column of tables has times of different units in two files.
        DecodeError: A value cannot be converted; the message names column, sample and shard.
        AccessError: The file system denies access.
    """

    def __init__(self, local: str | os.PathLike[str], split: str | None = None) -> None:
        source = address("local", local, "the path of a local folder, or an address")
        split = none_or(text, "split", split)
        kind = "remote"
        if not _forebay.is_url(source) and not _forebay.is_file_list(source):
            source = folder("local", source)
            # The error about `local` names the folders next to it.
            kind = "remote" if os.path.exists(os.path.join(source, split or "")) else "local"
        stream = {kind: source} | ({} if split is None else {"split": split})
        self._source = source, split
        self._data = _forebay.DataSet.of_loader(json.dumps({"streams": [stream], "batch_size": 1}), library_stores(source))
        # The process that has opened the reader, and the reader.
        self._opened: tuple[int, _forebay.Reader] | None = None

    def __reduce__(self) -> Any:
        return ShardReader, self._source

    @property
    def _folder(self) -> str:
        """Folder or address, without secrets."""
        source, split = self._source
        return os.path.normpath(os.path.join(_forebay.redact(source), split or ""))

    def __repr__(self) -> str:
        return f"<forebay.ShardReader, {len(self)} samples, {self._folder}>"

    def __len__(self) -> int:
        return len(self._data)

    @overload
    def __getitem__(self, at: SupportsIndex) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        try:
            number = operator.index(at)
        except TypeError:
            raise TypeError(f"samples have numbers and columns have names: use reader[0], not reader[{at!r}]") from None
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise SampleIndexError(f"there is no sample {at}: the data set has {len(self)} (folder {self._folder})")
        if self._opened is None or self._opened[0] != os.getpid():
            # The data set is plain memory, which a forked process may use.
            stores = library_stores(self._source[0])
            self._opened = os.getpid(), _forebay.Reader(self._data, lambda encoding, is_built_in: None, None, stores)
        values = {}
        for name, kind, value in self._opened[1].columns(number):
            try:
                values[name] = _value(kind, value)
            except (ArithmeticError, RecursionError, ValueError) as error:
                facts = {"column": name, "sample": str(number), **dict(self._opened[1].facts(number))}
                named = ", ".join(f"{name} {fact}" for name, fact in facts.items())
                problem = DecodeError(f"a value is not a {kind}: {error} ({named})")
                problem.context = facts
                raise problem from error
        return values

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))


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
