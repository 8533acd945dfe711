"""Samples that a stream keeps, and numbers of its samples, in the engine's form."""

from __future__ import annotations

import base64
import os
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Union

from ._arguments import U32, path, real, reals, shown, text, whole
from .errors import ConfigError

Fraction = tuple[float, float]
"""Bounds of a part, from 0 to 1."""

Subset = Union[str, os.PathLike[str], Sequence[int]]
"""Numbers and ranges as text, the path of a file of them, or numbers: a list, a range, or an array of numpy or torch."""

SampleValues = Union[str, os.PathLike[str], Sequence[float]]
"""Name of a column, path of a `.npy` file, or a number for each sample: a list, or an array of numpy or torch."""

_VALUES_MAX = 1 << 24
"""Most numbers of an array that is not a file: the engine gets them as text."""

_SAMPLES_MAX = U32 << 16
"""Exclusive upper bound of the numbers of samples."""


def fraction(name: str, value: Any) -> list[float]:
    """Checks the bounds of a part."""
    if isinstance(value, (int, float)):
        raise ConfigError(f"{name} has two bounds, such as (0, 0.9) and (0.9, 1), but it is {shown(value)}")
    return reals(name, value, 2)


def subset(name: str, value: Any) -> str:
    """Returns text with numbers and ranges, or the path of a file of them."""
    expected = 'a text such as "0:1000", numbers, or the path of a file of them'
    if isinstance(value, os.PathLike):
        return path(name, value)
    if isinstance(value, str):
        # A text of digits is no path.
        return path(name, value) if set(value) - set("0123456789:, \t\n") else text(name, value)
    if isinstance(value, range) and value.step == 1:
        return f"{whole(name, value.start)}:{whole(name, value.stop)}" if value else ""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _of_array(name, value, numpy)
    if isinstance(value, (bytes, dict)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    if getattr(value, "ndim", 1) != 1:
        raise ConfigError(f"{name} is an array with one dimension, but it has {value.ndim}")
    numbers = value.tolist() if hasattr(value, "tolist") else value
    return _joined(sorted(whole(f"{name}[{index}]", number, below=_SAMPLES_MAX) for index, number in enumerate(numbers)))


def sample_values(name: str, value: Any) -> str | None:
    """Returns the name of a column, the path of a file, or the numbers of an array as text. None stays."""
    if value is None:
        return None
    if isinstance(value, os.PathLike):
        file = path(name, value)
        if not file.endswith(".npy"):
            raise ConfigError(f"{name} is a file of numpy.save, with a name that ends with .npy, but it is {shown(value)}")
        return file
    if isinstance(value, str):
        # A name of a column may begin with a tilde.
        return path(name, value) if value.endswith(".npy") else text(name, value)
    expected = "the name of a column, a number for each sample, or the path of a .npy file of them"
    # A set has no order.
    if isinstance(value, (bytes, Mapping, Set)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    if getattr(value, "ndim", 1) != 1:
        raise ConfigError(f"{name} is an array with one dimension, but it has {value.ndim}")
    if hasattr(value, "__len__") and len(value) > _VALUES_MAX:
        raise ConfigError(f"{name} has {len(value)} numbers: save them with numpy.save, as float32, and pass the path")
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        if value.dtype.kind not in "biuf":
            raise ConfigError(f"{name} is an array of numbers, but it is an array of {value.dtype}")
        doubles = value.astype("<f8").tobytes()
    else:
        numbers = value.tolist() if hasattr(value, "tolist") else value
        checked = (real(f"{name}[{index}]", number, "a number, at least 0", least=0) for index, number in enumerate(numbers))
        doubles = array("d", checked).tobytes()
    return "float64:" + base64.b64encode(doubles).decode()


def _of_array(name: str, array: Any, numpy: Any) -> str:
    if array.dtype.kind == "b":
        raise ConfigError(f"{name} is an array of numbers, but this one is a mask: pass numpy.flatnonzero of it, or save it as a file")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        shape = f"an array of {array.dtype} with {array.ndim} dimensions"
        raise ConfigError(f"{name} is an array of whole numbers with one dimension, but it is {shape}")
    if not len(array):
        return ""
    array = numpy.sort(array)
    whole(f"the least of {name}", array[0])
    whole(f"the largest of {name}", array[-1], below=_SAMPLES_MAX)
    array = array.astype(numpy.int64)
    ends = numpy.flatnonzero(numpy.diff(array) != 1)
    firsts, lasts = array[numpy.append(0, ends + 1)], array[numpy.append(ends, len(array) - 1)]
    return ",".join(f"{first}:{last + 1}" for first, last in zip(firsts.tolist(), lasts.tolist()))


def _joined(numbers: list[int]) -> str:
    """Returns the ranges of sorted numbers as text."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ",".join(f"{first}:{end}" for first, end in ranges)
