"""Operations that do one thing or nothing, by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._arguments import by_name, real, whole
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


def _chance(op: Any, name: str) -> dict[str, Any]:
    return {"op": name, "p": real(f"p of {type(op).__name__}", op.p)}


@by_name()
@dataclass(frozen=True)
class RandomVerticalFlip(ImageOp):
    """Mirrors top and bottom with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_vertical_flip")


@by_name()
@dataclass(frozen=True)
class RandomGrayscale(ImageOp):
    """Replaces the colours by their luma with probability `p`. There are still three channels."""

    p: float = 0.1

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_grayscale")


@by_name()
@dataclass(frozen=True)
class RandomInvert(ImageOp):
    """Replaces every level by 255 minus it, with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_invert")


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

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_posterize") | {"bits": whole("bits of RandomPosterize", self.bits, 0, 9)}


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

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_solarize") | {"threshold": real("threshold of RandomSolarize", self.threshold)}


@by_name()
@dataclass(frozen=True)
class RandomAutocontrast(ImageOp):
    """Stretches the levels of each channel to 0 to 255, with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_autocontrast")


@by_name()
@dataclass(frozen=True)
class RandomEqualize(ImageOp):
    """Makes the levels of each channel equally frequent, with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return _chance(self, "random_equalize")


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

    def _spec(self) -> dict[str, Any]:
        factor = real("sharpness_factor of RandomAdjustSharpness", self.sharpness_factor)
        return _chance(self, "random_adjust_sharpness") | {"sharpness_factor": factor}
