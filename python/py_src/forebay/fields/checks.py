"""Checks of the arguments of operations, by the annotations of the classes, and checks that several operations have."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Union, get_args

from .._arguments import U32, Check, flag, none_or, one_of, real, reals, shown, whole
from .._choices import PaddingMode
from ..errors import ConfigError

Range = Union[float, Sequence[float]]
"""One number for a range about a middle, or (smallest, largest)."""

Fill = Union[int, Sequence[int], None]
"""Colour outside of the picture: one level, or (red, green, blue). None is black."""

Size = Union[int, Sequence[int]]
"""Pixels: one number for a square, or (height, width)."""

_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic", "nearest-exact": "nearest"}
"""Pillow's numbers of filters, and torchvision's second name of Pillow's nearest pixel."""


def is_one(value: Any) -> bool:
    """Returns True for one number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def listed(value: Any) -> list[Any]:
    """Returns one number, or a sequence, as a list; an empty one for text."""
    try:
        return [] if isinstance(value, (str, bytes)) else [value] if is_one(value) else list(value)
    except TypeError:  # Arrays and tensors without dimensions cannot be iterated.
        return [value]


def range_of(name: str, value: Range | None, middle: float = 0, least: float = -math.inf) -> list[float] | None:
    """Returns (smallest, largest) of a factor; None if it changes nothing."""
    if value is None:
        return None
    if is_one(value):
        about = real(name, value, "a number, at least 0", least=0)
        bounds = [max(middle - about, least), middle + about]
    else:
        bounds = reals(name, value, 2)
    return None if bounds[0] == bounds[1] == middle else bounds


def angles(name: str, value: Range) -> list[float]:
    """Returns (smallest, largest) of an angle: one number is the largest in both directions."""
    if is_one(value):
        most = real(name, value, "a number of degrees, at least 0", least=0)
        return [-most, most]
    return reals(name, value, 2)


def fill_of(name: str, value: Fill) -> list[int]:
    """Returns red, green and blue."""
    return filled(name, 0 if value is None else value, (1, 3), "a grey level or (red, green, blue)", _level)


def _level(name: str, value: Any) -> int:
    """Checks a grey level, which may be a float without a fraction."""
    number = real(name, value)
    return whole(name, int(number) if number.is_integer() else value, 0, 256)


def interpolation_of(name: str, value: Any) -> str:
    """Returns the name of a filter, which may be torchvision's or Pillow's."""
    named = getattr(value, "value", value)  # Members of torchvision's and Pillow's enumerations.
    if isinstance(named, (int, str)) and not isinstance(named, bool):
        named = _FILTERS.get(named, named)
    return one_of(name, named, ("nearest", "bilinear", "bicubic"))


def pair_of(name: str, size: Size) -> list[int]:
    """Returns both sides of a size."""
    pair = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size, size]
    if len(pair) != 2:
        raise ConfigError(f"{name} is a whole number of pixels or (height, width), but it is {size!r}")
    return [whole(name, side, 1, U32) for side in pair]


def filled(name: str, value: Any, lengths: Sequence[int], expected: str, check: Check) -> list[Any]:
    """Returns a sequence of one of some lengths, repeated to the last one; one number is a sequence of it."""
    # A set has no order.
    values = [] if isinstance(value, (set, frozenset)) else listed(value)
    if len(values) not in lengths:
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    return [check(name, each) for each in values] * (lengths[-1] // len(values))


def two_of(name: str, value: Any) -> list[float]:
    """Returns two numbers; one number is used twice."""
    values = listed(value)
    return [real(name, values[0])] * 2 if len(values) == 1 else reals(name, value, 2)


def filters_of(name: str, value: Any) -> str | list[str]:
    """Returns a filter, or both if one of two is drawn."""
    if not isinstance(value, (list, tuple)):
        return interpolation_of(name, value)
    if len(value) != 2:
        raise ConfigError(f"{name} is one filter, or two, to draw one of them, but it is {value!r}")
    return [interpolation_of(name, each) for each in value]


def with_alternative(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns an operation's form with the second filter of `filters_of` as its alternative."""
    filters = spec.get("interpolation")
    return spec | dict(zip(("interpolation", "alternative"), filters)) if isinstance(filters, list) else spec


_TWO = partial(reals, count=2)

BY_ANNOTATION: Mapping[str, Check] = {
    "bool": flag,
    "Fill": fill_of,
    "float": real,
    "int": partial(whole, least=1, below=U32),
    "int | None": partial(none_or, partial(whole, least=1, below=U32)),
    "Interpolation": interpolation_of,
    "PaddingMode": partial(one_of, choices=get_args(PaddingMode)),
    "Sequence[float]": _TWO,
    "Sequence[float] | None": partial(none_or, _TWO),
    "Size": pair_of,
    "tuple[float, float]": _TWO,
}
"""Checks of arguments by the annotations of the classes."""
