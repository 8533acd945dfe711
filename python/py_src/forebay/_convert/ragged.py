"""Arrays of different shapes, which the engine delivers one by one, and rows of different lengths as one array: each is filled up to
the longest one of the batch.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from .._choices import DTypeName
from ..errors import ConfigError, InternalError
from .._forebay import Ragged, Tensor

# Outputs of the engine with the answers of preference pairs, after the output with their prompts.
ANSWERS = ("chosen_ids", "rejected_ids")

# Masks of the rows of preference pairs, with the names that TRL's collator has.
PAIR_MASKS = ("attention_mask", "completion_mask")

# Types of the engine, with the names of all frameworks. The index is the type's number in the header of a ragged array.
DTYPES = get_args(DTypeName)

NUMBERS = tuple(dtype for dtype in DTYPES if dtype != "bfloat16")
"""Types of numbers and of the elements of arrays, with numpy's names."""


def header(row: bytes | bytearray) -> tuple[str, tuple[int, ...], int]:
    """Returns type, shape and offset of the values of a ragged array.

    Its header is one byte for the type, one for the number of dimensions, six unused bytes, and the dimensions as u64.
    """
    try:
        shape = struct.unpack_from(f"={row[1]}Q", row, 8)
        return DTYPES[row[0]], shape, 8 + 8 * len(shape)
    except (IndexError, struct.error) as error:
        raise InternalError(f"an array of {len(row)} bytes has a broken header: {error}") from None


def writable(row: bytes | bytearray, start: int) -> bytearray | memoryview:
    """Returns the values of a ragged array in memory that a program may write to. A long row is in such memory already."""
    values = memoryview(row)[start:]
    return values if isinstance(row, bytearray) else bytearray(values)


def array(row: bytes | bytearray, bfloat16: Any = None, copies: bool = True) -> Any:
    """Converts a ragged array to numpy; `bfloat16` is the type for such an array. Without `copies` it may be read-only."""
    import numpy

    dtype, shape, start = header(row)
    kind = bfloat16 if dtype == "bfloat16" else dtype
    if kind is None:
        raise ConfigError('numpy has no bfloat16: use framework="torch", "jax" or "tensorflow", or a different dtype')
    return numpy.frombuffer(writable(row, start) if copies else memoryview(row)[start:], kind).reshape(shape)


_HOST = 1
"""DLPack's number of host memory."""


@dataclass(frozen=True)
class Padding:
    """Padding of the rows of an output along their first dimension."""

    value: Any
    """Value that fills a row."""
    multiple: int = 1
    """The length is a multiple of it."""
    max_length: int | None = None
    """Longer rows are cut."""

    def total(self, longest: int) -> int:
        """Returns the length of all rows, if the longest one has `longest` elements."""
        return -(-longest // self.multiple) * self.multiple


@dataclass(frozen=True)
class Paddings:
    """Padding of a loader's outputs."""

    _outputs: Mapping[str, Padding]
    """Padding by output."""
    _masks: Mapping[str, tuple[str, str]]
    """For each output that is a mask, the padded output and the mask's type."""
    pairs: Mapping[str, Padding]
    """Padding by output of preference pairs."""

    @property
    def names(self) -> list[str]:
        """Names of the padded outputs and of their masks."""
        return [*self._outputs, *self.pairs, *self.masks]

    @property
    def masks(self) -> list[str]:
        """Names of the outputs that are masks."""
        return [*self._masks, *(PAIR_MASKS if self.pairs else ())]

    def __call__(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """Returns the engine's outputs with arrays of numpy instead of the outputs that are padded, and with masks.

        Raises:
            ConfigError: Rows cannot be padded: they differ in more than their first dimension, or `pad` does not fit their type.
        """
        padded, lengths = dict(outputs), {}
        for name, padding in self._outputs.items():
            if isinstance(outputs[name], Ragged):
                padded[name], lengths[name] = _padded(name, outputs[name], padding)
            elif isinstance(outputs[name], Tensor):
                padded[name], lengths[name] = _padded_tensor(name, outputs[name], padding)
        for name, padding in self.pairs.items():
            prompts, *answers = (padded.pop(output) for output in (name, *ANSWERS))
            padded |= _pairs(name, prompts, answers, padding)
        return padded | masks_of(self._masks, padded, lengths)


def masks_of(masks: Mapping[str, tuple[str, str]], batch: Mapping[str, Any], lengths: Mapping[str, Any]) -> dict[str, Any]:
    """Returns masks of padded outputs with rows of `lengths`; each mask has its output and its type in `masks`."""
    import numpy  # Not with the package, which works without it.

    return {
        mask: (numpy.arange(batch[name].shape[1]) < lengths[name][:, None]).astype(dtype, copy=False)
        for mask, (name, dtype) in masks.items()
    }


def _pairs(name: str, prompts: Ragged, answers: Sequence[Ragged], padding: Padding) -> dict[str, Any]:
    """Returns the rows of preference pairs as TRL's collator has them, the chosen ones before the rejected ones, and their masks."""
    import numpy

    heads = [array(row, copies=False) for row in prompts.rows]
    tails = [array(row, copies=False) for of in answers for row in of.rows]
    rows = [numpy.concatenate(pair) for pair in zip(heads * len(answers), tails)]
    batch, ends = joined(name, rows, padding)
    places = numpy.arange(batch.shape[1])
    starts = numpy.array([len(row) for row in heads] * len(answers))
    is_token = places < ends[:, None]
    masks = (is_token, is_token & (places >= starts[:, None]))
    return {name: batch} | {mask: values.astype("int64") for mask, values in zip(PAIR_MASKS, masks)}


def _padded_tensor(name: str, tensor: Tensor, padding: Padding) -> tuple[Any, Any]:
    """Returns rows of a shape that the column fixes as one array, or as they are, and their lengths."""
    import numpy

    if len(tensor.shape) < 2:
        raise ConfigError(f"{name} has `pad`, but its rows are single numbers: leave pad out")
    rows, length = tensor.shape[:2]
    kept = length if padding.max_length is None else min(length, padding.max_length)
    lengths = numpy.full(rows, kept)
    total = padding.total(kept)
    if total == length == kept:
        return tensor, lengths
    if tensor.__dlpack_device__()[0] != _HOST:
        raise ConfigError(f'{name} is cut or padded in host memory, but device is not "cpu": leave pad_to_multiple and max_length out')
    if tensor.dtype == "bfloat16":
        raise _no_bfloat16(name)
    values = numpy.from_dlpack(tensor)
    batch = numpy.empty((rows, total, *values.shape[2:]), values.dtype)
    batch[:, :kept] = values[:, :kept]
    batch[:, kept:] = fill_of(name, values, padding)
    return batch, lengths


def _padded(name: str, ragged: Ragged, padding: Padding) -> tuple[Any, Any]:
    """Returns the rows of an output as one array, and their lengths."""
    try:
        rows = [array(row, copies=False) for row in ragged.rows]
    except ConfigError:
        raise _no_bfloat16(name) from None
    first = rows[0]
    for index, row in enumerate(rows):
        if row.ndim == 0 or row.dtype != first.dtype or row.shape[1:] != first.shape[1:]:
            raise ConfigError(
                f"rows of {name} cannot be padded, because they differ in more than their first dimension: {first.dtype} {first.shape} in "
                f"row 0 and {row.dtype} {row.shape} in row {index}. Leave pad out and fill them in transform, or leave such samples out "
                "with Select(filter=...) or Select(subset=...); samples_of names them"
            )
    return joined(name, rows, padding)


def joined(name: str, rows: Sequence[Any], padding: Padding) -> tuple[Any, Any]:
    """Returns arrays of numpy, or tensors of torch, that differ only in their first dimension, as one, and their lengths."""
    import numpy

    first = rows[0]
    lengths = numpy.array([len(row) if padding.max_length is None else min(len(row), padding.max_length) for row in rows])
    shape = (len(rows), padding.total(int(lengths.max())), *first.shape[1:])
    # A tensor stays on its device.
    batch = numpy.empty(shape, first.dtype) if isinstance(first, numpy.ndarray) else first.new_empty(shape)
    fill = fill_of(name, first, padding)
    for index, (row, end) in enumerate(zip(rows, lengths)):
        batch[index, :end] = row[:end]
        batch[index, end:] = fill
    return batch, lengths


def fill_of(name: str, rows: Any, padding: Padding) -> Any:
    """Returns the value that fills rows of the type of an array or a tensor. A type of floats may round it."""
    import numpy

    value, dtype = padding.value, rows.dtype
    try:
        with numpy.errstate(over="ignore"):
            fill = dtype.type(value) if isinstance(rows, numpy.ndarray) else rows.new_full((), value).item()
        # bfloat16 of JAX and TensorFlow has the kind V.
        is_float = dtype.kind in "fcV" if isinstance(rows, numpy.ndarray) else dtype.is_floating_point or dtype.is_complex
        fits = numpy.isinf(fill) <= math.isinf(value) if is_float else fill == value
    except (OverflowError, RuntimeError, ValueError):
        fits = False
    if not fits:
        raise ConfigError(f"pad of {name} is {value!r}, which does not fit its type, {dtype}")
    return fill


def _no_bfloat16(name: str) -> ConfigError:
    return ConfigError(f'the dtype of {name} is bfloat16, which cannot be padded: use a different one, such as "float32"')
