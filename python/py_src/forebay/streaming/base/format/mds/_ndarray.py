"""Arrays as MDS columns.

    dtype and shape vary:  u8 code of the dtype | u8 axes << 2 | width | shape | values
    shape varies:                                 u8 axes << 2 | width | shape | values
    both are fixed:                                                              values

A dimension of the shape takes 2**width bytes, the fewest that hold all dimensions. Everything is little-endian, values
in C order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._encoding import Encoding

__all__ = ["NDArray"]

_CODES = {
    "uint8": 8,
    "int8": 9,
    "uint16": 16,
    "int16": 17,
    "float16": 18,
    "uint32": 32,
    "int32": 33,
    "float32": 34,
    "uint64": 64,
    "int64": 65,
    "float64": 66,
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_WIDTHS = ("uint8", "uint16", "uint32", "uint64")
_AXES_MAX = 63


class NDArray(Encoding):
    """Stores numpy arrays. Decoded arrays share the bytes' memory and are read-only.

    Args:
        dtype: dtype of all arrays. None: each array has its own.
        shape: Shape of all arrays. None: each array has its own.
    """

    def __init__(self, dtype: str | None = None, shape: tuple[int, ...] | None = None) -> None:
        assert dtype is None or dtype in _CODES, f"{dtype} is none of {', '.join(_CODES)}"
        assert shape is None or all(1 <= dimension for dimension in shape), f"{shape} has a dimension below 1"
        self.dtype = dtype
        self.shape = shape
        if dtype is not None and shape is not None:
            self.size = math.prod(shape) * np.dtype(dtype).itemsize

    @classmethod
    def from_str(cls, text: str) -> NDArray:
        """Parses the part of a name after "ndarray:", such as "", "uint8", "uint8:3,4"."""
        dtype, *shape = text.split(":") if text else [None]
        assert len(shape) <= 1, f"ndarray:{text} has more than a dtype and a shape"
        return cls(dtype, tuple(map(int, shape[0].split(","))) if shape else None)

    def encode(self, obj: Any) -> bytes:
        """Encodes an array.

        Raises:
            ValueError: Its dtype is not supported or not the column's, its shape is not the column's, or it has no
                elements or no axes.
        """
        dtype = obj.dtype.name
        if dtype not in _CODES:
            raise ValueError(f"Unsupported dtype: {dtype}.")
        if self.dtype is not None and dtype != self.dtype:
            raise ValueError(f"Wrong dtype: expected {self.dtype}, got {dtype}.")
        if obj.size == 0:
            raise ValueError("Attempting to encode a numpy array with 0 elements.")
        if self.shape is not None and obj.shape != self.shape:
            raise ValueError(f"Wrong shape: expected {self.shape}, got {obj.shape}.")
        head = b"" if self.dtype is not None else bytes([_CODES[dtype]])
        if self.shape is None:
            head += _shape_bytes(obj.shape)
        return head + obj.astype(obj.dtype.newbyteorder("<"), copy=False).tobytes()

    def decode(self, data: bytes) -> Any:
        """Returns the array, which is read-only."""
        at = 0
        dtype, shape = self.dtype, self.shape
        if dtype is None:
            dtype = _DTYPES[data[0]]
            at = 1
        if shape is None:
            axes, width = data[at] >> 2, _WIDTHS[data[at] & 3]
            shape = np.frombuffer(data, width, axes, at + 1).tolist()
            at += 1 + axes * np.dtype(width).itemsize
        return np.frombuffer(data, dtype, offset=at).reshape(shape)


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    if not shape:
        raise ValueError("Attempting to encode a scalar with NDArray encoding. Please use a scalar encoding.")
    if len(shape) > _AXES_MAX:
        raise ValueError(f"Array has too many axes: maximum {_AXES_MAX}, got {len(shape)}.")
    largest = max(shape)
    width = next(i for i, name in enumerate(_WIDTHS) if largest <= np.iinfo(name).max)
    return bytes([len(shape) << 2 | width]) + np.array(shape, _WIDTHS[width]).tobytes()
