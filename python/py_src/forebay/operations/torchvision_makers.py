"""Makers of operations from torchvision's transforms: their arguments, by the names of the classes, and by the kind of data."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from .. import fields as native
from ..errors import ConfigError
from ..fields.checks import listed
from ..fields.pictures import followed_by
from . import compose, framing, geometric, pixels, policies, row

Kind = Literal["image", "mask"]
"""Kind of data that a transform may treat differently."""


def of_kind(value: Any, kind: Kind) -> Any:
    """Returns the argument for a kind of data: a dict has one for each, by torchvision's types, or by "others"."""
    if not isinstance(value, Mapping):
        return value
    by_name = {getattr(key, "__name__", key): one for key, one in value.items()}
    for name in {"image": ("Image", "Tensor"), "mask": ("Mask",)}[kind]:
        if name in by_name:
            return by_name[name]
    if "others" in by_name:
        return by_name["others"]
    default = getattr(value, "default_factory", None)  # Of a defaultdict.
    if default is None:
        raise ConfigError(f'its dict has no entry for {"pictures" if kind == "image" else "masks"}: add one for "others"')
    return default()


def with_fill(transform: Any, kind: Kind) -> Any:
    """Returns a transform with the colour for the kind of data that it is translated for."""
    fill = getattr(transform, "fill", None)
    chosen = of_kind(fill, kind)
    if kind == "mask":
        if type(transform).__name__ == "FixedSizeCrop":
            chosen = 0  # As in the scripts.
        if len(levels := listed(0 if chosen is None else chosen)) > 1:
            if len(set(levels)) > 1:
                raise ConfigError("masks have labels, not colours: pass fill as a dict with a number for tv_tensors.Mask")
            chosen = levels[0]
    if chosen is fill:
        return transform
    transform = copy.copy(transform)
    transform.fill = chosen
    return transform


def moved_by(fields: Mapping[str, Any], ops_of: Callable[[Kind], Sequence[native.ImageOp]]) -> dict[str, Any]:
    """Returns the fields of a `Joint`, in which pictures and masks have the operations of their kind after their own ones."""
    made = dict(fields)
    for name, of in fields.items():
        if isinstance(of, (native.Image, native.Mask)):
            made[name] = followed_by(of, ops_of("image" if isinstance(of, native.Image) else "mask"))
    return made


def text_of(transform: Any) -> str:
    """Returns a transform for a message, abridged."""
    text = " ".join(repr(transform).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def in_a_map(call: str) -> str:
    """Returns the way to use a transform without a translation, which the expression `call` applies to a picture."""
    return (
        "leave it out of the list, and call it for each sample, after the operations: "
        f'Loader(..., map=lambda sample, rng: sample | {{"x": {call}}})'
    )


def _check_antialias(transform: Any) -> None:
    if getattr(transform, "antialias", True) is False:
        raise ConfigError("pictures are resized with antialias=True")


def resize_filter(transform: Any) -> Any:
    _check_antialias(transform)
    return transform.interpolation


def normalize(transform: Any) -> native.ImageOp:
    # torchvision has one number for all channels, and the pictures have three.
    mean, std = (listed(values) for values in (transform.mean, transform.std))
    return native.Normalize(*(values * 3 if len(values) == 1 else values for values in (mean, std)))


def same(kind: type[Any]) -> Callable[[Any], native.ImageOp]:
    """Returns the maker of an operation with arguments that all have the names of the transform's attributes."""
    names = [field.name for field in dataclasses.fields(kind)]

    def make(transform: Any) -> native.ImageOp:
        _check_antialias(transform)
        values = {name: getattr(transform, name) for name in names}
        return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})

    return make


def _rotation(transform: Any) -> native.ImageOp:
    if transform.expand and transform.center is not None:
        raise ConfigError("with expand it turns about the middle here, so that the whole picture is in the result: leave out center")
    return same(geometric.RandomRotation)(transform)


def _resize(transform: Any) -> native.ImageOp:
    size = transform.size
    if isinstance(size, Sequence) and len(size) == 1:
        size = size[0]
    return native.Resize(size, resize_filter(transform), transform.max_size)


def _iou_crop(transform: Any) -> native.ImageOp:
    names = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio", "trials")
    return framing.RandomIoUCrop(**{name: getattr(transform, name) for name in names}, sampler_options=tuple(transform.options))


def _fixed_size_crop(transform: Any) -> native.ImageOp:
    if transform.padding_mode != "constant":
        raise ConfigError('its borders have one colour here: pass padding_mode="constant"')
    return framing.FixedSizeCrop((transform.crop_height, transform.crop_width), transform.fill)


def _crop(transform: Any) -> native.ImageOp:
    padding = transform.padding or 0
    is_v2 = ".v2" in type(transform).__module__
    if is_v2 and padding:
        left, right, top, bottom = padding
        padding = (left, top, right, bottom)
    if not is_v2 and padding and transform.pad_if_needed and transform.padding_mode in ("reflect", "symmetric"):
        raise ConfigError(
            "it mirrors the borders of `padding` again where a picture is still too small: use RandomCrop of torchvision.transforms.v2"
        )
    return native.RandomCrop(transform.size, padding, transform.pad_if_needed, transform.fill, transform.padding_mode)


def _ten_crop(transform: Any) -> native.ImageOp:
    if transform.vertical_flip:
        raise ConfigError("the second five crops show the picture mirrored left to right: pass vertical_flip=False")
    return native.TenCrop(transform.size)


def _grayscale(transform: Any) -> native.ImageOp:
    if transform.num_output_channels != 3:
        raise ConfigError('pictures have three channels: pass num_output_channels=3, or leave it out and use Image(mode="L")')
    return native.Grayscale()


def _erasing(transform: Any) -> native.ImageOp:
    value = "random" if transform.value is None else transform.value
    return row.RandomErasing(transform.p, tuple(transform.scale), tuple(transform.ratio), value)


MAKERS: dict[str, Callable[[Any], native.ImageOp]] = {
    kind.__name__: same(kind)
    for kind in (
        *(native.CenterCrop, native.FiveCrop, native.Pad, native.RandomHorizontalFlip, row.LinearTransformation),
        *(pixels.RandomVerticalFlip, pixels.RandomGrayscale, pixels.RandomInvert, pixels.RandomPosterize, pixels.RandomSolarize),
        *(pixels.RandomAutocontrast, pixels.RandomEqualize, pixels.RandomAdjustSharpness, pixels.ColorJitter),
        *(pixels.GaussianBlur, pixels.GaussianNoise, pixels.RandomPhotometricDistort, pixels.RandomChannelPermutation),
        *(native.RandomResizedCrop, native.RandomResize, pixels.JPEG, framing.ScaleJitter, framing.RandomShortestSize),
        *(framing.RandomZoomOut, geometric.ElasticTransform, geometric.RandomAffine, geometric.RandomPerspective),
        *(policies.TrivialAugmentWide, policies.RandAugment, policies.AutoAugment, policies.AugMix),
    )
} | {
    "Resize": _resize,
    "TenCrop": _ten_crop,
    "RandomCrop": _crop,
    "Grayscale": _grayscale,
    "Normalize": normalize,
    "RandomIoUCrop": _iou_crop,
    "RandomErasing": _erasing,
    "RandomRotation": _rotation,
}
"""Makers by the names of torchvision's classes. Those of the first part have the same arguments as the operation of their name."""


def _blur_by_chance(transform: Any) -> native.ImageOp:
    return compose.RandomApply([pixels.RadiusBlur((transform.radius_min, transform.radius_max))], transform.prob)


_Makers = list[tuple[tuple[str, ...], Callable[[Any], native.ImageOp]]]

_OF_SCRIPTS: dict[str, _Makers] = {
    # Of torchvision's reference scripts.
    "FixedSizeCrop": [(("crop_height", "crop_width", "fill", "padding_mode"), _fixed_size_crop)],
    "PadIfSmaller": [(("size", "fill"), lambda transform: framing.PadIfSmaller(transform.size, transform.fill))],
    # Of DINO and DeiT III, and of MoCo v3.
    "GaussianBlur": [
        (("prob", "radius_min", "radius_max"), _blur_by_chance),
        (("sigma",), lambda transform: pixels.RadiusBlur(tuple(transform.sigma))),
    ],
    "Solarization": [(("p",), lambda transform: pixels.RandomSolarize(128, transform.p))],
    "gray_scale": [(("p", "transf"), lambda transform: pixels.RandomGrayscale(transform.p))],
}
"""Attributes and makers of classes in the modules of training scripts, by the names of the classes."""


def maker_of_script(transform: Any) -> Callable[[Any], native.ImageOp] | None:
    """Returns the maker for a class of a training script; None for an unknown class."""
    found = _OF_SCRIPTS.get(type(transform).__name__, [])
    return next((make for attributes, make in found if all(hasattr(transform, attribute) for attribute in attributes)), None)
