"""Writer of shards of JSON lines."""

from __future__ import annotations

import json
from typing import Any

from ..base.writer import SplitWriter
from .encodings import is_json_encoded, is_json_encoding

__all__ = ["JSONWriter"]


class JSONWriter(SplitWriter):
    """Writer of samples as shards of JSON lines and an index.

    Args:
        columns: Type of each column by name: "str", "int" or "float".
        newline: Terminator of each sample.
        out: As for `Writer`, like all arguments below.
        keep_local: As above.
        compression: As above.
        hashes: As above.
        size_limit: As above.
        **kwargs: As above.
    """

    format = "json"

    def __init__(
        self,
        *,
        columns: dict[str, str],
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
        for name, encoding in columns.items():
            assert is_json_encoding(encoding), f"column {name!r}: {encoding!r} is none of str, int, float"
        self.columns = columns
        self.newline = newline

    def encode_sample(self, sample: dict[str, Any]) -> bytes:
        columns = {}
        for name, encoding in self.columns.items():
            columns[name] = sample[name]
            is_json_encoded(encoding, sample[name])
        return (json.dumps(columns, sort_keys=True) + self.newline).encode("utf-8")

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "columns": self.columns, "newline": self.newline}

    def encode_split_shard(self) -> tuple[bytes, bytes]:
        return self._encode_split(b"")
