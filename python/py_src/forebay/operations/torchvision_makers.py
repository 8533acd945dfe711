"""Makers of operations from torchvision's transforms: their arguments, by the names of the classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import fields as native
from ..errors import ConfigError
from ..fields.checks import listed
from . import by_chance, colour, compose, corrupt, elastic, erase, framing, geometric, linear, policies


def resize_filter(transform: Any) -> Any:
    if transform.antialias is False:
        raise ConfigError("pictures are resized with antialias=True")
    return transform.interpolation


def normalize(transform: Any) -> native.ImageOp:
    # torchvision has one number for all channels, and the pictures have three.
    mean, std = (listed(values) for values in (transform.mean, transform.std))
    return native.Normalize(*(values * 3 if len(values) == 1 else values for values in (mean, std)))


def _rotation(transform: Any) -> native.ImageOp:
    if transform.expand and transform.center is not None:
        raise ConfigError("with expand it turns about the middle here, so that the whole picture is in the result: leave out center")
    names = ("degrees", "interpolation", "expand", "center", "fill")
    return _same(geometric.RandomRotation, *names)(transform)


def _resized_crop(transform: Any) -> native.ImageOp:
    return native.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio), resize_filter(transform))


def _resize(transform: Any) -> native.ImageOp:
    size = transform.size
    if isinstance(size, Sequence) and len(size) == 1:
        size = size[0]
    return native.Resize(size, resize_filter(transform), transform.max_size)


def _scale_jitter(transform: Any) -> native.ImageOp:
    return framing.ScaleJitter(tuple(transform.target_size), tuple(transform.scale_range), resize_filter(transform))


def _shortest_size(transform: Any) -> native.ImageOp:
    return framing.RandomShortestSize(tuple(transform.min_size), transform.max_size, resize_filter(transform))


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
        raise ConfigError("it mirrors the borders of `padding` again where a picture is still too small: use the one of v2")
    return native.RandomCrop(transform.size, padding, transform.pad_if_needed, transform.fill, transform.padding_mode)


def _ten_crop(transform: Any) -> native.ImageOp:
    if transform.vertical_flip:
        raise ConfigError("the second five crops are of the picture mirrored left to right: pass vertical_flip=False")
    return native.TenCrop(transform.size)


def _grayscale(transform: Any) -> native.ImageOp:
    if transform.num_output_channels != 3:
        raise ConfigError('pictures have three channels: pass num_output_channels=3, or leave it out and use Image(mode="L")')
    return native.Grayscale()


def _elastic(transform: Any) -> native.ImageOp:
    alpha, sigma = (tuple(listed(value)) for value in (transform.alpha, transform.sigma))
    return elastic.ElasticTransform(alpha, sigma, transform.interpolation, transform.fill)


def _erasing(transform: Any) -> native.ImageOp:
    value = "random" if transform.value is None else transform.value
    return erase.RandomErasing(transform.p, tuple(transform.scale), tuple(transform.ratio), value)


def _same(kind: type, *names: str) -> Callable[[Any], native.ImageOp]:
    """Returns the maker of an operation that has arguments with the same names as the transform's attributes."""

    def make(transform: Any) -> native.ImageOp:
        return kind(**{name: getattr(transform, name) for name in names})

    return make


MAKERS: dict[str, Callable[[Any], native.ImageOp]] = {
    "RandomResizedCrop": _resized_crop,
    "Resize": _resize,
    "RandomResize": lambda transform: native.RandomResize(transform.min_size, transform.max_size, resize_filter(transform)),
    "CenterCrop": _same(native.CenterCrop, "size"),
    "FiveCrop": _same(native.FiveCrop, "size"),
    "TenCrop": _ten_crop,
    "Pad": _same(native.Pad, "padding", "fill", "padding_mode"),
    "RandomCrop": _crop,
    "Grayscale": _grayscale,
    "RandomHorizontalFlip": _same(native.RandomHorizontalFlip, "p"),
    "Normalize": normalize,
    "LinearTransformation": _same(linear.LinearTransformation, "transformation_matrix", "mean_vector"),
    "RandomVerticalFlip": _same(by_chance.RandomVerticalFlip, "p"),
    "RandomGrayscale": _same(by_chance.RandomGrayscale, "p"),
    "RandomInvert": _same(by_chance.RandomInvert, "p"),
    "RandomPosterize": _same(by_chance.RandomPosterize, "bits", "p"),
    "RandomSolarize": _same(by_chance.RandomSolarize, "threshold", "p"),
    "RandomAutocontrast": _same(by_chance.RandomAutocontrast, "p"),
    "RandomEqualize": _same(by_chance.RandomEqualize, "p"),
    "RandomAdjustSharpness": _same(by_chance.RandomAdjustSharpness, "sharpness_factor", "p"),
    "ColorJitter": _same(colour.ColorJitter, "brightness", "contrast", "saturation", "hue"),
    "GaussianBlur": _same(colour.GaussianBlur, "kernel_size", "sigma"),
    "GaussianNoise": _same(corrupt.GaussianNoise, "mean", "sigma", "clip"),
    "JPEG": lambda transform: corrupt.JPEG(tuple(transform.quality)),
    "RandomPhotometricDistort": _same(colour.RandomPhotometricDistort, "brightness", "contrast", "saturation", "hue", "p"),
    "RandomChannelPermutation": _same(colour.RandomChannelPermutation),
    "RandomZoomOut": _same(framing.RandomZoomOut, "fill", "side_range", "p"),
    "RandomIoUCrop": _iou_crop,
    "ScaleJitter": _scale_jitter,
    "RandomShortestSize": _shortest_size,
    "RandomErasing": _erasing,
    "RandomRotation": _rotation,
    "RandomAffine": _same(geometric.RandomAffine, "degrees", "translate", "scale", "shear", "interpolation", "fill", "center"),
    "ElasticTransform": _elastic,
    "RandomPerspective": _same(geometric.RandomPerspective, "distortion_scale", "p", "interpolation", "fill"),
    "TrivialAugmentWide": _same(policies.TrivialAugmentWide, "num_magnitude_bins", "interpolation", "fill"),
    "RandAugment": _same(policies.RandAugment, "num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"),
    "AutoAugment": _same(policies.AutoAugment, "policy", "interpolation", "fill"),
    "AugMix": _same(
        policies.AugMix, "severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill"
    ),
}
"""Makers by the names of torchvision's classes."""

def _blur_by_chance(transform: Any) -> native.ImageOp:
    return compose.RandomApply([colour.RadiusBlur((transform.radius_min, transform.radius_max))], transform.prob)


_Makers = list[tuple[tuple[str, ...], Callable[[Any], native.ImageOp]]]

_OF_SCRIPTS: dict[str, _Makers] = {
    # Of torchvision's reference scripts.
    "FixedSizeCrop": [(("crop_height", "crop_width", "fill", "padding_mode"), _fixed_size_crop)],
    "PadIfSmaller": [(("size", "fill"), _same(framing.PadIfSmaller, "size", "fill"))],
    # Of DINO and DeiT III, and of MoCo v3.
    "GaussianBlur": [
        (("prob", "radius_min", "radius_max"), _blur_by_chance),
        (("sigma",), lambda transform: colour.RadiusBlur(tuple(transform.sigma))),
    ],
    "Solarization": [(("p",), lambda transform: by_chance.RandomSolarize(128, transform.p))],
    "gray_scale": [(("p", "transf"), lambda transform: by_chance.RandomGrayscale(transform.p))],
}
"""Attributes and makers of classes in the modules of training scripts, by the names of the classes."""


def maker_of_script(transform: Any) -> Callable[[Any], native.ImageOp] | None:
    """Returns the maker for a class of a training script; None for an unknown class."""
    found = _OF_SCRIPTS.get(type(transform).__name__, [])
    return next((make for attributes, make in found if all(hasattr(transform, attribute) for attribute in attributes)), None)
