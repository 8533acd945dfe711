"""Checks of arguments that several operations have."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Union

from ..arguments import one_of, real, reals, shown, whole
from ..errors import ConfigError

__all__ = ["Fill", "Range", "angles", "fill_of", "interpolation_of", "range_of"]

Range = Union[float, Sequence[float]]
"""One number for a range about a middle, or (smallest, largest)."""

Fill = Union[int, Sequence[int], None]
"""Colour outside of the picture: one level, or (red, green, blue). None is black."""

_BY_NUMBER = {0: "nearest", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of filters."""


def is_one(value: Any) -> bool:
    """Returns True for one number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


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
    levels = [0] if value is None else [value] if is_one(value) else value
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Sequence) or len(levels) not in (1, 3):
        raise ConfigError(f"{name} is a grey level or (red, green, blue), but it is {shown(value)}")
    # torchvision's levels may be floats, and it drops their fraction.
    return [whole(name, int(level) if isinstance(level, float) else level, 0, 256) for level in levels] * (3 // len(levels))


def interpolation_of(name: str, value: Any) -> str:
    """Returns the name of a filter, which may be torchvision's or Pillow's."""
    if not isinstance(value, str):
        named = getattr(value, "value", value)  # Members of torchvision's and Pillow's enumerations.
        value = _BY_NUMBER.get(named, value) if isinstance(named, int) else named
    return one_of(name, value, ("nearest", "bilinear", "bicubic"))
