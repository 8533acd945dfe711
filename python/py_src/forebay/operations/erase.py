"""Random erasing, of the finished row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Union

from .._arguments import by_name, real, reals
from ..fields import ImageOp
from ..fields.checks import BY_ANNOTATION, listed, unless

__all__ = ["RandomErasing"]


def _value(name: str, value: Any) -> list[float] | None:
    """Returns a number for each channel; None for noise."""
    if isinstance(value, str) and value in ("random", "random_colour"):
        return None
    values = listed(value)
    return [real(name, values[0])] * 3 if len(values) == 1 else reals(name, values or value, 3)


@by_name()
@dataclass(frozen=True)
class RandomErasing(ImageOp):
    """Replaces a random box of the row, after the rest of the operations: the box of torchvision's distribution.

    Args:
        p: The probability.
        scale: Bounds of the box's share of the picture's area.
        ratio: Bounds of its height divided by its width, drawn on a logarithmic scale.
        value: One number, or one per channel, in the units of the row: after `Normalize` 0 is the mean, and integers are levels. "random" is normally
            distributed noise per pixel and channel, and "random_colour" is one such number per channel of a box.
        count: Largest number of boxes; a number from `min_count` to `count` is drawn. Each has its part of the area.
        min_count: Smallest number of boxes.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float], str] = 0.0
    count: int = 1
    min_count: int = 1

    _CHECKS = {"value": _value} | dict.fromkeys(("count", "min_count"), partial(unless, 1, BY_ANNOTATION["int"]))

    def _spec(self) -> dict[str, Any]:
        is_of_box = isinstance(self.value, str) and self.value == "random_colour"
        return {"value": None} | super()._spec() | ({"is_noise_of_box": True} if is_of_box else {})
