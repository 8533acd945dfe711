"""Checks of arguments that several operations of pictures have."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Union

from ..arguments import one_of, real, reals, shown, whole
from ..errors import ConfigError

__all__ = ["Fill", "Range", "angles", "fill_of", "interpolation_of", "listed", "range_of"]

Range = Union[float, Sequence[float]]
"""One number for a range about a middle, or (smallest, largest)."""

Fill = Union[int, Sequence[int], None]
"""Colour outside of the picture: one level, or (red, green, blue). None is black."""

_FILTERS = {0: "nearest", 2: "bilinear", 3: "bicubic", "nearest-exact": "nearest"}
"""Pillow's numbers of filters, and torchvision's other name of Pillow's nearest pixel."""


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
