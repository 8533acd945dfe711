"""Jitter of colours, and blur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Union

from .._arguments import U32, by_name, whole
from ..fields import ImageOp
from ..fields.checks import Range, filled, range_of, two_of

__all__ = ["ColorJitter", "GaussianBlur", "RadiusBlur", "RandomChannelPermutation", "RandomPhotometricDistort"]

_sides = partial(filled, lengths=(1, 2), expected="a number of pixels or (columns, rows)", check=partial(whole, least=1, below=U32))


@by_name()
@dataclass(frozen=True)
class ColorJitter(ImageOp):
    """Changes brightness, contrast, saturation and hue, in a drawn order.

    Args:
        brightness: The factor is uniform in 1 - `brightness` to 1 + `brightness`, at least 0, or in (smallest, largest).
        contrast: Likewise.
        saturation: Likewise.
        hue: Turns of the hue: uniform in -`hue` to `hue`, at most 0.5, or in (smallest, largest).
    """

    brightness: Range | None = None
    contrast: Range | None = None
    saturation: Range | None = None
    hue: Range | None = None

    _CHECKS = dict.fromkeys(("brightness", "contrast", "saturation"), partial(range_of, middle=1, least=0)) | {"hue": range_of}


@by_name()
@dataclass(frozen=True)
class GaussianBlur(ImageOp):
    """Convolves with a Gaussian kernel.

    Args:
        kernel_size: Odd number of pixels, or (columns, rows).
        sigma: Standard deviation in pixels: one number, or uniform in (smallest, largest).
    """

    kernel_size: Union[int, Sequence[int]]
    sigma: Range = (0.1, 2.0)

    _CHECKS = {"kernel_size": _sides, "sigma": two_of}


@by_name()
@dataclass(frozen=True)
class RadiusBlur(ImageOp):
    """Blurs as Pillow's `ImageFilter.GaussianBlur`, as DINO, MoCo v3 and BYOL do: `RandomApply([RadiusBlur((0.1, 2.0))], p=0.5)`.

    Args:
        radius: Standard deviation in pixels: one number, or uniform in (smallest, largest).
    """

    radius: Range = (0.1, 2.0)

    _CHECKS = {"radius": two_of}


@by_name()
@dataclass(frozen=True)
class RandomPhotometricDistort(ImageOp):
    """Changes brightness, contrast, saturation and hue, and exchanges the channels, each with probability `p`.

    Args:
        brightness: (smallest, largest) factor.
        contrast: Likewise.
        saturation: Likewise.
        hue: (smallest, largest) turn of the hue, from -0.5 to 0.5.
        p: Probability of each change.
    """

    brightness: Sequence[float] = (0.875, 1.125)
    contrast: Sequence[float] = (0.5, 1.5)
    saturation: Sequence[float] = (0.5, 1.5)
    hue: Sequence[float] = (-0.05, 0.05)
    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomChannelPermutation(ImageOp):
    """Exchanges the channels, in a drawn order."""
