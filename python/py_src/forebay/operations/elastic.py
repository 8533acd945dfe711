"""Elastic transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union

from .._arguments import by_name, real, reals
from ..fields import ImageOp
from ..fields.checks import Fill, fill_of, interpolation_of, listed

__all__ = ["ElasticTransform"]


def _pair(name: str, value: Any) -> list[float]:
    """Returns two numbers; one is for both directions."""
    if len(listed(value)) == 1:
        return [real(name, listed(value)[0])] * 2
    return reals(name, value, 2)


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

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "elastic_transform",
            "alpha": _pair("alpha of ElasticTransform", self.alpha),
            "sigma": _pair("sigma of ElasticTransform", self.sigma),
            "interpolation": interpolation_of("interpolation of ElasticTransform", self.interpolation),
            "fill": fill_of("fill of ElasticTransform", self.fill),
        }
