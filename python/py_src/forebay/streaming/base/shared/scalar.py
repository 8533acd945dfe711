"""A number in named shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import SharedArray

__all__ = ["SharedScalar"]


class SharedScalar:
    """A number that processes find by its name.

    Args:
        dtype: Its type.
        name: Its name in shared memory.
    """

    def __init__(self, dtype: type[np.generic], name: str) -> None:
        self.dtype = dtype
        self.name = name
        self.arr = SharedArray(1, dtype, name)

    def get(self) -> Any:
        """The number."""
        return self.arr[0]

    def set(self, value: Any) -> None:
        """Replaces the number."""
        self.arr[0] = value
