"""Operations that cut, resize and mirror a picture, and `Normalize`: the decoder's own operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Union

from .._arguments import U32, none_or, reals, whole
from .._choices import Interpolation, PaddingMode
from ..errors import ConfigError
from .base import ImageOp
from .checks import Fill, Size, filled, filters_of, pair_of, with_alternative

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "CenterCrop",
    "FiveCrop",
    "Grayscale",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResize",
    "RandomResizedCrop",
    "Resize",
    "TenCrop",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue, for pixels in 0..1."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's red, green and blue, for pixels in 0..1."""

_borders = partial(
    filled,
    lengths=(1, 2, 4),
    expected="a number of pixels, (left and right, top and bottom) or (left, top, right, bottom)",
    check=partial(whole, below=U32),
)
"""Check of (left, top, right, bottom) of borders."""


def _side_or_pair(name: str, value: Size) -> int | list[int]:
    pair = pair_of(name, value)
    return pair if isinstance(value, Sequence) else pair[0]


class RandomResizedCrop(ImageOp):
    """Cuts a random rectangle and resizes it to `size`, with torchvision's distribution, as in `RandomResizedCrop(224)`.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        scale: Bounds of the rectangle's share of the image's area.
        ratio: Bounds of its width divided by its height, drawn on a logarithmic scale.
        interpolation: "bilinear", "bicubic" or "nearest", see `Resize`; or two of them, and one is drawn for each picture.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)
    interpolation: Union[Interpolation, tuple[Interpolation, Interpolation]] = "bilinear"

    _CHECKS = {"interpolation": filters_of}

    def _spec(self) -> dict[str, Any]:
        return with_alternative(super()._spec())


class RandomCrop(ImageOp):
    """Adds borders, and cuts `size` pixels at a random position, without a resize, as in `RandomCrop(32, padding=4)`.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        padding: Pixels of the borders: one number, (left and right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: Pad a picture that is smaller than `size`, on both sides by the missing pixels. By default such a picture
            is a `DecodeError`.
        fill: Grey level or (red, green, blue) of constant borders; 0 is black. A mask may have a different one.
        padding_mode: Kind of the borders, see `Pad`.
    """

    size: Size
    padding: Union[int, Sequence[int]] = 0
    pad_if_needed: bool = False
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"

    _CHECKS = {"padding": _borders}


class Pad(ImageOp):
    """Adds borders.

    Args:
        padding: Pixels: one number, (left and right, top and bottom), or (left, top, right, bottom).
        fill: Grey level or (red, green, blue) of constant borders; 0 is black. A mask may have a different one.
        padding_mode: "constant"; "edge" repeats the outermost pixels; "reflect" mirrors the picture at its outermost pixels, which
            are not repeated; "symmetric" mirrors it at its border. Pictures with borders that are not black are not decoded by
            a CUDA device.
    """

    padding: Union[int, Sequence[int]]
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"

    _CHECKS = {"padding": _borders}


class Grayscale(ImageOp):
    """Makes the three channels equal: the luma that Pillow's mode L has."""


class RandomHorizontalFlip(ImageOp):
    """Mirrors left and right with probability `p`."""

    p: float = 0.5


class Resize(ImageOp):
    """Resizes as Pillow does, with antialiasing: `Resize(256)` by the shorter side, and `Resize((224, 224))` to one size.

    Args:
        size: One number is the shorter side, and the longer one keeps the aspect ratio; (height, width) sets both. None: the
            longer side becomes `max_size`.
        interpolation: "bilinear", "bicubic" or "nearest". Pixels are Pillow's; pixels of "bilinear" may differ by one grey level.
            Masks always have "nearest". Only pictures with the filter "bilinear" are decoded by a CUDA device.
        max_size: Upper bound of the longer side, above `size`: where it would be longer, the shorter side becomes less than
            `size`.
    """

    size: Size | None
    interpolation: Interpolation = "bilinear"
    max_size: int | None = None

    _CHECKS = {"size": partial(none_or, _side_or_pair)}


class RandomResize(ImageOp):
    """Resizes so that the shorter side has a drawn length, and the longer one keeps the aspect ratio.

    The pictures of a batch then have different sizes, unless a crop or a resize follows.

    Args:
        min_size: Smallest length of the shorter side, pixels.
        max_size: Exclusive upper bound of that length.
        interpolation: "bilinear", "bicubic" or "nearest", see `Resize`.
    """

    min_size: int
    max_size: int
    interpolation: Interpolation = "bilinear"


class CenterCrop(ImageOp):
    """Cuts `size` pixels, one number or (height, width), from the centre."""

    size: Size


class FiveCrop(ImageOp):
    """Cuts `size` pixels, one number or (height, width), from the corners and from the centre: five pictures of each sample.

    They are views of the `Image`, (N, 5, C, H, W), in torchvision's order: top left, top right, bottom left, bottom right, centre. The
    other operations have the same random draws for all of them. A smaller picture is a `DecodeError`. An `Image` has one `FiveCrop` or
    `TenCrop` at most, and no `views`.

    Example: pictures of a test, with predictions averaged over the crops::

        image = Image("jpg", Resize(256), FiveCrop(224), Normalize(IMAGENET_MEAN, IMAGENET_STD))
        # x is a batch of it: model(x.flatten(0, 1)).unflatten(0, x.shape[:2]).mean(1)
    """

    size: Size


class TenCrop(ImageOp):
    """Makes the crops of `FiveCrop`, of `size` pixels, and then the same crops of the mirrored picture.

    They are views of the `Image`: (N, 10, C, H, W).
    """

    size: Size


class Normalize(ImageOp):
    """Maps every pixel to `(pixel / 255 - mean) / std`, channel by channel, as in `Normalize(IMAGENET_MEAN, IMAGENET_STD)`.

    The result is "float32", or the floating-point type that `Image` names as its `dtype`.

    Args:
        mean: One number per channel, for pixels in 0..1: three, or one for an `Image` of mode "L" and four for "RGBA".
        std: One number per channel, for pixels in 0..1.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def _spec(self) -> dict[str, Any]:
        try:
            channels = len(self.mean)
        except TypeError:
            channels = 3
        if channels > 4:
            raise ConfigError(
                f"mean of Normalize has {channels} numbers, and the pictures of an Image have at most four channels: files of pictures have no more. "
                'Read arrays of more channels with Array("column", dtype="float32"), and normalize the batch on its device, as in '
                "(x - mean) / std"
            )
        channels = channels if channels in (1, 4) else 3
        mean, std = reals("mean of Normalize", self.mean, channels), reals("std of Normalize", self.std, channels)
        return {"op": "normalize", "mean": mean, "std": std}
