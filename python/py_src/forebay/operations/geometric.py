"""Operations that move pixels. In a `Joint` they move the mask as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._arguments import by_name, flag, real, reals
from .._choices import Interpolation
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import Fill, Range, angles, fill_of, interpolation_of, is_one

__all__ = ["RandomAffine", "RandomPerspective", "RandomRotation"]


def _sampling(op: Any) -> dict[str, Any]:
    name = type(op).__name__
    return {
        "interpolation": interpolation_of(f"interpolation of {name}", op.interpolation),
        "fill": fill_of(f"fill of {name}", op.fill),
    }


def _center(op: Any) -> dict[str, Any]:
    return {} if op.center is None else {"center": reals(f"center of {type(op).__name__}", op.center, 2)}


@by_name()
@dataclass(frozen=True)
class RandomRotation(ImageOp):
    """Rotates by a drawn angle.

    Args:
        degrees: The angle is uniform in -`degrees` to `degrees`, or in (smallest, largest); counter-clockwise.
        interpolation: "nearest", "bilinear" or "bicubic". Masks always have "nearest".
        expand: Make the picture as large as needed to hold all of its pixels. The pictures of a batch then have different
            sizes, unless a crop or a resize follows.
        center: Column and row of the point that stays. None: the middle.
        fill: Grey level or (red, green, blue) outside of the picture; 0 is black. A mask may have a different one.
    """

    degrees: Range
    interpolation: Interpolation = "nearest"
    expand: bool = False
    center: Sequence[float] | None = None
    fill: Fill = 0

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_rotation",
            "degrees": angles("degrees of RandomRotation", self.degrees),
            "expand": flag("expand of RandomRotation", self.expand),
            **_center(self),
            **_sampling(self),
        }


@by_name()
@dataclass(frozen=True)
class RandomAffine(ImageOp):
    """Rotates, moves, scales and shears.

    Args:
        degrees: The angle is uniform in -`degrees` to `degrees`, or in (smallest, largest); clockwise.
        translate: Largest move to either side: fractions of the width and of the height. None: no move.
        scale: Smallest and largest factor. None: 1.
        shear: Degrees: one number for -`shear` to `shear` along columns, (smallest, largest), or four numbers, the last two
            along rows. None: no shear.
        interpolation: "nearest", "bilinear" or "bicubic". Masks always have "nearest".
        fill: Grey level or (red, green, blue) outside of the picture; 0 is black. A mask may have a different one.
        center: Column and row of the point about which it rotates. None: the middle.
    """

    degrees: Range
    translate: Sequence[float] | None = None
    scale: Sequence[float] | None = None
    shear: Range | None = None
    interpolation: Interpolation = "nearest"
    fill: Fill = 0
    center: Sequence[float] | None = None

    def _spec(self) -> dict[str, Any]:
        spec = {"op": "random_affine", "degrees": angles("degrees of RandomAffine", self.degrees)}
        for name in ("translate", "scale"):
            value = getattr(self, name)
            if value is not None:
                spec[name] = reals(f"{name} of RandomAffine", value, 2)
        if self.shear is not None:
            spec["shear"] = self._shear()
        return {**spec, **_center(self), **_sampling(self)}

    def _shear(self) -> list[float]:
        name, shear = "shear of RandomAffine", self.shear
        if is_one(shear) or (isinstance(shear, Sequence) and len(shear) == 2):
            return [*angles(name, shear), 0.0, 0.0]
        if not isinstance(shear, Sequence) or len(shear) != 4:
            raise ConfigError(f"{name} is one number, or two or four numbers of degrees, but it is {shear!r}")
        return reals(name, shear, 4)


@by_name()
@dataclass(frozen=True)
class RandomPerspective(ImageOp):
    """Moves the corners towards the middle.

    Args:
        distortion_scale: Largest move, as a fraction of half the side: 0 to 1.
        p: The probability.
        interpolation: "nearest", "bilinear" or "bicubic". Masks always have "nearest".
        fill: Grey level or (red, green, blue) outside of the picture; 0 is black. A mask may have a different one.
    """

    distortion_scale: float = 0.5
    p: float = 0.5
    interpolation: Interpolation = "bilinear"
    fill: Fill = 0

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_perspective",
            "distortion_scale": real("distortion_scale of RandomPerspective", self.distortion_scale),
            "p": real("p of RandomPerspective", self.p),
            **_sampling(self),
        }
