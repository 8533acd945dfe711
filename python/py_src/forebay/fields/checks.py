"""Checks of arguments that several operations of pictures have."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Union

from .._arguments import U32, one_of, real, reals, shown, whole
from ..errors import ConfigError

__all__ = [
    "Fill",
    "Range",
    "Size",
    "angles",
    "border_of",
    "fill_of",
    "filter_of",
    "filters_of",
    "interpolation_of",
    "listed",
    "pair_of",
    "range_of",
]

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


def range_of(name: str, value: Range | None, middle: float, least: float) -> list[float] | None:
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
    levels = [0] if value is None else listed(value)
    if len(levels) not in (1, 3):
        raise ConfigError(f"{name} is a grey level or (red, green, blue), but it is {shown(value)}")
    return [_level(name, level) for level in levels] * (3 // len(levels))


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


def pair_of(op: str, size: Size, name: str = "size") -> list[int]:
    """Returns both sides of an operation's size."""
    pair = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size, size]
    if len(pair) != 2:
        raise ConfigError(f"{name} of {op} is a whole number of pixels or (height, width), but it is {size!r}")
    return [whole(f"{name} of {op}", side, 1, U32) for side in pair]


def filter_of(op: Any) -> dict[str, Any]:
    """Returns an operation's filter, if it is not the usual one."""
    name = interpolation_of(f"interpolation of {type(op).__name__}", op.interpolation)
    return {} if name == "bilinear" else {"interpolation": name}


def filters_of(op: Any) -> dict[str, Any]:
    """Returns an operation's filter, or both if one of two is drawn."""
    if not isinstance(op.interpolation, (list, tuple)):
        return filter_of(op)
    name = f"interpolation of {type(op).__name__}"
    if len(op.interpolation) != 2:
        raise ConfigError(f"{name} is one filter, or two of which one is drawn, but it is {op.interpolation!r}")
    first, second = (interpolation_of(name, value) for value in op.interpolation)
    return {"interpolation": first, "alternative": second}


def border_of(op: Any) -> dict[str, Any]:
    """Returns the kind of an operation's borders, if they are not black."""
    name = type(op).__name__
    fill = fill_of(f"fill of {name}", op.fill)
    mode = one_of(f"padding_mode of {name}", op.padding_mode, ("constant", "edge", "reflect", "symmetric"))
    return ({"fill": fill} if any(fill) else {}) | ({"padding_mode": mode} if mode != "constant" else {})
