"""Operations that resize a picture, or keep a part of it with borders, by numbers that are drawn or that depend on its size."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Union

from .._arguments import U32, none_or, one_of, reals, whole
from .._choices import Interpolation, PaddingMode
from ..fields import ImageOp
from ..fields.checks import Fill, Size, filters_of, listed, pair_of, with_alternative

__all__ = [
    "CenterCropOrPad",
    "FixedSizeCrop",
    "PadIfSmaller",
    "RandomCropOrPad",
    "RandomIoUCrop",
    "RandomShortestSize",
    "RandomZoomOut",
    "ResizeKeepRatio",
    "ScaleJitter",
    "TrimBorder",
]


def _options(name: str, value: Any) -> list[float]:
    options = listed(value)
    return reals(name, options or value, len(options))


def _lengths(name: str, value: Any) -> list[int]:
    return [whole(name, length, 1, U32) for length in (value if isinstance(value, Sequence) else [value])]


class RandomZoomOut(ImageOp):
    """Puts the picture at a random position in a larger one of one colour, as SSD's recipe does.

    Args:
        fill: Grey level or (red, green, blue) outside of the picture. A mask may have a different one.
        side_range: Bounds of the result's sides divided by the picture's, from 1.
        p: The probability.
    """

    fill: Fill = 0
    side_range: Sequence[float] = (1.0, 4.0)
    p: float = 0.5


class RandomIoUCrop(ImageOp):
    """Cuts a random part that overlaps with an object, or nothing, as SSD's recipe does: in a `Joint` with `Boxes`.

    It draws by the first `Boxes` of the `Joint`. A box with its middle outside of the part has no area: `min_size` of
    `Boxes` leaves it out.

    Args:
        min_scale: Smallest side of the part divided by the picture's.
        max_scale: Largest side of the part divided by the picture's.
        min_aspect_ratio: Smallest width divided by the height.
        max_aspect_ratio: Largest width divided by the height.
        sampler_options: Numbers from which one is drawn: the overlap that one box has with the part at least, as a share of their
            union. 1 or more: the picture stays as it is. None: 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1.
        trials: Parts that are drawn before a new number is.
    """

    min_scale: float = 0.3
    max_scale: float = 1.0
    min_aspect_ratio: float = 0.5
    max_aspect_ratio: float = 2.0
    sampler_options: Sequence[float] | None = None
    trials: int = 40

    _CHECKS = {"sampler_options": partial(none_or, _options)}
    _NAME = "random_iou_crop"


class ScaleJitter(ImageOp):
    """Resizes to fit into a frame, times a drawn factor: large-scale jitter, with `FixedSizeCrop` after it.

    Args:
        target_size: Sides of the frame. As in torchvision, the first is compared with the picture's width and the second with
            its height.
        scale_range: Bounds of the factor.
        interpolation: "bilinear", "bicubic" or "nearest", see `Resize`.
    """

    target_size: Sequence[int]
    scale_range: Sequence[float] = (0.1, 2.0)
    interpolation: Interpolation = "bilinear"

    _CHECKS = {"target_size": pair_of}


class RandomShortestSize(ImageOp):
    """Resizes the shorter side to a drawn length, and to less where the longer one would be too long: multi-scale training.

    Args:
        min_size: Lengths of the shorter side, from which one is drawn, or one number.
        max_size: Upper bound of the longer side. None: none.
        interpolation: "bilinear", "bicubic" or "nearest", see `Resize`.
    """

    min_size: Union[int, Sequence[int]]
    max_size: int | None = None
    interpolation: Interpolation = "bilinear"

    _CHECKS = {"min_size": _lengths}


class FixedSizeCrop(ImageOp):
    """Cuts `size` pixels at a random position, and adds borders right and below where the picture is smaller, as the class of this
    name in torchvision's reference scripts.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        fill: Grey level or (red, green, blue) of the borders. A mask may have a different one.
    """

    size: Size
    fill: Fill = 0


class PadIfSmaller(ImageOp):
    """Adds borders where the picture is smaller, as the class of this name in torchvision's reference scripts, right and below.

    Args:
        size: Pixels that both sides have at least: one number, or (height, width).
        fill: Grey level or (red, green, blue) of the borders. A mask may have a different one, such as 255.
        position: Position of the picture: "top_left", or "center", as in the `PadIfNeeded` of albumentations.
    """

    size: Size
    fill: Fill = 0
    position: Literal["top_left", "center"] = "top_left"

    _CHECKS = {"position": partial(one_of, choices=("top_left", "center"))}


class CenterCropOrPad(ImageOp):
    """Cuts `size` pixels from the centre, with borders of a colour around a smaller picture, as timm's class of this name.

    Example: a letterbox, `Resize(None, max_size=640), CenterCropOrPad(640, fill=114)`.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        fill: Grey level or (red, green, blue) of constant borders. A mask may have a different one.
        padding_mode: Kind of the borders, see `Pad`.
    """

    size: Size
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"


class RandomCropOrPad(ImageOp):
    """Cuts `size` pixels at random, with borders of a drawn width around a smaller picture, as timm's class of this name.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        fill: Grey level or (red, green, blue) of constant borders. A mask may have a different one.
        padding_mode: Kind of the borders, see `Pad`.
    """

    size: Size
    fill: Fill = 0
    padding_mode: PaddingMode = "constant"


class TrimBorder(ImageOp):
    """Cuts off the outermost pixels of each side, as timm's class of this name. A picture is a `DecodeError` if nothing of it is left.

    Args:
        border_size: Pixels of each side.
    """

    border_size: int

    _CHECKS = {"border_size": partial(whole, least=0, below=U32)}


class ResizeKeepRatio(ImageOp):
    """Resizes to fit a frame, by chance with a changed scale or ratio of the sides, as timm's class of this name.

    Args:
        size: Pixels of the frame: one number for a square, or (height, width).
        longest: 0: the picture covers the frame; 1: it is inside of the frame; between, its scale is between those.
        interpolation: "bilinear", "bicubic" or "nearest", see `Resize`; or two of them, and one is drawn for each picture.
        random_scale_prob: Probability of a changed scale.
        random_scale_range: Bounds of the factor of the scale.
        random_scale_area: The factor is the share of an area that is shown, so smaller ones enlarge the picture.
        random_aspect_prob: Probability of a changed ratio.
        random_aspect_range: Bounds of the factor of the ratio, drawn on a logarithmic scale.
    """

    size: Size
    longest: float = 0.0
    interpolation: Union[Interpolation, tuple[Interpolation, Interpolation]] = "bilinear"
    random_scale_prob: float = 0.0
    random_scale_range: Sequence[float] = (0.85, 1.05)
    random_scale_area: bool = False
    random_aspect_prob: float = 0.0
    random_aspect_range: Sequence[float] = (0.9, 1.11)

    _CHECKS = {"interpolation": filters_of}

    def _spec(self) -> dict[str, Any]:
        return with_alternative(super()._spec())
