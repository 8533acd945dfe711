"""Elastic transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

from .._arguments import by_name
from ..fields import ImageOp
from ..fields.checks import Fill, interpolation_of, two_of

__all__ = ["ElasticTransform"]


@by_name()
@dataclass(frozen=True)
class ElasticTransform(ImageOp):
    """Moves each pixel by a smooth field of random displacements.

    Args:
        alpha: Strength of the displacements: one number, or (columns, rows).
        sigma: Smoothness of the displacements, pixels: one number, or (columns, rows). 0: they are not smoothed.
        interpolation: "nearest" or "bilinear".
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
    """

    alpha: Union[float, Sequence[float]] = 50.0
    sigma: Union[float, Sequence[float]] = 5.0
    interpolation: Literal["nearest", "bilinear"] = "bilinear"
    fill: Fill = 0

    _CHECKS = {"alpha": two_of, "sigma": two_of, "interpolation": interpolation_of}
