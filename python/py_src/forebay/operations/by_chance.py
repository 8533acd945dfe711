"""Operations that do one thing or nothing, by chance."""

from __future__ import annotations

from functools import partial

from .._arguments import frozen, whole
from ..fields import ImageOp

__all__ = [
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
    "RandomVerticalFlip",
]


@frozen
class RandomVerticalFlip(ImageOp):
    """Mirrors top and bottom with probability `p`."""

    p: float = 0.5


@frozen
class RandomGrayscale(ImageOp):
    """Replaces the colours by their luma with probability `p`. There are still three channels."""

    p: float = 0.1


@frozen
class RandomInvert(ImageOp):
    """Replaces every level by 255 minus it, with probability `p`."""

    p: float = 0.5


@frozen
class RandomPosterize(ImageOp):
    """Keeps the upper bits of every level.

    Args:
        bits: Bits that are kept, 0 to 8.
        p: The probability.
    """

    bits: int
    p: float = 0.5

    _CHECKS = {"bits": partial(whole, below=9)}


@frozen
class RandomSolarize(ImageOp):
    """Inverts the levels from a threshold on.

    Args:
        threshold: The lowest level that is inverted, 0 to 256.
        p: The probability.
    """

    threshold: float
    p: float = 0.5


@frozen
class RandomAutocontrast(ImageOp):
    """Stretches the levels of each channel to 0 to 255, with probability `p`."""

    p: float = 0.5


@frozen
class RandomEqualize(ImageOp):
    """Makes the levels of each channel equally frequent, with probability `p`."""

    p: float = 0.5


@frozen
class RandomAdjustSharpness(ImageOp):
    """Smooths or sharpens.

    Args:
        sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
        p: The probability.
    """

    sharpness_factor: float
    p: float = 0.5
