"""From the results of rows to a batch."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SAME", "collated", "kept_rows"]



class _Mark(enum.Enum):
    SAME = 0


SAME = _Mark.SAME
"""Value of a result that is the row that the function got."""

_PLAIN = {bool: "bool", int: "int64", float: "float64"}
"""Types of numbers, and those of their arrays."""

_LISTED = "OUSMm"
"""Kinds of numpy's types that are not stacked: objects, text, bytes and times."""


def collated(results: Sequence[Mapping[str, Any]], rows: Sequence[int], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the outputs of the results of `rows`, of which `columns` has those that the function got.

    The results have the same names.
    """
    batch = {}
    for name in results[0]:
        values = [result[name] for result in results]
        if all(value is SAME for value in values):
            batch[name] = kept_rows(columns[name], rows)
        else:
            values = [columns[name][row] if value is SAME else value for row, value in zip(rows, values)]
            batch[name] = _stacked(values)
    return batch


def kept_rows(column: Any, rows: Sequence[int]) -> Any:
    """Returns the rows of an output; without a copy if these are all."""
    if len(rows) == len(column):
        return column
    return [column[row] for row in rows] if isinstance(column, list) else column[list(rows)]


def _stacked(values: list[Any]) -> Any:
    """Returns the values as an array or a tensor if they have one type and shape, else as they are."""
    first = values[0]
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        are_equal = all(isinstance(v, torch.Tensor) and v.dtype == first.dtype and v.shape == first.shape for v in values)
        return torch.stack(values) if are_equal and len({v.device for v in values}) == 1 else values
    import numpy  # Not with the package, which works without it.

    if isinstance(first, (numpy.ndarray, numpy.generic)):
        are_arrays = all(isinstance(v, (numpy.ndarray, numpy.generic)) for v in values)
        are_equal = are_arrays and all(v.dtype == first.dtype and v.shape == first.shape for v in values)
        return numpy.stack(values) if are_equal and first.dtype.kind not in _LISTED else values
    kind = _PLAIN.get(type(first))
    if kind is not None and all(type(v) is type(first) for v in values):
        try:
            return numpy.array(values, kind)
        except OverflowError:  # A number of more than 64 bits.
            return values
    return values
