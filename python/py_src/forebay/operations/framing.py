"""Operations that resize a picture, or keep a part of it with borders, by numbers that are drawn or that depend on its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union

from .._arguments import U32, by_name, flag, one_of, real, reals, whole
from .._choices import Interpolation, PaddingMode
from ..fields import ImageOp
from ..fields.checks import Fill, Size, border_of, fill_of, filter_of, filters_of, listed, pair_of

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
]


def _fill(op: Any) -> dict[str, Any]:
    """Returns an operation's colour, if it is not black."""
    fill = fill_of(f"fill of {type(op).__name__}", op.fill)
    return {"fill": fill} if any(fill) else {}


def _fixed(op: Any, name: str) -> dict[str, Any]:
    return {"op": name, "size": pair_of(type(op).__name__, op.size), **_fill(op)}


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        sides = reals("side_range of RandomZoomOut", self.side_range, 2)
        return {"op": "random_zoom_out", "side_range": sides, "p": real("p of RandomZoomOut", self.p), **_fill(self)}


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        names = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio")
        spec = {"op": "random_iou_crop", **{name: real(f"{name} of RandomIoUCrop", getattr(self, name)) for name in names}}
        if self.sampler_options is not None:
            options = listed(self.sampler_options)
            spec["sampler_options"] = reals("sampler_options of RandomIoUCrop", options or self.sampler_options, len(options))
        return spec | {"trials": whole("trials of RandomIoUCrop", self.trials, 1, U32)}


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "scale_jitter",
            "target_size": pair_of("ScaleJitter", self.target_size, "target_size"),
            "scale_range": reals("scale_range of ScaleJitter", self.scale_range, 2),
            **filter_of(self),
        }


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        lengths = self.min_size if isinstance(self.min_size, Sequence) else [self.min_size]
        spec = {"op": "random_shortest_size", **filter_of(self)}
        spec["min_size"] = [whole("min_size of RandomShortestSize", length, 1, U32) for length in lengths]
        if self.max_size is not None:
            spec["max_size"] = whole("max_size of RandomShortestSize", self.max_size, 1, U32)
        return spec


@by_name()
@dataclass(frozen=True)
class FixedSizeCrop(ImageOp):
    """Cuts `size` pixels at a random position, and adds borders right and below where the picture is smaller, as the class of this
    name in torchvision's reference scripts.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        fill: Grey level or (red, green, blue) of the borders. A mask may have a different one.
    """

    size: Size
    fill: Fill = 0

    def _spec(self) -> dict[str, Any]:
        return _fixed(self, "fixed_size_crop")


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        position = one_of("position of PadIfSmaller", self.position, ("top_left", "center"))
        return _fixed(self, "pad_if_smaller") | ({"position": position} if position != "top_left" else {})


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        return {"op": "center_crop_or_pad", "size": pair_of("CenterCropOrPad", self.size), **border_of(self)}


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        return {"op": "random_crop_or_pad", "size": pair_of("RandomCropOrPad", self.size), **border_of(self)}


@by_name()
@dataclass(frozen=True)
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

    def _spec(self) -> dict[str, Any]:
        numbers = ("longest", "random_scale_prob", "random_aspect_prob")
        ranges = ("random_scale_range", "random_aspect_range")
        return {
            "op": "resize_keep_ratio",
            "size": pair_of("ResizeKeepRatio", self.size),
            **filters_of(self),
            **{name: real(f"{name} of ResizeKeepRatio", getattr(self, name)) for name in numbers},
            **{name: reals(f"{name} of ResizeKeepRatio", getattr(self, name), 2) for name in ranges},
            "random_scale_area": flag("random_scale_area of ResizeKeepRatio", self.random_scale_area),
        }
