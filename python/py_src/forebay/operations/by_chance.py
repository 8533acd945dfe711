"""Operations that do one thing or nothing, by chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .._arguments import by_name, whole
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


@by_name()
@dataclass(frozen=True)
class RandomVerticalFlip(ImageOp):
    """Mirrors top and bottom with probability `p`."""

    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomGrayscale(ImageOp):
    """Replaces the colours by their luma with probability `p`. There are still three channels."""

    p: float = 0.1


@by_name()
@dataclass(frozen=True)
class RandomInvert(ImageOp):
    """Replaces every level by 255 minus it, with probability `p`."""

    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomPosterize(ImageOp):
    """Keeps the upper bits of every level.

    Args:
        bits: Bits that are kept, 0 to 8.
        p: The probability.
    """

    bits: int
    p: float = 0.5

    _CHECKS = {"bits": partial(whole, below=9)}


@by_name()
@dataclass(frozen=True)
class RandomSolarize(ImageOp):
    """Inverts the levels from a threshold on.

    Args:
        threshold: The lowest level that is inverted, 0 to 256.
        p: The probability.
    """

    threshold: float
    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomAutocontrast(ImageOp):
    """Stretches the levels of each channel to 0 to 255, with probability `p`."""

    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomEqualize(ImageOp):
    """Makes the levels of each channel equally frequent, with probability `p`."""

    p: float = 0.5


@by_name()
@dataclass(frozen=True)
class RandomAdjustSharpness(ImageOp):
    """Smooths or sharpens.

    Args:
        sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
        p: The probability.
    """

    sharpness_factor: float
    p: float = 0.5
