"""Who decodes a column: the engine, or a class of Python's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .mds import encodings

__all__ = ["decoder_of"]


def decoder_of(encoding: str) -> Callable[[bytes], Any] | None:
    """What decodes the bytes of a column, or None where the engine does."""
    name = encoding.partition(":")[0]
    if name in _DECODED_BY_ENGINE and encodings._encodings[name] is _DECODED_BY_ENGINE[name]:
        return None
    return functools.partial(encodings.mds_decode, encoding)


# Classes of values that the engine makes by itself. A program may put another class under the name of one.
_DECODED_BY_ENGINE = {
    name: cls
    for name, cls in encodings._encodings.items()
    if issubclass(cls, encodings.Scalar) or name in ("bytes", "str", "int", "ndarray", "str_int", "str_float")
}
