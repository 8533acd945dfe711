"""Random erasing, of the finished row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._arguments import U32, by_name, real, reals, whole
from ..fields import ImageOp
from ..fields.checks import listed

__all__ = ["RandomErasing"]


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
        count: Largest number of boxes; a number from 1 to `count` is drawn. Each has its part of the area.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float], str] = 0.0
    count: int = 1

    def _spec(self) -> dict[str, Any]:
        value = None
        is_noise = isinstance(self.value, str) and self.value in ("random", "random_colour")
        if not is_noise:
            name, values = "value of RandomErasing", listed(self.value)
            value = [real(name, values[0])] * 3 if len(values) == 1 else reals(name, values or self.value, 3)
        return {
            "op": "random_erasing",
            "p": real("p of RandomErasing", self.p),
            "scale": reals("scale of RandomErasing", self.scale, 2),
            "ratio": reals("ratio of RandomErasing", self.ratio, 2),
            "value": value,
            **({"is_noise_of_box": True} if is_noise and self.value == "random_colour" else {}),
            **({"count": whole("count of RandomErasing", self.count, 1, U32)} if self.count != 1 else {}),
        }
