"""Values of one output for the rows of a batch: their types decide between one array and a list, and their shapes never do."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class _Mark(enum.Enum):
    SAME = 0


SAME = _Mark.SAME
"""Value of a result that is the row that the function got."""


class Given(NamedTuple):
    """Value of a result that is the object that the function got, perhaps with new contents or a new shape."""

    value: Any


class RowsDiffer(Exception):
    """Rows of an output that cannot be one array.

    Args:
        row: The row that differs from the rest.
        problem: The difference, with the output's name.
        remedy: The change that helps.
    """

    def __init__(self, row: int, problem: str, remedy: str) -> None:
        super().__init__(row, problem, remedy)
        self.row = row
        self.problem = problem
        self.remedy = remedy

    def sentence(self, function: str) -> str:
        """Returns the message of the error about `function`."""
        return f"{function} returned {self.problem}: {self.remedy.replace('FUNCTION', function)}"


class Form(NamedTuple):
    """Type and shape of an array, a tensor or a number. Rows of one array have equal ones."""

    library: str
    dtype: Any
    shape: tuple[int, ...]
    device: Any = None


_PLAIN = {bool: "bool", int: "int64", float: "float64"}
"""Types of Python's numbers, and the types of their arrays."""

_LISTED = "OUSMm"
"""Kinds of numpy's types that are not stacked: objects, text, bytes and times."""


def form_of(value: Any) -> Form | None:
    """Returns the form of an array, a tensor or a number. None: values of this type become lists."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return Form("torch", value.dtype, tuple(value.shape), value.device)
    import numpy  # Not with the package, which works without it.

    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return None if value.dtype.kind in _LISTED else Form("numpy", value.dtype, value.shape)
    kind = _PLAIN.get(type(value))
    return None if kind is None else Form("numpy", numpy.dtype(kind), ())


def is_listed(forms: Sequence[Form | None]) -> bool:
    """Returns true if the values become a list because of their types."""
    return all(form is None for form in forms)


def forms_of(name: str, values: Sequence[Any], rows: Sequence[int]) -> list[Form | None]:
    """Returns the forms of the values of an output, which have one type.

    Raises:
        RowsDiffer: They have different types, and some are stacked.
    """
    forms = [form_of(value) for value in values]
    first = forms[0]
    for form, value, row in zip(forms, values, rows):
        if (form is None) != (first is None) or form is not None and first is not None and (form[:2], form[3]) != (first[:2], first[3]):
            problem = f"{name} as {_described(values[0])} for row {rows[0]} of a batch and as {_described(value)} for row {row}"
            remedy = "return values of one type for all samples, as float(x) makes them, or lists, such as [x], which stay lists"
            raise RowsDiffer(row, problem, remedy)
    return forms


def stacked(name: str, values: Sequence[Any], rows: Sequence[int]) -> Any:
    """Returns the values of an output as an array or a tensor, or as a list if they have a type without arrays.

    Raises:
        RowsDiffer: Their types or their shapes differ.
    """
    forms = forms_of(name, values, rows)
    first = forms[0]
    if first is None:
        return list(values)
    for form, row in zip(forms, rows):
        if form is not None and form.shape != first.shape:
            raise _shapes_differ(name, first.shape, rows[0], form.shape, row)
    if first.library == "torch":
        return sys.modules["torch"].stack(list(values))
    import numpy

    if first.shape:
        return numpy.stack(values)
    for value, row in zip(values, rows):
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            problem = f"{name} as a number of more than 64 bits for row {row} of a batch"
            raise RowsDiffer(row, problem, "return it as text, or in a list, such as [x], which stays a list")
    return numpy.array(values, first.dtype)


def _shapes_differ(name: str, shape: tuple[int, ...], row: int, other: tuple[int, ...], other_row: int) -> RowsDiffer:
    """Returns the error about two rows of different shapes."""
    problem = f"{name} with shape {shape} for row {row} of a batch and with shape {other} for row {other_row}"
    pads = f"FUNCTION, pad={{{name!r}: 0}}"
    if shape and other and shape[1:] == other[1:]:
        pads = f"fill the rows up to the longest one, as in Map({pads})"
    else:
        pads = f"return arrays of one shape, or arrays that differ in the first dimension alone, which Map({pads}) fills"
    return RowsDiffer(other_row, problem, f"{pads}, or return a list, such as [x] or x.tolist(), which stays a list")


def _described(value: Any) -> str:
    """Returns the type of a value in words."""
    form = form_of(value)
    if form is None or type(value) in _PLAIN:
        return f"a value of type {type(value).__name__}"
    kind = "a tensor" if form.library == "torch" else "an array" if form.shape else "a number"
    device = "" if form.device is None or form.device.type == "cpu" else f" on {form.device}"
    return f"{kind} of {form.dtype}{device}"
