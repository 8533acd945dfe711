"""Operations that keep the sizes of a picture and of its boxes: colours, levels, blur, noise, compression, and a flip."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Union

from .._arguments import U32, whole
from ..fields import ImageOp
from ..fields.checks import Range, filled, range_of, two_of

__all__ = [
    "JPEG",
    "ColorJitter",
    "GaussianBlur",
    "GaussianNoise",
    "HueSaturationValue",
    "RadiusBlur",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomHSV",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomSolarize",
    "RandomVerticalFlip",
]

_sides = partial(filled, lengths=(1, 2), expected="a number of pixels or (columns, rows)", check=partial(whole, least=1, below=U32))


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


class GaussianBlur(ImageOp):
    """Convolves with a Gaussian kernel.

    Args:
        kernel_size: Odd number of pixels, or (columns, rows).
        sigma: Standard deviation in pixels: one number, or uniform in (smallest, largest).
    """

    kernel_size: Union[int, Sequence[int]]
    sigma: Range = (0.1, 2.0)

    _CHECKS = {"kernel_size": _sides, "sigma": two_of}


class RadiusBlur(ImageOp):
    """Blurs as Pillow's `ImageFilter.GaussianBlur`, as DINO, MoCo v3 and BYOL do: `RandomApply([RadiusBlur((0.1, 2.0))], p=0.5)`.

    Args:
        radius: Standard deviation in pixels: one number, or uniform in (smallest, largest).
    """

    radius: Range = (0.1, 2.0)

    _CHECKS = {"radius": two_of}


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


class RandomChannelPermutation(ImageOp):
    """Exchanges the channels, in a drawn order."""


def _limits(name: str, value: Any) -> list[float]:
    return range_of(name, value) or [0.0, 0.0]


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


_qualities = partial(filled, lengths=(1, 2), expected="a number from 1 to 100, or (smallest, largest)", check=partial(whole, least=1, below=101))


class GaussianNoise(ImageOp):
    """Adds normally distributed noise to every level, as torchvision does to levels from 0 to 255.

    Args:
        mean: Mean of the noise, for levels from 0 to 1.
        sigma: Standard deviation of the noise, for levels from 0 to 1.
        clip: Levels out of range become the nearest one. Otherwise they wrap around.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True


class JPEG(ImageOp):
    """Compresses to a JPEG and back, as Pillow does.

    Args:
        quality: From 1 to 100: one number, or (smallest, largest), each number between them is as probable.
    """

    quality: Union[int, Sequence[int]]

    _CHECKS = {"quality": _qualities}


class RandomVerticalFlip(ImageOp):
    """Mirrors top and bottom with probability `p`."""

    p: float = 0.5


class RandomGrayscale(ImageOp):
    """Replaces the colours by their luma with probability `p`. There are still three channels."""

    p: float = 0.1


class RandomInvert(ImageOp):
    """Replaces every level by 255 minus it, with probability `p`."""

    p: float = 0.5


class RandomPosterize(ImageOp):
    """Keeps the upper bits of every level.

    Args:
        bits: Bits that are kept, 0 to 8.
        p: The probability.
    """

    bits: int
    p: float = 0.5

    _CHECKS = {"bits": partial(whole, below=9)}


class RandomSolarize(ImageOp):
    """Inverts the levels from a threshold on.

    Args:
        threshold: The lowest level that is inverted, 0 to 256.
        p: The probability.
    """

    threshold: float
    p: float = 0.5


class RandomAutocontrast(ImageOp):
    """Stretches the levels of each channel to 0 to 255, with probability `p`."""

    p: float = 0.5


class RandomEqualize(ImageOp):
    """Makes the levels of each channel equally frequent, with probability `p`."""

    p: float = 0.5


class RandomAdjustSharpness(ImageOp):
    """Smooths or sharpens.

    Args:
        sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens.
        p: The probability.
    """

    sharpness_factor: float
    p: float = 0.5
