"""Reader of shards of separated values."""

from __future__ import annotations

from typing import Any

from ..base.reader import FileInfo, SplitReader
from .encodings import xsv_decode

__all__ = ["CSVReader", "TSVReader", "XSVReader"]


class XSVReader(SplitReader, by_engine=True):
    """Samples of a shard of separated values.

    Args:
        dirname: As for `SplitReader`, like all without a description.
        split: As above.
        column_encodings: Encodings of the columns.
        column_names: Names of the columns in the same order.
        compression: As above.
        hashes: As above.
        newline: Terminator of each row.
        raw_data: As above.
        raw_meta: As above.
        samples: As above.
        separator: Separator of two values.
        size_limit: As above.
        zip_data: As above.
        zip_meta: As above.
    """

    format = "xsv"
    _column_arguments = ("column_encodings", "column_names", "newline", "separator")

    def __init__(
        self,
        dirname: str,
        split: str | None,
        column_encodings: list[str],
        column_names: list[str],
        compression: str | None,
        hashes: list[str],
        newline: str,
        raw_data: FileInfo,
        raw_meta: FileInfo,
        samples: int,
        separator: str,
        size_limit: int | str | None,
        zip_data: FileInfo | None,
        zip_meta: FileInfo | None,
    ) -> None:
        super().__init__(
            dirname, split, compression, hashes, raw_data, raw_meta, samples, size_limit, zip_data, zip_meta
        )
        self.column_encodings = column_encodings
        self.column_names = column_names
        self.newline = newline
        self.separator = separator

    def decode_sample(self, data: bytes) -> dict[str, Any]:
        row = data.decode("utf-8")[: -len(self.newline)]
        columns = zip(self.column_names, self.column_encodings, row.split(self.separator))
        return {name: xsv_decode(encoding, text) for name, encoding, text in columns}


class _FixedSeparatorReader(XSVReader):
    """Separated values with the separator of the format.

    Args:
        dirname: As for `XSVReader`, like all arguments.
        split: As above.
        column_encodings: As above.
        column_names: As above.
        compression: As above.
        hashes: As above.
        newline: As above.
        raw_data: As above.
        raw_meta: As above.
        samples: As above.
        size_limit: As above.
        zip_data: As above.
        zip_meta: As above.
    """

    separator: str
    _column_arguments = ("column_encodings", "column_names", "newline")

    def __init__(
        self,
        dirname: str,
        split: str | None,
        column_encodings: list[str],
        column_names: list[str],
        compression: str | None,
        hashes: list[str],
        newline: str,
        raw_data: FileInfo,
        raw_meta: FileInfo,
        samples: int,
        size_limit: int | str | None,
        zip_data: FileInfo | None,
        zip_meta: FileInfo | None,
    ) -> None:
        super().__init__(
            dirname,
            split,
            column_encodings,
            column_names,
            compression,
            hashes,
            newline,
            raw_data,
            raw_meta,
            samples,
            self.separator,
            size_limit,
            zip_data,
            zip_meta,
        )


class CSVReader(_FixedSeparatorReader):
    """Samples of a CSV shard; arguments as for `XSVReader`, without the separator."""

    format = "csv"
    separator = ","


class TSVReader(_FixedSeparatorReader):
    """Samples of a TSV shard; arguments as for `XSVReader`, without the separator."""

    format = "tsv"
    separator = "\t"
