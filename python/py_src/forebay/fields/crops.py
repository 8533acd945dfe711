"""Operations that cut, resize and mirror a picture, and `Normalize`: those of the decoder itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from ..arguments import U32, by_name, flag, real, reals, whole
from ..errors import ConfigError
from .base import ImageOp

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CenterCrop",
    "Grayscale",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue, for pixels in 0..1."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's red, green and blue, for pixels in 0..1."""

Size = Union[int, Sequence[int]]
"""Pixels: one number for a square, or (height, width)."""


def _pair(op: str, size: Size) -> list[int]:
    """Returns (height, width) of an operation's size."""
    pair = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size, size]
    if len(pair) != 2:
        raise ConfigError(f"size of {op} is a whole number of pixels or (height, width), but it is {size!r}")
    return [whole(f"size of {op}", side, 1, U32) for side in pair]


def _borders(op: str, padding: Union[int, Sequence[int]]) -> list[int]:
    """Returns (left, top, right, bottom) of an operation's padding."""
    sides = list(padding) if isinstance(padding, Sequence) and not isinstance(padding, str) else [padding]
    if len(sides) not in (1, 2, 4):
        raise ConfigError(
            f"padding of {op} is a number of pixels, (left and right, top and bottom) or (left, top, right, bottom), but it is "
            f"{padding!r}"
        )
    return [whole(f"padding of {op}", side, 0, U32) for side in sides] * (4 // len(sides))


@by_name()
@dataclass(frozen=True)
class RandomResizedCrop(ImageOp):
    """Cuts a random rectangle and resizes it to `size`, with torchvision's distribution.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        scale: Bounds of the rectangle's share of the image's area.
        ratio: Bounds of its width divided by its height, drawn on a logarithmic scale.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_resized_crop",
            "size": _pair("RandomResizedCrop", self.size),
            "scale": reals("scale of RandomResizedCrop", self.scale, 2),
            "ratio": reals("ratio of RandomResizedCrop", self.ratio, 2),
        }


@by_name()
@dataclass(frozen=True)
class RandomCrop(ImageOp):
    """Adds black borders, and cuts `size` pixels at a random place, without a resize.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        padding: Pixels of the borders: one number, (left and right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: Pad a picture that is smaller than `size`, on both sides by what it lacks. By default such a picture
            is a `DecodeError`.
    """

    size: Size
    padding: Union[int, Sequence[int]] = 0
    pad_if_needed: bool = False

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_crop",
            "size": _pair("RandomCrop", self.size),
            "padding": _borders("RandomCrop", self.padding),
            "pad_if_needed": flag("pad_if_needed of RandomCrop", self.pad_if_needed),
        }


@by_name()
@dataclass(frozen=True)
class Pad(ImageOp):
    """Adds black borders.

    Args:
        padding: Pixels: one number, (left and right, top and bottom), or (left, top, right, bottom).
    """

    padding: Union[int, Sequence[int]]

    def _spec(self) -> dict[str, Any]:
        return {"op": "pad", "padding": _borders("Pad", self.padding)}


@by_name()
@dataclass(frozen=True)
class Grayscale(ImageOp):
    """Makes the three channels equal: the luma that Pillow's mode L has."""

    def _spec(self) -> dict[str, Any]:
        return {"op": "grayscale"}


@by_name()
@dataclass(frozen=True)
class RandomHorizontalFlip(ImageOp):
    """Mirrors left and right with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return {"op": "random_horizontal_flip", "p": real("p of RandomHorizontalFlip", self.p)}


@by_name()
@dataclass(frozen=True)
class Resize(ImageOp):
    """Resizes with antialiased bilinear interpolation, as Pillow does.

    Args:
        size: One number is the shorter side, and the longer one keeps the aspect ratio; (height, width) sets both.
    """

    size: Size

    def _spec(self) -> dict[str, Any]:
        pair = _pair("Resize", self.size)
        return {"op": "resize", "size": pair if isinstance(self.size, Sequence) else pair[0]}


@by_name()
@dataclass(frozen=True)
class CenterCrop(ImageOp):
    """Cuts `size` pixels, one number or (height, width), from the centre."""

    size: Size

    def _spec(self) -> dict[str, Any]:
        return {"op": "center_crop", "size": _pair("CenterCrop", self.size)}


@by_name()
@dataclass(frozen=True)
class Normalize(ImageOp):
    """Maps every pixel to `(pixel / 255 - mean) / std`, channel by channel.

    The result is "float32", or the floating-point type that `Image` names as its `dtype`.

    Args:
        mean: One number per channel, for pixels in 0..1.
        std: One number per channel, for pixels in 0..1.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def _spec(self) -> dict[str, Any]:
        mean, std = reals("mean of Normalize", self.mean, 3), reals("std of Normalize", self.std, 3)
        return {"op": "normalize", "mean": mean, "std": std}
