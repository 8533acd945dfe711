"""Numbers to and from the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def int64s(memory: bytearray, shape: Sequence[int] = (-1,)) -> NDArray[np.int64]:
    """The engine's integers as an array of `shape`, which may be written to; nothing is copied."""
    return np.frombuffer(memory, np.int64).reshape(shape)


def numbers(array: NDArray[np.int64] | Sequence[int]) -> list[int]:
    """The numbers of a 1-D array, as the engine takes them."""
    return np.asarray(array, np.int64).tolist()
