"""Translation of timm's transforms to operations of the engine. They are recognised by their names: timm is not imported."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import fields as native
from ..errors import ConfigError
from . import erase, framing, levels
from .from_torchvision import Library, translated

__all__ = ["from_timm"]


def from_timm(transforms: Any) -> list[native.ImageOp]:
    """Returns the operations of `Image` that do what timm's transforms do: `fb.Image("jpg", *fb.from_timm(create_transform(...)))`.

    Accepts what `timm.data.create_transform` returns, with torchvision's transforms among timm's, a list, or one transform.
    Pictures are drawn from the same distributions, and have Pillow's pixels; the engine draws its own numbers. `Mixup` is none
    of them: mix batches by `fb.Mix`.

    Args:
        transforms: The transforms, also a tuple of the parts that `separate=True` returns.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    return translated(transforms, "from_timm", _TIMM)


def _filters(interpolation: Any) -> Any:
    """Returns the name of one filter, or of the two of "random"."""
    if isinstance(interpolation, (list, tuple)):
        return interpolation[0] if len(interpolation) == 1 else tuple(interpolation)
    return interpolation


def _resized_crop(transform: Any) -> native.ImageOp:
    return native.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio), _filters(transform.interpolation))


def _keep_ratio(transform: Any) -> native.ImageOp:
    names = ("size", "longest", "random_scale_prob", "random_scale_range", "random_scale_area", "random_aspect_prob", "random_aspect_range")
    return framing.ResizeKeepRatio(interpolation=_filters(transform.interpolation), **{name: getattr(transform, name) for name in names})


def _crop_or_pad(kind: type) -> Callable[[Any], native.ImageOp]:
    """Returns the maker of a part of a fixed size with borders."""

    return lambda transform: kind(transform.size, transform.fill, transform.padding_mode)


def _erasing(transform: Any) -> native.ImageOp:
    if transform.num_splits > 1:
        raise ConfigError("it leaves the first part of each batch as it is: pass num_splits=0")
    if transform.min_count != 1:
        raise ConfigError("it draws at least several boxes: pass min_count=1")
    value: Any = "random" if transform.per_pixel else "random_colour" if transform.rand_color else 0.0
    ratio = tuple(math.exp(logarithm) for logarithm in transform.log_aspect_ratio)
    scale = (transform.min_area, transform.max_area)
    return erase.RandomErasing(transform.probability, scale, ratio, value, transform.max_count)


def _policy(choices: Any, **arguments: Any) -> native.ImageOp:
    """Returns the policy that draws from lists of timm's operations."""
    ops = [op for choice in choices for op in choice]
    if not ops:
        raise ConfigError("it has no operations")
    first = ops[0]
    hparams = getattr(first, "hparams", {})
    for op in ops:
        if (op.hparams, op.kwargs) != (first.hparams, first.kwargs):
            raise ConfigError("its operations have different arguments, such as colours or filters")
    std = first.magnitude_std
    return levels.LevelAugment(
        [[(op.name, float(op.prob), float(op.magnitude)) for op in choice] for choice in choices],
        magnitude_std=0.0 if std == math.inf else float(std),
        is_uniform=std == math.inf,
        magnitude_max=float(first.magnitude_max or 10),
        interpolation=_filters(first.kwargs["resample"]),
        fill=tuple(first.kwargs["fillcolor"]),
        translate_const=float(hparams.get("translate_const", 250)),
        translate_pct=float(hparams.get("translate_pct", 0.45)),
        **arguments,
    )


def _rand(transform: Any) -> native.ImageOp:
    weights = transform.choice_weights
    weights = None if weights is None else [float(weight) for weight in weights]
    return _policy([[op] for op in transform.ops], count=transform.num_layers, weights=weights)


_TIMM = Library(
    name="timm",
    floats=frozenset(("MaybeToTensor",)),
    conversions=frozenset(("MaybeToTensor", "MaybePILToTensor")),
    makers={
        "RandomResizedCropAndInterpolation": _resized_crop,
        "ResizeKeepRatio": _keep_ratio,
        "CenterCropOrPad": _crop_or_pad(framing.CenterCropOrPad),
        "RandomCropOrPad": _crop_or_pad(framing.RandomCropOrPad),
        "RandomErasing": _erasing,
        "RandAugment": _rand,
        "AutoAugment": lambda transform: _policy(transform.policy),
    },
)
