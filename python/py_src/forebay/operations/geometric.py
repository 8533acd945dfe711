"""Operations that move pixels. In a `Joint` they move the mask as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Union

from .._arguments import none_or, reals
from .._choices import Interpolation
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import Fill, Range, angles, interpolation_of, is_one, two_of

__all__ = ["ElasticTransform", "RandomAffine", "RandomPerspective", "RandomRotation"]


def _shear(name: str, value: Any) -> list[float]:
    if is_one(value) or (isinstance(value, Sequence) and len(value) == 2):
        return [*angles(name, value), 0.0, 0.0]
    if not isinstance(value, Sequence) or len(value) != 4:
        raise ConfigError(f"{name} is one number, or two or four numbers of degrees, but it is {value!r}")
    return reals(name, value, 4)


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

    _CHECKS = {"degrees": angles}


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

    _CHECKS = {"degrees": angles, "shear": partial(none_or, _shear)}


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
