"""Losses of quality: noise, and compression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._arguments import by_name, flag, real, whole
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import listed

__all__ = ["JPEG", "GaussianNoise"]


@by_name()
@dataclass(frozen=True)
class GaussianNoise(ImageOp):
    """Adds normally distributed noise to every level, as torchvision does to levels from 0 to 255.

    Args:
        mean: Mean of the noise, for levels from 0 to 1.
        sigma: Standard deviation of the noise, for levels from 0 to 1.
        clip: Levels out of range become the nearest one. Otherwise they wrap around.
    """

    mean: float = 0.0
    sigma: float = 0.1
    clip: bool = True

    def _spec(self) -> dict[str, Any]:
        numbers = {name: real(f"{name} of GaussianNoise", getattr(self, name)) for name in ("mean", "sigma")}
        return {"op": "gaussian_noise", **numbers, "clip": flag("clip of GaussianNoise", self.clip)}


@by_name()
@dataclass(frozen=True)
class JPEG(ImageOp):
    """Compresses to a JPEG and back, as Pillow does.

    Args:
        quality: From 1 to 100: one number, or (smallest, largest), each number between them is as probable.
    """

    quality: Union[int, Sequence[int]]

    def _spec(self) -> dict[str, Any]:
        bounds = listed(self.quality)
        if len(bounds) not in (1, 2):
            raise ConfigError(f"quality of JPEG is a number from 1 to 100, or (smallest, largest), but it is {self.quality!r}")
        bounds = [whole("quality of JPEG", bound, 1, 101) for bound in bounds] * (2 // len(bounds))
        return {"op": "jpeg", "quality": bounds}
