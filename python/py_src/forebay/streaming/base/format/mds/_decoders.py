"""Choice of a column's decoder: the engine, or a Python class."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import encodings

__all__ = ["decoder_of"]


def decoder_of(encoding: str, is_built_in: bool) -> Callable[[bytes], Any] | None:
    """Returns the function that decodes a column, or None for the engine's.

    Args:
        encoding: Name of the encoding.
        is_built_in: False if the column's size differs from the size of the built-in encoding of this name.
    """
    name = encoding.partition(":")[0]
    if is_built_in and name in _DECODED_BY_ENGINE and encodings._encodings[name] is _DECODED_BY_ENGINE[name]:
        return None
    return functools.partial(encodings.mds_decode, encoding)


# Classes with values that the engine makes itself. A program may replace a class.
_DECODED_BY_ENGINE = {
    name: cls
    for name, cls in encodings._encodings.items()
    if issubclass(cls, encodings.Scalar) or name in ("bytes", "str", "int", "ndarray", "str_int", "str_float")
}
