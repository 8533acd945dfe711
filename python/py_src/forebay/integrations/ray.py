"""MDS from Ray Data: a dataset's rows, written by its tasks.

    import forebay.integrations.ray as forebay_ray

    dataset = ray.data.read_parquet("s3://bucket/table")
    forebay_ray.write_mds(dataset, "s3://bucket/train", columns={"image": "jpeg", "class": "int"})

Each task writes a folder below `out`; the index of all is written when all tasks have ended, so that an interrupted job leaves no
data set. The rows are in the order of Ray's tasks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy
import pyarrow
from ray.data import Dataset
from ray.data.block import BlockAccessor
from ray.data.datasource import Datasink

from .._arguments import destination
from ..errors import ConfigError
from ..to_mds import merge_parts
from .._writer import MDSWriter

__all__ = ["MDSDatasink", "write_mds"]


def write_mds(
    dataset: Dataset,
    out: str,
    *,
    columns: Mapping[str, str] | None = None,
    compression: str | None = None,
    hashes: Sequence[str] = ("xxh64",),
    size_limit: int | str | None = 1 << 26,
    **options: Any,
) -> None:
    """Writes the rows of a dataset as MDS.

    Args:
        dataset: Dataset of Ray Data.
        out: Folder that all nodes write to: of a store such as "s3://bucket/train", or of a file system that they share. Nothing in
            it is removed: a new or empty folder has only the data set.
        columns: Encoding of each column. None: all columns, by their types.
        compression: As in MDSWriter.
        hashes: As in MDSWriter.
        size_limit: As in MDSWriter.
        **options: Options of `Dataset.write_datasink`, such as `concurrency`.

    Raises:
        ConfigError: A column is missing or does not fit its encoding.
    """
    sink = MDSDatasink(out, columns=columns, compression=compression, hashes=hashes, size_limit=size_limit)
    dataset.write_datasink(sink, **options)


class MDSDatasink(Datasink):
    """Destination of `Dataset.write_datasink`; `write_mds` has the arguments."""

    def __init__(
        self,
        out: str,
        *,
        columns: Mapping[str, str] | None = None,
        compression: str | None = None,
        hashes: Sequence[str] = ("xxh64",),
        size_limit: int | str | None = 1 << 26,
    ) -> None:
        self._out = destination("out", out).rstrip("/")
        self._columns = None if columns is None else dict(columns)
        self._writer = {"compression": compression, "hashes": list(hashes), "size_limit": size_limit}

    def write(self, blocks: Iterable[Any], ctx: Any) -> tuple[int, str] | None:
        """Writes the blocks of a task. Returns its number and folder, or None if there was no row."""
        # A task that is repeated has a new folder: the first attempt may still be writing.
        part = f"part.{ctx.task_idx:05}.{uuid.uuid4().hex[:12]}"
        writer = None
        try:
            for block in blocks:
                rows = BlockAccessor.for_block(block)
                if rows.num_rows() == 0:
                    continue
                columns = self._columns or _columns_of(rows.to_arrow().schema)
                if writer is None:
                    writer = MDSWriter(out=f"{self._out}/{part}", columns=columns, **self._writer)
                for row in rows.iter_rows(public_row_format=True):
                    writer.write({name: _value(kind, row, name) for name, kind in columns.items()})
        except BaseException as error:
            if writer is not None:
                writer.__exit__(type(error), error, error.__traceback__)
            raise
        if writer is None:
            return None
        writer.finish()
        return ctx.task_idx, part

    def on_write_complete(self, write_result: Any) -> None:
        """Writes the index of the data set."""
        parts = sorted(result for result in write_result.write_returns if result is not None)
        if not parts:
            raise ConfigError("the dataset has no rows")
        merge_parts(self._out, [part for _, part in parts])


def _columns_of(schema: Any) -> dict[str, str]:
    """Returns the encodings of the columns of a block."""
    return {field.name: _encoding(field.name, field.type) for field in schema}


def _encoding(name: str, kind: Any) -> str:
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return "str"
    if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind):
        return "bytes"
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind):
        return str(numpy.dtype(kind.to_pandas_dtype()))
    element = getattr(kind, "value_type", None) or getattr(kind, "scalar_type", None)
    if element is not None and (pyarrow.types.is_integer(element) or pyarrow.types.is_floating(element)):
        return f"ndarray:{numpy.dtype(element.to_pandas_dtype())}"
    raise ConfigError(f"column {name!r} has the type {kind}, which has no encoding: name the columns and their encodings in `columns`")


def _value(kind: str, row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ConfigError(f"the dataset has no column {name!r}, but {', '.join(row)}")
    value = row[name]
    if kind.startswith("ndarray") and not isinstance(value, (bytes, numpy.ndarray)):
        dtype = kind.split(":")[1] if ":" in kind else None
        return numpy.asarray(value, dtype)
    return value
