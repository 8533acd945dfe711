"""Reader of MDS shards."""

from __future__ import annotations

import functools
import struct
from typing import Any

from ..base.reader import FileInfo, JointReader
from ._decoders import decoder_of
from .encodings import _find_coder, is_mds_encoding_safe

__all__ = ["MDSReader"]


class MDSReader(JointReader, by_engine=True):
    """Samples of an MDS shard.

    Args:
        dirname: As for `JointReader`, like all except the columns.
        split: As above.
        column_encodings: Encodings of the columns.
        column_names: Names of the columns in the same order.
        column_sizes: Bytes of each column's values; None: variable.
        compression: As above.
        hashes: As above.
        raw_data: As above.
        samples: As above.
        size_limit: As above.
        zip_data: As above.
    """

    format = "mds"
    _column_arguments = ("column_encodings", "column_names", "column_sizes")
    _decoder_of = staticmethod(decoder_of)

    def __init__(
        self,
        dirname: str,
        split: str | None,
        column_encodings: list[str],
        column_names: list[str],
        column_sizes: list[int | None],
        compression: str | None,
        hashes: list[str],
        raw_data: FileInfo,
        samples: int,
        size_limit: int | str | None,
        zip_data: FileInfo | None,
    ) -> None:
        super().__init__(dirname, split, compression, hashes, raw_data, samples, size_limit, zip_data)
        self.column_encodings = column_encodings
        self.column_names = column_names
        self.column_sizes = column_sizes

    def validate(self, allow_unsafe_types: bool) -> None:
        if allow_unsafe_types:
            return
        for name, encoding in zip(self.column_names, self.column_encodings):
            if not is_mds_encoding_safe(encoding):
                raise ValueError(
                    f"Column {name} contains an unsafe type: {encoding}. To proceed anyway, set "
                    "``allow_unsafe_types=True``."
                )

    def decode_sample(self, data: bytes) -> dict[str, Any]:
        # A size of 0 is not fixed: such a column has a size in each sample.
        lengths = _lengths(sum(not size for size in self.column_sizes))
        varying = iter(lengths.unpack_from(data))
        at = lengths.size
        sample = {}
        for name, encoding, size in zip(self.column_names, self.column_encodings, self.column_sizes):
            end = at + (size or next(varying))
            sample[name] = _find_coder(encoding).decode(data[at:end])
            at = end
        return sample

    def get_sample_data(self, idx: int) -> bytes:
        return self._read(self.raw_data, self.raw_data, idx)


@functools.lru_cache(maxsize=256)
def _lengths(columns: int) -> struct.Struct:
    """Returns the struct of the lengths of `columns` values, at the front of a sample."""
    return struct.Struct(f"<{columns}I")
