"""Arrays of different shapes, which the engine delivers one by one."""

from __future__ import annotations

import struct
from typing import Any, get_args

from .._choices import DTypeName
from ..errors import ConfigError, InternalError

# Types of the engine, with the names of all frameworks. The index is the type's number in the header of a ragged array.
DTYPES = get_args(DTypeName)


def header(row: bytes) -> tuple[str, tuple[int, ...], int]:
    """Returns type, shape and offset of the values of a ragged array.

    Its header is one byte for the type, one for the number of dimensions, six unused bytes, and the dimensions as u64.
    """
    try:
        shape = struct.unpack_from(f"={row[1]}Q", row, 8)
        return DTYPES[row[0]], shape, 8 + 8 * len(shape)
    except (IndexError, struct.error) as error:
        raise InternalError(f"an array of {len(row)} bytes has a broken header: {error}") from None


def array(row: bytes, bfloat16: Any = None, copies: bool = True) -> Any:
    """Converts a ragged array to numpy; `bfloat16` is the type for such an array. Without `copies` it is read-only."""
    import numpy

    dtype, shape, start = header(row)
    kind = bfloat16 if dtype == "bfloat16" else dtype
    if kind is None:
        raise ConfigError('numpy has no bfloat16: use framework="torch", "jax" or "tensorflow", or a different dtype')
    values = memoryview(row)[start:]
    return numpy.frombuffer(bytearray(values) if copies else values, kind).reshape(shape)
