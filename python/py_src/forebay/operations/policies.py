"""Policies: they draw operations and their strength from torchvision's tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Literal

from .._arguments import U32, by_name, flag, one_of, real, whole
from .._choices import Interpolation
from ..fields import ImageOp
from ..fields.checks import Fill, fill_of, interpolation_of

__all__ = ["AugMix", "AutoAugment", "RandAugment", "TrivialAugmentWide"]


def _policy(op: Any, name: str) -> dict[str, Any]:
    of = type(op).__name__
    return {
        "op": name,
        "interpolation": interpolation_of(f"interpolation of {of}", op.interpolation),
        "fill": fill_of(f"fill of {of}", op.fill),
    }


def _count(op: Any, name: str, least: int) -> int:
    return whole(f"{name} of {type(op).__name__}", getattr(op, name), least, U32)


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

    def _spec(self) -> dict[str, Any]:
        return _policy(self, "trivial_augment_wide") | {"num_magnitude_bins": _count(self, "num_magnitude_bins", 2)}


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

    def _spec(self) -> dict[str, Any]:
        return _policy(self, "rand_augment") | {
            "num_ops": _count(self, "num_ops", 0),
            "magnitude": _count(self, "magnitude", 0),
            "num_magnitude_bins": _count(self, "num_magnitude_bins", 2),
        }


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

    def _spec(self) -> dict[str, Any]:
        # torchvision has an enumeration of them.
        policy = getattr(self.policy, "value", self.policy)
        policy = one_of("policy of AutoAugment", policy, ("imagenet", "cifar10", "svhn"))
        return _policy(self, "auto_augment") | {"policy": policy}


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

    def _spec(self) -> dict[str, Any]:
        return _policy(self, "aug_mix") | {
            "severity": _count(self, "severity", 1),
            "mixture_width": _count(self, "mixture_width", 1),
            "chain_depth": whole("chain_depth of AugMix", self.chain_depth, -(1 << 31), 1 << 31),
            "alpha": real("alpha of AugMix", self.alpha),
            "all_ops": flag("all_ops of AugMix", self.all_ops),
        }
