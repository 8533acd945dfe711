"""Random erasing, of the finished row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from ..arguments import by_name, real, reals
from ..fields import ImageOp
from ..fields.checks import listed

__all__ = ["RandomErasing"]


@by_name()
@dataclass(frozen=True)
class RandomErasing(ImageOp):
    """Replaces a random box of the row, after all other operations: the box of torchvision's distribution.

    Args:
        p: The probability.
        scale: Bounds of the box's share of the picture's area.
        ratio: Bounds of its height divided by its width, drawn on a logarithmic scale.
        value: One number, or one per channel, in the units of the row: after `Normalize` 0 is the mean, and integers are levels. "random" is normally
            distributed noise per pixel and channel.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float], str] = 0.0

    def _spec(self) -> dict[str, Any]:
        value = None
        if not isinstance(self.value, str) or self.value != "random":
            name, values = "value of RandomErasing", listed(self.value)
            value = [real(name, values[0])] * 3 if len(values) == 1 else reals(name, values or self.value, 3)
        return {
            "op": "random_erasing",
            "p": real("p of RandomErasing", self.p),
            "scale": reals("scale of RandomErasing", self.scale, 2),
            "ratio": reals("ratio of RandomErasing", self.ratio, 2),
            "value": value,
        }
