"""Reader of shards of JSON lines."""

from __future__ import annotations

import json
from typing import Any

from ..base.reader import FileInfo, SplitReader

__all__ = ["JSONReader"]


class JSONReader(SplitReader, by_engine=True):
    """Samples of a shard of JSON lines.

    Args:
        dirname: As for `SplitReader`, like all without a description.
        split: As above.
        columns: Encodings of the columns by name.
        compression: As above.
        hashes: As above.
        newline: Terminator of each sample.
        raw_data: As above.
        raw_meta: As above.
        samples: As above.
        size_limit: As above.
        zip_data: As above.
        zip_meta: As above.
    """

    format = "json"
    _column_arguments = ("columns", "newline")

    def __init__(
        self,
        dirname: str,
        split: str | None,
        columns: dict[str, str],
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
            dirname, split, compression, hashes, raw_data, raw_meta, samples, size_limit, zip_data, zip_meta
        )
        self.columns = columns
        self.newline = newline

    def decode_sample(self, data: bytes) -> dict[str, Any]:
        return json.loads(data.decode("utf-8"))
