"""From what the engine hands over to what the user asked for. Tensors keep their memory: nothing is copied."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ._forebay import Ragged, Tensor
from .errors import ConfigError, FormatError

# Codes in front of an MDS array: numpy's type, and the width of a dimension.
_TYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}
_WIDTHS = {0: "B", 1: "H", 2: "I", 3: "Q"}


def converter(framework: str) -> Callable[[Any], Any]:
    """What turns one output of the engine into one of `framework`. Imports the framework."""
    if framework == "torch":
        import torch

        return _outputs(torch.from_dlpack, lambda array: torch.from_numpy(array.copy()))
    if framework == "numpy":
        import numpy

        return _outputs(numpy.from_dlpack, lambda array: array)
    if framework == "dlpack":
        return _outputs(lambda tensor: tensor, lambda array: array)
    raise ConfigError(f'framework is "torch", "numpy" or "dlpack", but it is {framework!r}')


def _outputs(tensor: Callable[[Tensor], Any], array: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, Tensor):
            return tensor(value)
        if isinstance(value, Ragged):
            return [array(_array(row)) for row in value.rows]
        return value

    return convert


def _array(row: bytes) -> Any:
    """One array in the encoding of MDS: type, dimensions, values."""
    import numpy

    try:
        dtype = numpy.dtype(_TYPES[row[0]])
        shape = struct.unpack_from(f"<{row[1] >> 2}{_WIDTHS[row[1] & 3]}", row, 2)
        start = 2 + (row[1] >> 2) * struct.calcsize(_WIDTHS[row[1] & 3])
        return numpy.frombuffer(row, dtype, offset=start).reshape(shape)
    except (KeyError, IndexError, struct.error, ValueError) as error:
        raise FormatError(f"an array of {len(row)} bytes is not in the encoding of MDS: {error}") from None
