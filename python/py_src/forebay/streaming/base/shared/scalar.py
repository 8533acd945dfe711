"""Number in named shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .array import SharedArray

__all__ = ["SharedScalar"]


class SharedScalar:
    """Number with a name that processes share.

    Args:
        dtype: Type.
        name: Name in shared memory.
    """

    def __init__(self, dtype: type[np.generic], name: str) -> None:
        self.dtype = dtype
        self.name = name
        self.arr = SharedArray(1, dtype, name)

    def get(self) -> Any:
        """Returns the number."""
        return self.arr[0]

    def set(self, value: Any) -> None:
        """Replaces the number."""
        self.arr[0] = value
