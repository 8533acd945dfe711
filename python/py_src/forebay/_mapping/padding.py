"""Padding of the outputs of a map, with the semantics of the fields' padding."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._arguments import shown, text, within
from .._convert.padding import Padding, fill_of, joined, masks_of
from ..errors import ConfigError
from ..fields import AttentionMask
from ..fields.base import mask_of
from ..fields.values import checked_padding
from .rows import Form, RowsDiffer, form_of, forms_of


class RowPadding:
    """Padding of a map's outputs.

    Args:
        function: Name of the function, for messages.
        outputs: Padding by output.
        masks: For each output that is a mask, the padded output and the mask's type.
    """

    def __init__(self, function: str, outputs: Mapping[str, Padding], masks: Mapping[str, tuple[str, str]]) -> None:
        self._function = function
        self._outputs = dict(outputs)
        self._masks = dict(masks)

    @classmethod
    def of(cls, function: str, pad: Any, pad_to_multiple: Any) -> RowPadding | None:
        """Checks and returns the padding of a `Map`, if it has one.

        Raises:
            ConfigError: An option has a wrong type or value.
        """
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
        assert first is not None
        fill = _torch_fill(name, first, padding) if first.library == "torch" else fill_of(name, first.dtype, padding)
        return joined(values, fill, padding)

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


def _torch_fill(name: str, form: Form, padding: Padding) -> Any:
    """Returns the value that fills tensors of a type. A type of floats may round it."""
    torch = sys.modules["torch"]
    value, dtype = padding.value, form.dtype
    if dtype.is_floating_point or dtype.is_complex:
        fits = not math.isfinite(value) or abs(value) <= torch.finfo(dtype).max
    elif dtype == torch.bool:
        fits = value in (0, 1)
    else:
        limits = torch.iinfo(dtype)
        fits = math.isfinite(value) and int(value) == value and limits.min <= value <= limits.max
    if not fits:
        raise ConfigError(f"pad of {name} is {value!r}, which does not fit its type, {dtype}")
    return value if dtype.is_floating_point or dtype.is_complex else int(value)
