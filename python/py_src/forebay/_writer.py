"""Writer of data sets, and values of a sample in the types that the engine's writer takes."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from . import _forebay
from ._arguments import U32, by_name, byte_size, destination, flag, none_or, shown, text, whole
from ._choices import Hash
from ._convert.ragged import NUMBERS
from .errors import ConfigError, of_system
from .remotes import library_stores


class FinishWatch:
    """Watch over the samples of a writer that has not written its index.

    If the writer is collected, or the interpreter ends, before `end` is called, a RuntimeWarning names the folder and
    the number of samples. Python hides a ResourceWarning by default, and this one is about lost data.
    """

    def __init__(self, writer: object, name: str, folder: str) -> None:
        self.samples = 0
        self._file = name, folder
        # A forked child has a copy of the writer, and the parent continues to write.
        self._process = os.getpid()
        self._finalizer = weakref.finalize(writer, self._warn)

    @property
    def has_ended(self) -> bool:
        """True after `end`."""
        return not self._finalizer.alive

    def end(self) -> None:
        """Ends the watch: the writer has been finished, has failed or has been abandoned with an exception."""
        self._finalizer.detach()

    def _warn(self) -> None:
        if self.samples and os.getpid() == self._process:
            name, folder = self._file
            warnings.warn(
                f"a {name} was dropped before finish(): the {self.samples} samples that it got are not a data set, because "
                f"{folder} has no index.json. Write in a `with` block, or call finish()",
                RuntimeWarning,
                stacklevel=3,
            )


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
            streaming, ignore it. Samples and shards do not change, and `size_limit` does not include it. `forebay
            index` adds it to existing data.
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
        config = {
            "out": destination("out", out),
            "columns": _columns(columns),
            "compression": none_or(text, "compression", compression),
            "hashes": _hashes(hashes),
            "size_limit": byte_size("size_limit", size_limit),
            "exist_ok": flag("exist_ok", exist_ok),
            "threads": none_or(partial(whole, least=1, below=U32), "threads", threads),
            "jpeg_row_index": flag("jpeg_row_index", jpeg_row_index),
            "jpeg_transcode": flag("jpeg_transcode", jpeg_transcode),
        }
        self._transcode = config["jpeg_transcode"]
        # Values are stored in the order of their names.
        self._columns: dict[str, str] = dict(sorted(config["columns"].items()))
        self._writer = _forebay.MdsWriter(json.dumps(config), library_stores(config["out"]))
        self._watch = FinishWatch(self, "MDSWriter", _forebay.redact(config["out"]))

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


def _columns(columns: Any) -> dict[str, str]:
    """Checks the encodings of columns."""
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError(f'columns is a dict such as {{"image": "jpeg", "class": "int"}}, but it is {shown(columns)}')
    return {text("a column's name", name): text(f"columns[{name!r}]", kind) for name, kind in columns.items()}


def _hashes(hashes: Any) -> list[str]:
    """Checks the names of hashes."""
    if isinstance(hashes, str) or not isinstance(hashes, (Sequence, type(None))):
        example = shown(hashes) if isinstance(hashes, str) else '"xxh64"'
        raise ConfigError(f"hashes is a list, such as [{example}], but it is {shown(hashes)}")
    return [text(f"hashes[{index}]", name) for index, name in enumerate(hashes or ())]


def plain(encoding: str, value: Any, column: str) -> tuple[str, Any]:
    """Converts a value to types that the extension reads.

    Returns:
        The kind of value and its parts.

    Raises:
        ConfigError: The value cannot be stored as `encoding`; the message names `column`.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes", bytes(value)
    base = encoding.partition(":")[0]
    if base == "ndarray":
        return _array(value, column)
    if base == "json":
        return "json", _converted(lambda: json.dumps(value, default=lambda v: v.tolist()), column, "is no JSON document")
    if base == "pkl":
        return "bytes", _converted(lambda: pickle.dumps(value), column, "cannot be pickled")
    if base == "str_decimal":
        return "decimal", text(f"column {column!r}", str(value))
    if base in ("pil", "jpeg", "png"):
        return _picture(base, value, column)
    if base.startswith("list[") or base in ("jpeg_array", "jpegarray"):
        inner = base[5:-1] if base.startswith("list[") else "jpeg"
        items = _converted(lambda: list(value), column, f"is no list, which {encoding!r} stores")
        return "list", [plain(inner, item, column) for item in items]
    return _scalar(encoding, value, column)


def _converted(convert: Callable[[], Any], column: str, failed: str) -> Any:
    """Returns the result of `convert`; `failed` describes the value where that raises."""
    try:
        return convert()
    except (ArithmeticError, AttributeError, RecursionError, RuntimeError, TypeError, ValueError, pickle.PicklingError) as error:
        raise ConfigError(f"column {column!r}: the value {failed}: {error}") from error


def _scalar(encoding: str, value: Any, column: str) -> tuple[str, Any]:
    """Converts a number or a text."""
    is_single = getattr(value, "shape", None) == ()
    if encoding in NUMBERS and is_single and type(value).__module__ == "numpy" and value.dtype.name in NUMBERS:
        # Numbers of numpy keep their type, because the largest uint64 is not an int64.
        return "scalar", (value.dtype.name, value.astype(value.dtype.newbyteorder("<")).tobytes())
    if encoding == "uint64" and isinstance(value, int) and 0 <= value < 1 << 64:
        return "scalar", ("uint64", value.to_bytes(8, "little"))
    if isinstance(value, int):
        return "int", _converted(lambda: str(int(value)), column, "is too large")
    if isinstance(value, float):
        return "float", float(value)
    if isinstance(value, str):
        return "str", text(f"column {column!r}", value)
    if is_single and hasattr(value, "item"):
        item = value.item()
        # An item of `longdouble` is one again.
        if type(item) is not type(value):
            return _scalar(encoding, item, column)
    raise ConfigError(f"column {column!r}: a {type(value).__name__} cannot be stored as {encoding!r}")


def _array(value: Any, column: str) -> tuple[str, Any]:
    import numpy

    if numpy.ma.is_masked(value):
        raise ConfigError(f"column {column!r}: an array's mask cannot be stored: fill it first, such as with .filled(0)")
    array = _converted(lambda: numpy.asarray(value), column, "is no array")
    if array.dtype.name not in NUMBERS:
        raise ConfigError(
            f"column {column!r}: arrays of {array.dtype.name} cannot be stored: convert them, such as with "
            f".astype('uint8'), to one of {', '.join(NUMBERS)}"
        )
    little = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return "array", (array.dtype.name, list(array.shape), little.tobytes())


def _picture(encoding: str, value: Any, column: str) -> tuple[str, Any]:
    if not hasattr(value, "tobytes") or not hasattr(value, "mode"):
        raise ConfigError(f"column {column!r}: {encoding!r} takes bytes or a Pillow image, not a {type(value).__name__}")
    try:
        if encoding == "pil":
            return "pixels", (*value.size, value.mode, value.tobytes())
        if encoding == "jpeg" and (original := _file_of(value)) is not None:
            return "bytes", original
        out = io.BytesIO()
        value.save(out, format=encoding.upper())
    except (OSError, SyntaxError, ValueError) as error:
        if getattr(error, "errno", None) is not None:
            raise of_system(error, "a picture's file cannot be read", column=column, file=shown(value.filename)) from error
        raise ConfigError(
            f"column {column!r}: the picture cannot be stored as {encoding!r}: {error}; convert it, such as with "
            f".convert('RGB'), or pass the bytes of a file"
        ) from error
    return "bytes", out.getvalue()


def _file_of(picture: Any) -> bytes | None:
    """Returns the bytes of the JPEG file that `picture` was opened from, because encoding again would lose quality. None if
    there is none, or if the picture has been changed since."""
    name = getattr(picture, "filename", "")
    if getattr(picture, "format", None) != "JPEG" or not os.path.exists(name):
        return None
    with open(name, "rb") as file:
        original = file.read()
    from PIL import Image

    with Image.open(io.BytesIO(original)) as fresh:
        # `draft` changes mode and size before pixels are loaded.
        if (fresh.mode, fresh.size) != (picture.mode, picture.size):
            return None
        # Pixels that have not been loaded cannot have been changed.
        return original if getattr(picture, "tile", ()) or fresh.tobytes() == picture.tobytes() else None
