"""Formats of shards: MDS, JSON lines and separated values, each with a reader, a writer and the encodings of
columns."""

from __future__ import annotations

from typing import Any

from .._originals import Originals
from .base import FileInfo, Reader
from .index import get_index_basename
from .json import JSONReader, JSONWriter
from .mds import MDSReader, MDSWriter
from .xsv import CSVReader, CSVWriter, TSVReader, TSVWriter, XSVReader, XSVWriter

__all__ = [
    "CSVWriter",
    "FileInfo",
    "JSONWriter",
    "MDSWriter",
    "Reader",
    "TSVWriter",
    "XSVWriter",
    "get_index_basename",
    "reader_from_json",
]

_readers: dict[str, type[Reader]] = {
    "csv": CSVReader,
    "json": JSONReader,
    "mds": MDSReader,
    "tsv": TSVReader,
    "xsv": XSVReader,
}
"""Classes by the format in the index. Programs may replace a class, or add one for a further format."""

_OF_ENGINE = dict(_readers)

_FUNCTIONS = {cls: Originals(cls, "__getitem__", "get_item", "decode_sample", "get_sample_data") for cls in _readers.values()}
"""Functions by which a sample is read. Programs may replace them in a class."""

ENGINE_READERS = frozenset(_readers.values())
"""Classes for which the engine can read every shard."""


def has_python_readers() -> bool:
    """Returns true if the program has replaced or added a class, or a function of one."""
    return any(map(reads_in_python, _readers))


def reads_in_python(format: str) -> bool:
    """Returns true if a class of the program reads shards of `format`."""
    cls = _readers.get(format)
    return cls is not None and (cls is not _OF_ENGINE.get(format) or _FUNCTIONS[cls].are_replaced(cls))


def reader_from_json(dirname: str, split: str | None, obj: dict[str, Any]) -> Reader:
    """Makes the reader of a shard from its entry in the index.

    Args:
        dirname: The data set's folder.
        split: Sub-folder of it.
        obj: The shard's entry in the index.

    Raises:
        KeyError: The entry has no format or an unknown one.
        ValueError: Its version is not 2.
    """
    if obj["version"] != 2:
        raise ValueError(f"Unsupported streaming data version: {obj['version']}. Expected version 2.")
    return _readers[obj["format"]].from_json(dirname, split, obj)
