"""Losses of quality: noise, and compression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Union

from .._arguments import by_name, whole
from ..fields import ImageOp
from ..fields.checks import filled

__all__ = ["JPEG", "GaussianNoise"]

_qualities = partial(filled, lengths=(1, 2), expected="a number from 1 to 100, or (smallest, largest)", check=partial(whole, least=1, below=101))


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


@by_name()
@dataclass(frozen=True)
class JPEG(ImageOp):
    """Compresses to a JPEG and back, as Pillow does.

    Args:
        quality: From 1 to 100: one number, or (smallest, largest), each number between them is as probable.
    """

    quality: Union[int, Sequence[int]]

    _CHECKS = {"quality": _qualities}
