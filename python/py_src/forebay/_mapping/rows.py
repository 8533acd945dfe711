"""From the values of rows to the outputs of a batch: types decide between one array and a list, shapes never do, and padding has the
semantics of the fields' padding.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._arguments import shown, text, within
from .._convert.ragged import Padding, joined, masks_of
from ..errors import ConfigError
from ..fields import AttentionMask
from ..fields.base import mask_of
from ..fields.values import checked_padding


class _Mark(enum.Enum):
    SAME = 0


SAME = _Mark.SAME
"""Value of a result that is the row that the function got."""


class Given(NamedTuple):
    """Value of a result that is the object that the function got, perhaps with new contents or a new shape."""

    value: Any


@dataclass(eq=False)
class RowsDiffer(Exception):
    """Rows of an output that cannot be one array."""

    row: int
    """The row that differs from the rest."""
    problem: str
    """The difference, with the output's name."""
    remedy: str
    """The change that helps."""

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
        pads = f"return arrays of one shape, or arrays that differ only in the first dimension, which Map({pads}) fills"
    return RowsDiffer(other_row, problem, f"{pads}, or return a list, such as [x] or x.tolist(), which stays a list")


def _described(value: Any) -> str:
    """Returns the type of a value in words."""
    form = form_of(value)
    if form is None or type(value) in _PLAIN:
        return f"a value of type {type(value).__name__}"
    kind = "a tensor" if form.library == "torch" else "an array" if form.shape else "a number"
    device = "" if form.device is None or form.device.type == "cpu" else f" on {form.device}"
    return f"{kind} of {form.dtype}{device}"


@dataclass(frozen=True)
class RowPadding:
    """Padding of a map's outputs."""

    _function: str
    """Name of the function, for messages."""
    _outputs: Mapping[str, Padding]
    """Padding by output."""
    _masks: Mapping[str, tuple[str, str]]
    """For each output that is a mask, the padded output and the mask's type."""

    @classmethod
    def of(cls, function: str, pad: Any, pad_to_multiple: Any) -> RowPadding | None:
        """Checks and returns the padding of a `Map`, if it has one."""
        with within("map"):
            if pad is None:
                if pad_to_multiple is not None:
                    raise ConfigError("pad_to_multiple of Map is for outputs that are padded: pass `pad` too")
                return None
            if not isinstance(pad, Mapping):
                raise ConfigError(f'pad of Map has a value for each output that is padded, such as {{"ids": 0}}, but it is {shown(pad)}')
            outputs, masks = {}, {}
            for name, value in pad.items():
                text("a name in pad of Map", name)
                if isinstance(value, AttentionMask) and (of := mask_of(value)) is not None:
                    masks[name] = of
                else:
                    outputs[name] = checked_padding("Map", value, pad_to_multiple)
            for name, (of, _) in masks.items():
                if of not in outputs:
                    raise ConfigError(f"pad of Map: {name} is a mask of {of!r}, which is not padded: add it, as in {{{of!r}: 0}}")
            return cls(function, outputs, masks)

    def __contains__(self, name: str) -> bool:
        return name in self._outputs

    def check(self, names: Collection[str], others: Collection[str]) -> None:
        """Checks the names that the function returned, besides which the batch has `others`.

        Raises:
            ConfigError: An output is absent, or has the name of a mask.
        """
        for name in self._outputs:
            if name not in names:
                inputs = f", and {name} stays as it is: give its field `pad`" if name in others else ""
                raise ConfigError(f"pad of Map has {name!r}, but {self._function} returns {', '.join(sorted(names))}{inputs}")
        for name in self._masks:
            if name in names or name in others:
                raise ConfigError(f"pad of Map adds an output called `{name}`, which the batch has already: rename the AttentionMask")

    def padded(self, name: str, values: Sequence[Any], rows: Sequence[int]) -> tuple[Any, Any]:
        """Returns the rows of an output as one array or tensor, and their lengths.

        Raises:
            RowsDiffer: They differ in more than their first dimension, or are no arrays.
            ConfigError: The value of `pad` does not fit their type.
        """
        padding = self._outputs[name]
        values = _arrays(values, padding)
        first = forms_of(name, values, rows)[0]
        for value, row in zip(values, rows):
            form = form_of(value)
            if form is None:
                problem = f"{name} as a value of type {type(value).__name__} for row {row} of a batch"
                raise RowsDiffer(row, problem, f"pad of Map fills arrays, tensors and lists of numbers: leave {name} out of it")
            if not form.shape:
                raise RowsDiffer(row, f"{name} as a single number for row {row} of a batch", f"leave {name} out of pad of Map")
            if first is not None and form.shape[1:] != first.shape[1:]:
                problem = f"{name} with shape {first.shape} for row {rows[0]} of a batch and with shape {form.shape} for row {row}"
                remedy = "pad of Map fills the first dimension: return arrays that are equal in the rest"
                raise RowsDiffer(row, problem, f"{remedy}, or leave {name} out of pad and return a list, such as [x], which stays a list")
        return joined(name, values, padding)

    def masks(self, batch: Mapping[str, Any], lengths: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the masks of padded outputs with rows of `lengths`."""
        return masks_of(self._masks, batch, lengths)


def _arrays(values: Sequence[Any], padding: Padding) -> list[Any]:
    """Returns values with arrays instead of lists of numbers. An empty list has the type of the rows that are not empty."""
    import numpy

    arrays = [numpy.asarray(value) if _is_of_numbers(value) else value for value in values]
    empty = [index for index, value in enumerate(values) if isinstance(value, (list, tuple)) and not value]
    others = [form for index, value in enumerate(arrays) if index not in empty and (form := form_of(value)) is not None]
    of_pad = numpy.dtype("int64" if isinstance(padding.value, int) else "float64")
    for index in empty:
        shape = (0, *(others[0].shape[1:] if others else ()))
        if others and others[0].library == "torch":
            arrays[index] = sys.modules["torch"].empty(shape, dtype=others[0].dtype, device=others[0].device)
        else:
            arrays[index] = numpy.empty(shape, others[0].dtype if others else of_pad)
    return arrays


def _is_of_numbers(value: Any) -> bool:
    """Returns true for a list of numbers, or of lists of equal lengths of them."""
    import numpy

    if not isinstance(value, (list, tuple)) or not value:
        return False
    try:
        return numpy.asarray(value).dtype.kind in "biuf"
    except ValueError:  # Lists of different lengths.
        return False


def collated(
    results: Sequence[Mapping[str, Any]], rows: Sequence[int], columns: Mapping[str, Any], padding: RowPadding | None = None
) -> dict[str, Any]:
    """Returns the outputs of the results of `rows`, and `columns` has the ones that the function got.

    The results have the same names.

    Raises:
        RowsDiffer: Rows of an output are neither an array nor a list by their types, or have different shapes and no padding.
        ConfigError: The value of `pad` does not fit the type of the rows.
    """
    batch, lengths = {}, {}
    for name in results[0]:
        values = [result[name] for result in results]
        if padding is not None and name in padding:
            batch[name], lengths[name] = padding.padded(name, _plain(values, rows, columns.get(name)), rows)
        elif all(value is SAME for value in values):
            batch[name] = kept_rows(columns[name], rows)
        else:
            batch[name] = _joined(name, values, rows, columns.get(name))
    return batch if padding is None else batch | padding.masks(batch, lengths)


def kept_rows(column: Any, rows: Sequence[int]) -> Any:
    """Returns the rows of an output; without a copy if these are all."""
    if len(rows) == len(column):
        return column
    return [column[row] for row in rows] if isinstance(column, list) else column[list(rows)]


def _joined(name: str, values: Sequence[Any], rows: Sequence[int], column: Any) -> Any:
    """Returns the values of an output as an array, a tensor or a list.

    Arrays of a field with varying shapes stay a list where the function passes them on. Only for some rows it would depend on the
    batch which one of both the output is.
    """
    plain = _plain(values, rows, column)
    if isinstance(column, list):
        are_given = [value is SAME or isinstance(value, Given) for value in values]
        if all(are_given):
            return plain
        if any(are_given) and form_of(plain[are_given.index(True)]) is not None:
            given, new = rows[are_given.index(True)], rows[are_given.index(False)]
            problem = f"{name} as it was, an array of a field with varying shapes, for row {given} of a batch and a new value for row {new}"
            remedy = "return a new array for all samples, such as x.clone() or x.copy(), or fill the rows, as in "
            remedy += f"Map(FUNCTION, pad={{{name!r}: 0}}), or return a list, such as [x] or x.tolist(), which stays a list"
            raise RowsDiffer(new, problem, remedy)
    return stacked(name, plain, rows)


def _plain(values: Sequence[Any], rows: Sequence[int], column: Any) -> list[Any]:
    """Returns the values without their marks."""
    given = (column[row] if value is SAME else value for value, row in zip(values, rows))
    return [value.value if isinstance(value, Given) else value for value in given]
