"""Columns of a conversion to MDS: the fields that read them, and the encodings that they are written in.

Samples of tar files have different fields, and shards may have different columns. All of them are written: if some samples lack
one, the column `__fields__` has the names of the columns that a sample has, one a line, and the rest are empty, or zeros of a fixed
size. The engine takes a column that `__fields__` does not name for absent, so a field's `default` works as before.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _forebay
from .errors import ConfigError
from .fields import Array, Bytes, Field

_FIELDS = "__fields__"

ABSENT = secrets.token_bytes(16)
"""Value of a column that a sample does not have. Random, so that no sample has it."""


@dataclass(frozen=True)
class ConvertedColumns:
    """Columns that are written."""

    encodings: dict[str, str]
    """By name."""
    optional: dict[str, int]
    """Columns that some samples lack, with the bytes of their values, or 0 where those differ."""
    are_all: bool
    """A sample with a field that is not among the columns is an error: the data set may have such samples."""

    @classmethod
    def of(cls, described: Mapping[str, Any], wanted: Sequence[str] | None, nulls: bool) -> ConvertedColumns:
        """Returns the columns `wanted` of a data set, or all. With `nulls` samples may lack any of them.

        Raises:
            ConfigError: The data set does not have them.
        """
        known = {column["name"]: column for column in described["columns"]}
        if wanted is not None:
            unknown = [name for name in wanted if name not in known]
            if unknown and described["may_have_more"]:
                # A field of tar files that were not read to the end.
                later = {"bytes": None, "is_optional": True}
                known |= {name: {"encoding": _forebay.tar_encoding(name), **later} for name in unknown}
            elif unknown:
                raise ConfigError(f"the data set has no column {unknown[0]!r}, but {', '.join(known)}")
            known = {name: known[name] for name in wanted}
        optional = {name: column["bytes"] or 0 for name, column in known.items() if nulls or column["is_optional"]}
        for name in known if optional else ():
            if "\n" in name:
                raise ConfigError(f"the name of the column {name!r} has a line end, and some samples lack columns: leave it out")
        encodings = {name: column["encoding"] for name, column in known.items()}
        return cls(encodings, optional, described["may_have_more"] and wanted is None)

    def fields(self) -> dict[str, Field]:
        """Fields of a loader."""
        fields = {}
        for name, encoding in self.encodings.items():
            if name not in self.optional:
                fields[name] = Array(name) if _is_array(encoding) else Bytes(name)
                continue
            fields[name] = Bytes(name, default=ABSENT)
            if _is_array(encoding):
                # The stored bytes of a sample without it are the default.
                fields[_array(name)] = Array(name, encoding.partition(":")[2] or None, default=[0])
        if self.are_all:
            fields[_FIELDS] = Bytes(_FIELDS)
        return fields

    def written(self) -> dict[str, str]:
        """Encodings of the columns of the MDSWriter."""
        # MDS has no encoding for the files of numpy, and an Array reads them from bytes.
        encodings = {name: "bytes" if encoding == "npy" else encoding for name, encoding in self.encodings.items()}
        return encodings | ({_FIELDS: "str"} if self.optional else {})

    def outputs(self) -> list[tuple[str, str | None, int | None]]:
        """Columns of the writer with the outputs that have their arrays, and the bytes of the values of samples without them."""
        columns: list[tuple[str, str | None, int | None]] = []
        for name in sorted(self.written()):
            bytes_without = self.optional.get(name)
            array = None
            if name != _FIELDS and _is_array(self.encodings[name]):
                array = name if bytes_without is None else _array(name)
            columns.append((name, array, bytes_without))
        return columns


def _is_array(encoding: str) -> bool:
    """True for arrays of any shape, which have a header in MDS."""
    return encoding.split(":")[0] == "ndarray" and encoding.count(":") < 2


def _array(name: str) -> str:
    """Name of the output with the array of an optional column. No column's name has a line end."""
    return f"{name}\narray"
