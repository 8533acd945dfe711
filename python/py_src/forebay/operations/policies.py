"""Policies: they draw operations and their strength, from torchvision's tables or as timm does, with levels from 0 to 10."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Union

from .._arguments import U32, none_or, one_of, real, text, whole
from .._choices import Interpolation
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import Fill, interpolation_of

__all__ = ["AugMix", "AutoAugment", "LevelAugment", "RandAugment", "TrivialAugmentWide"]

_bins = partial(whole, least=2, below=U32)


def _policy(name: str, value: Any) -> str:
    # torchvision has an enumeration of them.
    return one_of(name, getattr(value, "value", value), ("imagenet", "cifar10", "svhn"))


class TrivialAugmentWide(ImageOp):
    """Applies one operation with a strength, both drawn.

    Args:
        num_magnitude_bins: Number of strengths.
        interpolation: "nearest", "bilinear" or "bicubic", where pixels are moved.
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
    """

    num_magnitude_bins: int = 31
    interpolation: Interpolation = "nearest"
    fill: Fill = None

    _CHECKS = {"num_magnitude_bins": _bins}


class RandAugment(ImageOp):
    """Applies several drawn operations, all with one strength.

    Args:
        num_ops: Operations per picture.
        magnitude: The strength, from 0 and below `num_magnitude_bins`.
        num_magnitude_bins: Number of strengths.
        interpolation: "nearest", "bilinear" or "bicubic", where pixels are moved.
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
    """

    num_ops: int = 2
    magnitude: int = 9
    num_magnitude_bins: int = 31
    interpolation: Interpolation = "nearest"
    fill: Fill = None

    _CHECKS = {"num_ops": partial(whole, below=U32), "magnitude": partial(whole, below=U32), "num_magnitude_bins": _bins}


class AutoAugment(ImageOp):
    """Applies a drawn pair of operations of a learned policy.

    Args:
        policy: "imagenet", "cifar10" or "svhn", the data set that it was learned on.
        interpolation: "nearest", "bilinear" or "bicubic", where pixels are moved.
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
    """

    policy: Literal["imagenet", "cifar10", "svhn"] | enum.Enum = "imagenet"
    interpolation: Interpolation = "nearest"
    fill: Fill = None

    _CHECKS = {"policy": _policy}


class AugMix(ImageOp):
    """Blends a picture with chains of drawn operations on it.

    Args:
        severity: Strengths that are drawn from: the first `severity` of 10.
        mixture_width: Number of chains.
        chain_depth: Operations per chain. 0 or less: 1 to 3, drawn.
        alpha: Parameter of the distributions of the weights.
        all_ops: Have changes of brightness, colour, contrast and sharpness among the operations.
        interpolation: "nearest", "bilinear" or "bicubic", where pixels are moved.
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
    """

    severity: int = 3
    mixture_width: int = 3
    chain_depth: int = -1
    alpha: float = 1.0
    all_ops: bool = True
    interpolation: Interpolation = "bilinear"
    fill: Fill = None

    _CHECKS = {"chain_depth": partial(whole, least=-(1 << 31), below=1 << 31)}


def _choices(name: str, value: Any) -> list[list[dict[str, Any]]]:
    return [[_operation(name, operation) for operation in choice] for choice in value]


def _operation(name: str, operation: Any) -> dict[str, Any]:
    if not isinstance(operation, (list, tuple)) or len(operation) != 3:
        raise ConfigError(f"{name} are lists of (name, probability, level), but one has {operation!r}")
    of, p, magnitude = operation
    return {
        "name": text(f"name in {name}", of),
        "p": real(f"probability in {name}", p),
        "magnitude": real(f"level in {name}", magnitude),
    }


def _filters(name: str, value: Any) -> list[str]:
    return [interpolation_of(name, each) for each in (value if isinstance(value, (list, tuple)) else [value])]


def _weights(name: str, value: Any) -> list[float]:
    return [real(name, weight) for weight in value]


class LevelAugment(ImageOp):
    """Applies lists of operations that are drawn from `choices`: timm's RandAugment, AutoAugment, 3-Augment and AugMix.

    `from_timm` makes it of timm's own objects. Operations and strengths are the same as in timm's `auto_augment.py`.

    Args:
        choices: Lists of (name, probability, level), such as `[[("Rotate", 0.5, 9)], [("Solarize", 0.5, 9)]]`. The names are timm's.
        count: Lists per picture, or per chain, where 0 draws 1 to 3.
        weights: Weight of each list. With weights no list is drawn twice. None: all are equally probable.
        magnitude_std: Standard deviation of the levels, which are drawn again for each operation.
        is_uniform: Draw each level uniformly between 0 and its own, without `magnitude_std`.
        magnitude_max: Upper bound of the levels.
        interpolation: Filter where pixels are moved, or several, and one is drawn for each operation.
        fill: Grey level or (red, green, blue) outside of the picture. None: black.
        translate_const: Pixels of the largest translation by `TranslateX` and `TranslateY`.
        translate_pct: Share of a side of the largest translation by `TranslateXRel` and `TranslateYRel`.
        width: Chains of lists that are blended with the picture, as timm's AugMix does. 0: the lists change the picture itself.
        alpha: Parameter of the distributions of the chains' weights.
    """

    choices: Sequence[Sequence[tuple[str, float, float]]]
    count: int = 1
    weights: Union[Sequence[float], None] = None
    magnitude_std: float = 0.0
    is_uniform: bool = False
    magnitude_max: float = 10.0
    interpolation: Union[str, Sequence[str]] = ("bilinear", "bicubic")
    fill: Fill = (128, 128, 128)
    translate_const: float = 250.0
    translate_pct: float = 0.45
    width: int = 0
    alpha: float = 1.0

    _CHECKS = {"choices": _choices, "count": partial(whole, below=U32), "width": partial(whole, below=U32), "interpolation": _filters, "weights": partial(none_or, _weights)}

    def _spec(self) -> dict[str, Any]:
        spec = super()._spec()
        spec["interpolations"] = spec.pop("interpolation")
        return spec
