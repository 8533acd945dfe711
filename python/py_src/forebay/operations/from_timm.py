"""Translation of timm's transforms to operations of the engine. They are recognised by their names: timm is not imported."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, overload

from .. import fields as native
from .._arguments import shown
from ..errors import ConfigError
from . import framing, mix, policies, row
from .from_torchvision import Context, Library, translated
from .torchvision_makers import same


@overload
def from_timm(transforms: Any) -> list[native.ImageOp]: ...


@overload
def from_timm(transforms: Any, **fields: native.Image | mix.OneHot | mix.MultiHot) -> mix.Mix: ...


def from_timm(transforms: Any, **fields: native.Image | mix.OneHot | mix.MultiHot) -> list[native.ImageOp] | mix.Mix:
    """Returns the operations of `Image` that act as timm's transforms: `fb.Image("jpg", *fb.from_timm(create_transform(...)))`.

    Accepts the result of `timm.data.create_transform`, with torchvision's transforms among timm's, a list, or one transform.
    Pictures are drawn from the same distributions, and have Pillow's pixels; the engine draws its own numbers.

    With fields it returns the `Mix` that does the same as timm's `Mixup` to the batches of these fields, in all of its modes, with its label
    smoothing: `fb.from_timm(Mixup(...), x=fb.Image("jpg", *fb.from_timm(create_transform(...))), y=fb.OneHot("cls", 1000))`.

    Args:
        transforms: The transforms, also a tuple of the parts that `separate=True` returns; or a `Mixup`.
        **fields: For a `Mixup`, each output's name and its `Image` or `OneHot`; with `multi_label` a `MultiHot` in place of a `OneHot`.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    if fields:
        return _mix(transforms, fields)
    return translated(transforms, "from_timm", Context(_TIMM))


def _mix(mixup: Any, fields: dict[str, Any]) -> mix.Mix:
    """Returns the mix of a `Mixup`, or of its `FastCollateMixup`."""
    if type(mixup).__name__ not in ("Mixup", "FastCollateMixup"):
        raise ConfigError(f"from_timm makes a Mix of fields only for timm's Mixup, but it is {shown(mixup)}")
    # timm's class takes any further mode for "batch", and its collation has one more.
    modes = ("pair", "elem", "half") if type(mixup).__name__ == "FastCollateMixup" else ("pair", "elem")
    mode = mixup.mode if mixup.mode in modes else "batch"
    is_multi_label = bool(getattr(mixup, "multi_label", False))
    by: list[mix.MixUp | mix.CutMix] = []
    if mixup.mixup_alpha > 0:
        by.append(mix.MixUp(float(mixup.mixup_alpha)))
    if mixup.cutmix_alpha > 0:
        minmax = mixup.cutmix_minmax
        by.append(mix.CutMix(float(mixup.cutmix_alpha), None if minmax is None else tuple(minmax), bool(mixup.correct_lam)))
    if not by:
        raise ConfigError("from_timm cannot translate Mixup: it mixes nothing, so pass mixup_alpha, cutmix_alpha or cutmix_minmax")
    weights = [1.0 - mixup.switch_prob, mixup.switch_prob] if len(by) == 2 else None
    made: dict[str, Any] = {}
    for name, of in fields.items():
        made[name] = of
        if isinstance(of, (mix.OneHot, mix.MultiHot)):
            kind = type(of).__name__
            if isinstance(of, mix.MultiHot) != is_multi_label:
                wanted = "a MultiHot, since the Mixup has multi_label=True" if is_multi_label else "a OneHot, or pass multi_label=True to the Mixup"
                raise ConfigError(f"{name} is a {kind}: write {wanted}")
            if of.classes != mixup.num_classes:
                raise ConfigError(f"{name}: the Mixup has num_classes={mixup.num_classes}, and the {kind} has classes={of.classes}")
            made[name] = replace(of, smoothing=of.smoothing or float(mixup.label_smoothing))
    return mix.Mix(by, float(mixup.mix_prob), mode, weights, **made)


def _filters(interpolation: Any) -> Any:
    """Returns the name of one filter, or of the two of "random"."""
    if isinstance(interpolation, (list, tuple)):
        return interpolation[0] if len(interpolation) == 1 else tuple(interpolation)
    return interpolation


def _resized_crop(transform: Any) -> native.ImageOp:
    return native.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio), _filters(transform.interpolation))


def _keep_ratio(transform: Any) -> native.ImageOp:
    return replace(same(framing.ResizeKeepRatio)(transform), interpolation=_filters(transform.interpolation))


def _erasing(transform: Any) -> native.ImageOp:
    # num_splits matters only in batches, and a recipe gets one picture at a time.
    value: Any = "random" if transform.per_pixel else "random_colour" if transform.rand_color else 0.0
    ratio = tuple(math.exp(logarithm) for logarithm in transform.log_aspect_ratio)
    scale = (transform.min_area, transform.max_area)
    return row.RandomErasing(transform.probability, scale, ratio, value, transform.max_count, transform.min_count)


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
    return policies.LevelAugment(
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


def _mixed(transform: Any) -> native.ImageOp:
    # `blended` has the same weights, and rounds after every chain rather than once.
    depth = max(transform.depth, 0)
    return _policy([[op] for op in transform.ops], count=depth, width=transform.width, alpha=float(transform.alpha))


_TIMM = Library(
    name="timm",
    floats=frozenset(("MaybeToTensor",)),
    conversions=frozenset(("MaybeToTensor", "MaybePILToTensor", "ToNumpy")),
    makers={
        "RandomResizedCropAndInterpolation": _resized_crop,
        "ResizeKeepRatio": _keep_ratio,
        "CenterCropOrPad": same(framing.CenterCropOrPad),
        "RandomCropOrPad": same(framing.RandomCropOrPad),
        "TrimBorder": same(framing.TrimBorder),
        "RandomErasing": _erasing,
        "RandAugment": _rand,
        "AutoAugment": lambda transform: _policy(transform.policy),
        "AugMixAugment": _mixed,
    },
)
