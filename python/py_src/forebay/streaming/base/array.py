"""Indexing like numpy's, for classes that return single items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._originals import Originals

__all__ = ["Array"]


class Array:
    """Read-only sequence with indexing by integers, slices, and nested lists and arrays of them.

    A subclass provides `size` and `get_item`.
    """

    @property
    def size(self) -> int:
        """Number of items."""
        raise NotImplementedError

    def get_item(self, idx: int) -> Any:
        """Returns the item at `idx`, from 0 to `size`, exclusive."""
        raise NotImplementedError

    def _each_slice_index(self, at: slice) -> Iterator[int]:
        """Yields the indices of a slice.

        As in the reference, but not in Python, a missing start or stop is 0 or `size` for any sign of the step.
        """
        size = self.size

        def wrapped(bound: int | None, default: int) -> int:
            if bound is None:
                return default
            return bound + size if -size <= bound < 0 else bound

        start, stop = wrapped(at.start, 0), wrapped(at.stop, size)
        step = 1 if at.step is None else at.step
        if step > 0:
            start, stop = max(start, 0), min(stop, size)
        else:
            start, stop = min(start, size - 1), max(stop, -1)
        yield from range(start, stop, step)

    def __getitem__(self, at: int | slice | list[int] | NDArray[np.int64]) -> Any:
        """Returns an item for an integer, else a list of items.

        Args:
            at: Index, negative from the end; slice; list or array of indices.

        Raises:
            ValueError: `at` has a wrong type.
        """
        if type(at) is int and at >= 0:
            return self.get_item(at)
        if isinstance(at, (int, np.integer)):
            return self.get_item(at + self.size if -self.size <= at < 0 else at)
        if isinstance(at, slice):
            return [self.get_item(index) for index in self._each_slice_index(at)]
        if isinstance(at, (list, np.ndarray)):
            return [self[item] for item in at]
        raise ValueError(f"Unsupported argument type passed to __getitem__: {type(at)}.")


INDEXING = Originals(Array, "__getitem__")
