"""Arrays of different lengths as one array: each row is filled up to the longest one of the batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._forebay import Ragged, Tensor
from ..errors import ConfigError, DecodeError
from .ragged import array

__all__ = ["Padding", "Paddings"]


@dataclass(frozen=True)
class Padding:
    """Padding of the rows of an output along their first dimension."""

    value: Any
    """Value that fills a row."""
    multiple: int = 1
    """The length is a multiple of it."""
    max_length: int | None = None
    """Longer rows are cut."""


class Paddings:
    """Padding of a loader's outputs.

    Args:
        outputs: Padding by output.
        masks: For each output that is a mask, the padded output and the mask's type.
    """

    def __init__(self, outputs: Mapping[str, Padding], masks: Mapping[str, tuple[str, str]]) -> None:
        self._outputs = dict(outputs)
        self._masks = dict(masks)

    @property
    def names(self) -> list[str]:
        """Names of the padded outputs and of their masks."""
        return [*self._outputs, *self._masks]

    @property
    def masks(self) -> list[str]:
        """Names of the outputs that are masks."""
        return list(self._masks)

    def __call__(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the engine's outputs with arrays of numpy in place of those that are padded, and with masks.

        Raises:
            DecodeError: Rows differ in more than their first dimension, or in their types.
        """
        import numpy

        padded, lengths = dict(outputs), {}
        for name, padding in self._outputs.items():
            if isinstance(outputs[name], Ragged):
                padded[name], lengths[name] = _padded(name, outputs[name], padding)
            elif isinstance(outputs[name], Tensor):
                # The column fixes the shape: no row is shorter.
                rows, length = outputs[name].shape[:2]
                lengths[name] = numpy.full(rows, length)
        for mask, (name, dtype) in self._masks.items():
            padded[mask] = (numpy.arange(padded[name].shape[1]) < lengths[name][:, None]).astype(dtype, copy=False)
        return padded


def _padded(name: str, ragged: Ragged, padding: Padding) -> tuple[Any, Any]:
    """Returns the rows of an output as one array, and their lengths."""
    import numpy

    try:
        rows = [array(row, copies=False) for row in ragged.rows]
    except ConfigError:
        raise ConfigError(f'the dtype of {name} is bfloat16, which cannot be padded: use another one, such as "float32"') from None
    first = rows[0]
    for place, row in enumerate(rows):
        if row.ndim == 0 or row.dtype != first.dtype or row.shape[1:] != first.shape[1:]:
            raise DecodeError(
                f"rows of {name} cannot be padded, because they differ in more than their first dimension: {first.dtype} {first.shape} in "
                f"row 0 and {row.dtype} {row.shape} in row {place}"
            )
    lengths = numpy.array([len(row) if padding.max_length is None else min(len(row), padding.max_length) for row in rows])
    length = -(-int(lengths.max()) // padding.multiple) * padding.multiple
    batch = numpy.empty((len(rows), length, *first.shape[1:]), first.dtype)
    try:
        fill = first.dtype.type(padding.value)
    except (OverflowError, ValueError):
        raise ConfigError(f"pad of {name} is {padding.value!r}, which does not fit its type, {first.dtype}") from None
    for place, (row, end) in enumerate(zip(rows, lengths)):
        batch[place, :end] = row[:end]
        batch[place, end:] = fill
    return batch, lengths
