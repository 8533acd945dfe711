"""Writer of data sets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _forebay
from ._arguments import U32, by_name, byte_size, destination, flag, shown, text, whole
from ._choices import Hash
from .errors import ConfigError
from ._finish_watch import FinishWatch
from .remotes import library_stores
from ._values import plain

_NAMES_MAX = 20
"""Most keys of a sample that an error names."""


@by_name('out="folder", columns={"image": "jpeg", "class": "int"}')
class MDSWriter:
    """Writer of MDS shards and their index, byte for byte like MosaicML streaming's. Threads compress and hash.

        with MDSWriter(out="data/train", columns={"image": "jpeg", "class": "int"}, hashes=["xxh64"]) as writer:
            writer.write({"image": jpeg_bytes, "class": 3})

    The index is written last, so an interrupted run leaves no complete data set. An exception in the block writes no
    index. A writer that is dropped before `finish` warns about its samples.

    Args:
        out: Folder to write to, new or empty: a path, or a folder of a store such as "s3://bucket/train". Shards are
            uploaded while the next ones are written; besides those under construction, 64 MiB or one part wait for the
            store's confirmation. The index is uploaded last, after a listing has shown that every file is there.
        columns: Encoding of each column, such as "bytes", "str", "int", "float32", "ndarray:uint16:2048" or "jpeg".
        compression: "zstd", "gz", "bz2", "br" or "snappy", optionally with a level ("zstd:7"). None: raw shards.
        hashes: Hashes to record, such as ["xxh64"]. Without one, damaged downloads are not noticed, and local copies of
            a data set that was written again there may be mixed with it.
        size_limit: Largest raw shard, in bytes or as "64mb". None: one shard.
        exist_ok: Empty the folder if it is not empty, instead of an error. Its index goes first.
        threads: Threads that compress and write. None: the CPUs of this process.
        jpeg_row_index: Append to each shard the positions of the rows of every JPEG in "jpeg" columns, 0.2 to 0.3 % of
            its bytes, so that `Loader` skips the parts above and right of a crop. Readers such as MosaicML
            streaming, ignore it. Samples and shards do not change, and `size_limit` does not include it. `python -m
            forebay.index` adds it to existing data.
        jpeg_transcode: Rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with the same pixels and markers.
            They decode faster and can have a row index.

    Raises:
        ConfigError: `out` is not empty or cannot be written to, an encoding is unknown, or an argument fits none of the columns.
    """

    def __init__(
        self,
        *,
        out: str | os.PathLike[str],
        columns: Mapping[str, str],
        compression: str | None = None,
        hashes: Sequence[Hash] | None = None,
        size_limit: int | str | None = 1 << 26,
        exist_ok: bool = False,
        threads: int | None = None,
        jpeg_row_index: bool = False,
        jpeg_transcode: bool = False,
    ) -> None:
        if isinstance(hashes, str) or not isinstance(hashes, (Sequence, type(None))):
            example = shown(hashes) if isinstance(hashes, str) else '"xxh64"'
            raise ConfigError(f"hashes is a list, such as [{example}], but it is {shown(hashes)}")
        if not isinstance(columns, Mapping) or not columns:
            raise ConfigError(f'columns is a dict such as {{"image": "jpeg", "class": "int"}}, but it is {shown(columns)}')
        columns = {text("a column's name", name): text(f"columns[{name!r}]", kind) for name, kind in columns.items()}
        exist_ok = flag("exist_ok", exist_ok)
        jpeg_row_index, jpeg_transcode = flag("jpeg_row_index", jpeg_row_index), flag("jpeg_transcode", jpeg_transcode)
        threads = _forebay.cpu_count() if threads is None else whole("threads", threads, 1, U32)
        if (jpeg_row_index or jpeg_transcode) and "jpeg" not in columns.values():
            raise ConfigError('jpeg_row_index and jpeg_transcode are for columns of the encoding "jpeg", and there is none')
        self._transcode = jpeg_transcode
        # Values are stored in the order of their names.
        self._columns = dict(sorted(columns.items()))
        out = destination("out", out)
        self._writer = _forebay.MdsWriter(
            out,
            list(self._columns.items()),
            None if compression is None else text("compression", compression),
            sorted({text(f"hashes[{index}]", name) for index, name in enumerate(hashes or ())}),
            byte_size("size_limit", size_limit),
            exist_ok,
            threads,
            jpeg_row_index,
            library_stores(out),
        )
        self._watch = FinishWatch(self, "MDSWriter", _forebay.redact(out))

    def write(self, sample: Mapping[str, Any]) -> None:
        """Adds a sample.

        Args:
            sample: A value for every column, and no more. Bytes are stored unchanged with every encoding.
                Otherwise "jpeg", "png" and "pil" accept Pillow images, "ndarray" numpy arrays, "json" any value for
                `json.dumps`. Floats may round a number.

        Raises:
            ConfigError: A column is missing, a key is no column, or a value does not fit its encoding: it has a different type, a fraction
                in an integer type, or it is out of range.
        """
        if not isinstance(sample, Mapping):
            raise ConfigError(f"a sample is a dict of {', '.join(self._columns)}, but it is a {type(sample).__name__}")
        values = []
        for name, encoding in self._columns.items():
            if name not in sample:
                raise self._wrong_columns(sample, f"the sample has no column {name!r}")
            kind, value = plain(encoding, sample[name], name)
            if self._transcode and encoding == "jpeg":
                value = _forebay.jpeg_to_baseline(value)
            values.append((kind, value))
        if len(sample) != len(values):
            raise self._wrong_columns(sample, "not every key of the sample is a column")
        self._writer.write(values)
        self._watch.samples += 1

    def _wrong_columns(self, sample: Mapping[str, Any], why: str) -> ConfigError:
        """Returns the error for a sample with keys that are no columns, which it names."""
        import difflib  # Imported late, because it is needed for errors only.

        others = [name for name in sample if name not in self._columns]
        if not others:
            return ConfigError(why)
        near = next((near for name in others for near in difflib.get_close_matches(str(name), self._columns, 1)), None)
        hint = "" if near is None else f" (did you mean {near!r}?)"
        shown_names = ", ".join(map(repr, others[:_NAMES_MAX])) + (", ..." if len(others) > _NAMES_MAX else "")
        return ConfigError(f"{why}: it has {shown_names}{hint}; name each in `columns`, or leave it out of the sample")

    def finish(self) -> None:
        """Writes the last shard and the index. No sample can be written after it."""
        self._watch.end()
        self._writer.finish()

    def __enter__(self) -> MDSWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._watch.end()
            self._writer.abandon()
        elif not self._watch.has_ended:
            self.finish()
