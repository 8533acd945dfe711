"""Numpy array in named shared memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .memory import SharedMemory

__all__ = ["SharedArray"]


class SharedArray:
    """Array of fixed shape and type with a name that processes share.

    Args:
        shape: Shape.
        dtype: Type.
        name: Name in shared memory.
    """

    def __init__(self, shape: int | tuple[int, ...], dtype: type[np.generic], name: str) -> None:
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        self.dtype = dtype
        self.name = name
        self.shm = SharedMemory(name=name, size=math.prod(self.shape) * np.dtype(dtype).itemsize)

    def numpy(self) -> NDArray[Any]:
        """Returns the array, which must not outlive this object."""
        return np.ndarray(self.shape, self.dtype, self.shm.buf)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.numpy()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.numpy()[index] = value
