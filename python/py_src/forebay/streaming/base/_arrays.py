"""Conversion of integer arrays to and from the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def int64s(memory: bytearray, shape: Sequence[int] = (-1,)) -> NDArray[np.int64]:
    """Returns the engine's integers as a writable array of `shape`, without a copy."""
    return np.frombuffer(memory, np.int64).reshape(shape)


def numbers(array: NDArray[np.int64] | Sequence[int]) -> list[int]:
    """Returns the numbers of a 1-D array as a list for the engine."""
    return np.asarray(array, np.int64).tolist()
