"""Writer of MDS shards."""

from __future__ import annotations

import json
import struct
from typing import Any

from ..... import _forebay
from ..base.writer import JointWriter
from .encodings import _get_coder, get_mds_encodings

__all__ = ["MDSWriter"]


class MDSWriter(JointWriter):
    """Writer of samples as MDS shards and an index.

        with MDSWriter(out="data/train", columns={"image": "jpeg", "class": "int"}, compression="zstd") as writer:
            writer.write({"image": picture, "class": 3})

    Args:
        columns: Encoding of each column by name.
        out: See `Writer`.
        keep_local: See `Writer`.
        compression: See `Writer`.
        hashes: See `Writer`.
        size_limit: See `Writer`.
        jpeg_row_index: Not in MosaicML streaming: append to each shard the positions of the rows of every JPEG in
            "jpeg" columns, for `forebay.Loader`. Other readers ignore it. `size_limit` does not include it.
        jpeg_transcode: Not in MosaicML streaming: rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with
            the same pixels.
        **kwargs: See `Writer`.

    Raises:
        FileExistsError: The local folder is not empty.
        TypeError: There is no such encoding.
        ValueError: A different argument is wrong.
    """

    format = "mds"
    extra_bytes_per_sample = 4

    def __init__(
        self,
        *,
        columns: dict[str, str],
        out: str | tuple[str, str],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: list[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        jpeg_row_index: bool = False,
        jpeg_transcode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            out=out,
            keep_local=keep_local,
            compression=compression,
            hashes=hashes,
            size_limit=size_limit,
            extra_bytes_per_sample=self.extra_bytes_per_sample,
            **kwargs,
        )
        self.columns = columns
        self.column_names = sorted(columns)
        self.column_encodings = [columns[name] for name in self.column_names]
        self._coders = []
        for name, encoding in zip(self.column_names, self.column_encodings):
            coder = _get_coder(encoding)
            if coder is None:
                raise TypeError(
                    f"MDSWriter passed column `{name}` with encoding `{encoding}` is unsupported. Supported encodings "
                    f"are {get_mds_encodings()}"
                )
            self._coders.append(coder)
        self.column_sizes = [coder.size for coder in self._coders]
        self._jpeg_row_index = jpeg_row_index
        self._jpeg_transcode = jpeg_transcode
        self._lengths = struct.Struct(f"<{self.column_sizes.count(None)}I")
        self.config_data = json.dumps(self.get_config(), sort_keys=True).encode()
        self.extra_bytes_per_shard = 4 + 4 + len(self.config_data)
        self._reset_cache()

    def encode_sample(self, sample: dict[str, Any]) -> bytes:
        lengths = []
        parts = []
        for name, coder, size in zip(self.column_names, self._coders, self.column_sizes):
            value = sample[name]
            part = value if isinstance(value, bytes) else coder.encode(value)
            if self._jpeg_transcode and self.columns[name] == "jpeg":
                part = _forebay.jpeg_to_baseline(part)
            if size is None:
                lengths.append(len(part))
            elif size != len(part):
                raise KeyError(
                    f"Unexpected data size in column {name!r}: {len(part)} bytes where {self.columns[name]!r} takes {size}"
                )
            parts.append(part)
        return b"".join([self._lengths.pack(*lengths), *parts])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "column_names": self.column_names,
            "column_encodings": self.column_encodings,
            "column_sizes": self.column_sizes,
        }

    def encode_joint_shard(self) -> bytes:
        sizes = [len(sample) for sample in self.new_samples]
        first = 4 + 4 * (len(sizes) + 1) + len(self.config_data)
        table = _forebay.offset_table(sizes, first, self.config_data)
        return b"".join([table, *self.new_samples, self._trailer(first + sum(sizes))])

    def _trailer(self, samples_end: int) -> bytes:
        """Returns the trailer after the samples, which end at `samples_end` in the shard's file."""
        if not self._jpeg_row_index:
            return b""
        columns = [(size, encoding == "jpeg") for size, encoding in zip(self.column_sizes, self.column_encodings)]
        return _forebay.row_index_trailer(columns, self.new_samples, samples_end)
