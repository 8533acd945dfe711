"""Writer of shards of separated values."""

from __future__ import annotations

from typing import Any

from ..base.writer import SplitWriter
from .encodings import is_xsv_encoding, xsv_encode

__all__ = ["CSVWriter", "TSVWriter", "XSVWriter"]


class XSVWriter(SplitWriter):
    """Writer of samples as shards of separated values and an index, without quotes.

    Args:
        columns: Type of each column by name: "str", "int" or "float".
        separator: Separator of two values.
        newline: Terminator of each row.
        out: As for `Writer`, like all arguments below.
        keep_local: As above.
        compression: As above.
        hashes: As above.
        size_limit: As above.
        **kwargs: As above.
    """

    format = "xsv"

    def __init__(
        self,
        *,
        columns: dict[str, str],
        separator: str,
        newline: str = "\n",
        out: str | tuple[str, str],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: list[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            out=out, keep_local=keep_local, compression=compression, hashes=hashes, size_limit=size_limit, **kwargs
        )
        self.columns = columns
        self.separator = separator
        self.newline = newline
        self.column_names = sorted(columns)
        self.column_encodings = [columns[name] for name in self.column_names]
        for name in self.column_names:
            self._check_text(name, name)
            assert is_xsv_encoding(columns[name]), f"column {name!r}: {columns[name]!r} is none of str, int, float"

    def _check_text(self, text: str, column: str) -> None:
        for mark in (self.newline, self.separator):
            assert mark not in text, f"column {column!r}: {text!r} holds {mark!r}, and values are not quoted"

    def encode_sample(self, sample: dict[str, Any]) -> bytes:
        cells = []
        for name, encoding in zip(self.column_names, self.column_encodings):
            cell = xsv_encode(encoding, sample[name])
            self._check_text(cell, name)
            cells.append(cell)
        return (self.separator.join(cells) + self.newline).encode("utf-8")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "column_names": self.column_names,
            "column_encodings": self.column_encodings,
            "separator": self.separator,
            "newline": self.newline,
        }

    def encode_split_shard(self) -> tuple[bytes, bytes]:
        return self._encode_split((self.separator.join(self.column_names) + self.newline).encode("utf-8"))


class _FixedSeparatorWriter(XSVWriter):
    """Separated values with the separator of the format.

    Args:
        columns: As for `XSVWriter`, like all arguments.
        newline: As above.
        **kwargs: As above.
    """

    separator: str

    def __init__(self, *, columns: dict[str, str], newline: str = "\n", **kwargs: Any) -> None:
        super().__init__(columns=columns, separator=type(self).separator, newline=newline, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["separator"]
        return config


class CSVWriter(_FixedSeparatorWriter):
    """Writer of CSV; arguments as for `XSVWriter`, without the separator."""

    format = "csv"
    separator = ","


class TSVWriter(_FixedSeparatorWriter):
    """Writer of TSV; arguments as for `XSVWriter`, without the separator."""

    format = "tsv"
    separator = "\t"
