"""Changes of hue, saturation and value in OpenCV's HSV of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._arguments import by_name
from ..fields import ImageOp
from ..fields.checks import Range, range_of

__all__ = ["HueSaturationValue", "RandomHSV"]


def _limits(name: str, value: Any) -> list[float]:
    return range_of(name, value) or [0.0, 0.0]


@by_name()
@dataclass(frozen=True)
class RandomHSV(ImageOp):
    """Turns the hue and multiplies saturation and value, as YOLO's recipe of ultralytics does.

    Args:
        hgain: Largest turn of the hue, as a share of the circle.
        sgain: The saturation's factor is uniform in 1 - `sgain` to 1 + `sgain`.
        vgain: The value's factor, likewise.
    """

    hgain: float = 0.015
    sgain: float = 0.7
    vgain: float = 0.4


@by_name()
@dataclass(frozen=True)
class HueSaturationValue(ImageOp):
    """Adds to hue, saturation and value, as albumentations does.

    Args:
        hue_shift_limit: A hue has two degrees: uniform in -`hue_shift_limit` to `hue_shift_limit`, or in (smallest, largest).
        sat_shift_limit: Likewise, for saturations from 0 to 255.
        val_shift_limit: Likewise, for values from 0 to 255.
        p: The probability.
    """

    hue_shift_limit: Range = 20
    sat_shift_limit: Range = 30
    val_shift_limit: Range = 20
    p: float = 0.5

    _CHECKS = dict.fromkeys(("hue_shift_limit", "sat_shift_limit", "val_shift_limit"), _limits)
