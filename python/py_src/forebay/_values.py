"""Values of a sample in the types that the engine's writer takes."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

from ._arguments import shown, text
from ._convert.ragged import DTYPES
from .errors import ConfigError, of_system

NUMBERS = tuple(dtype for dtype in DTYPES if dtype != "bfloat16")
"""Types of numbers and of the elements of arrays, with numpy's names."""


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
