"""Formats of shards: MDS, JSON lines and separated values, each with a reader, a writer and the encodings of
columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._lazy import lazy

if TYPE_CHECKING:
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

# Writers use storage and helpers, which use the index's name. Late imports avoid a cycle.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "base": ("FileInfo", "Reader"),
        "index": ("get_index_basename",),
        "json": ("JSONReader", "JSONWriter"),
        "mds": ("MDSReader", "MDSWriter"),
        "xsv": ("CSVReader", "CSVWriter", "TSVReader", "TSVWriter", "XSVReader", "XSVWriter"),
    },
)

_READERS = {"csv": "CSVReader", "json": "JSONReader", "mds": "MDSReader", "tsv": "TSVReader", "xsv": "XSVReader"}


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
    return __getattr__(_READERS[obj["format"]]).from_json(dirname, split, obj)
