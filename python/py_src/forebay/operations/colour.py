"""Jitter of colours, and blur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._arguments import U32, by_name, real, reals, whole
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import Range, is_one, range_of

__all__ = ["ColorJitter", "GaussianBlur", "RadiusBlur", "RandomChannelPermutation", "RandomPhotometricDistort"]


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

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"op": "color_jitter"}
        for name, middle, least in (("brightness", 1, 0), ("contrast", 1, 0), ("saturation", 1, 0), ("hue", 0, -float("inf"))):
            bounds = range_of(f"{name} of ColorJitter", getattr(self, name), middle, least)
            if bounds is not None:
                spec[name] = bounds
        return spec


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

    def _spec(self) -> dict[str, Any]:
        sides = list(self.kernel_size) if isinstance(self.kernel_size, Sequence) else [self.kernel_size]
        if len(sides) not in (1, 2):
            raise ConfigError(f"kernel_size of GaussianBlur is a number of pixels or (columns, rows), but it is {self.kernel_size!r}")
        sides = [whole("kernel_size of GaussianBlur", side, 1, U32) for side in sides] * (2 // len(sides))
        if is_one(self.sigma):
            sigma = [real("sigma of GaussianBlur", self.sigma)] * 2
        else:
            sigma = reals("sigma of GaussianBlur", self.sigma, 2)
        return {"op": "gaussian_blur", "kernel_size": sides, "sigma": sigma}


@by_name()
@dataclass(frozen=True)
class RadiusBlur(ImageOp):
    """Blurs as Pillow's `ImageFilter.GaussianBlur`, as DINO, MoCo v3 and BYOL do: `RandomApply([RadiusBlur((0.1, 2.0))], p=0.5)`.

    Args:
        radius: Standard deviation in pixels: one number, or uniform in (smallest, largest).
    """

    radius: Range = (0.1, 2.0)

    def _spec(self) -> dict[str, Any]:
        name = "radius of RadiusBlur"
        return {"op": "radius_blur", "radius": [real(name, self.radius)] * 2 if is_one(self.radius) else reals(name, self.radius, 2)}


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

    def _spec(self) -> dict[str, Any]:
        names = ("brightness", "contrast", "saturation", "hue")
        ranges = {name: reals(f"{name} of RandomPhotometricDistort", getattr(self, name), 2) for name in names}
        return {"op": "random_photometric_distort", **ranges, "p": real("p of RandomPhotometricDistort", self.p)}


@by_name()
@dataclass(frozen=True)
class RandomChannelPermutation(ImageOp):
    """Exchanges the channels, in a drawn order."""

    def _spec(self) -> dict[str, Any]:
        return {"op": "random_channel_permutation"}
