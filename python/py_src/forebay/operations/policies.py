"""Policies: they draw operations and their strength from torchvision's tables."""

from __future__ import annotations

from dataclasses import dataclass
import enum
from functools import partial
from typing import Any, Literal

from .._arguments import U32, by_name, one_of, whole
from .._choices import Interpolation
from ..fields import ImageOp
from ..fields.checks import Fill

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]

_bins = partial(whole, least=2, below=U32)


def _policy(name: str, value: Any) -> str:
    # torchvision has an enumeration of them.
    return one_of(name, getattr(value, "value", value), ("imagenet", "cifar10", "svhn"))


@by_name()
@dataclass(frozen=True)
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


@by_name()
@dataclass(frozen=True)
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


@by_name()
@dataclass(frozen=True)
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


@by_name()
@dataclass(frozen=True)
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
