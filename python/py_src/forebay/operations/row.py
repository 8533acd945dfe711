"""Operations on the finished row, after `Normalize`: linear transformations of whole pictures, and random erasing."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union

from .._arguments import real, reals, shown
from ..errors import ConfigError
from ..fields import ImageOp
from ..fields.checks import listed

__all__ = ["LinearTransformation", "RandomErasing"]

if TYPE_CHECKING:
    import numpy


class LinearTransformation(ImageOp, eq=False, elsewhere={"matrix": "transformation_matrix", "mean": "mean_vector"}):
    """Subtracts a vector from all numbers of a picture and multiplies them by a matrix, such as one that whitens.

    A picture is the row vector of its channels, one after the other, of floats from 0 to 1 or after `Normalize`. It has one size, at most
    4,096 numbers (3 x 36 x 36), and type float32.

    Args:
        transformation_matrix: Square array with a row for each number of a picture. The result is `(picture - mean_vector) @ transformation_matrix`.
        mean_vector: Array with a number for each number of a picture.
    """

    transformation_matrix: Any
    mean_vector: Any

    def _spec(self) -> dict[str, Any]:
        matrix, mean = (_floats(f"{name} of LinearTransformation", getattr(self, name)) for name in ("transformation_matrix", "mean_vector"))
        if mean.ndim != 1 or matrix.shape != (len(mean),) * 2:
            raise ConfigError(
                "transformation_matrix of LinearTransformation is square, with a row for each number of mean_vector, but their shapes are "
                f"{matrix.shape} and {mean.shape}"
            )
        texts = {name: base64.b64encode(floats.tobytes()).decode() for name, floats in (("transformation_matrix", matrix), ("mean_vector", mean))}
        return {"op": "linear_transformation"} | texts


def _floats(name: str, value: Any) -> numpy.ndarray:
    """Returns an array, a tensor or nested lists as float32 in little-endian order."""
    import numpy

    try:
        return numpy.ascontiguousarray(value.detach().cpu() if hasattr(value, "detach") else value, dtype="<f4")
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is an array of numbers, but it is {shown(value)}") from None


def _value(name: str, value: Any) -> list[float] | None:
    """Returns a number for each channel; None for noise."""
    if isinstance(value, str) and value in ("random", "random_colour"):
        return None
    values = listed(value)
    return [real(name, values[0])] * 3 if len(values) == 1 else reals(name, values or value, 3)


class RandomErasing(ImageOp):
    """Replaces a random box of the row, after the rest of the operations: the box of torchvision's distribution.

    Args:
        p: The probability.
        scale: Bounds of the box's share of the picture's area.
        ratio: Bounds of its height divided by its width, drawn on a logarithmic scale.
        value: One number, or one per channel, in the units of the row: after `Normalize` 0 is the mean, and integers are levels. "random" is normally
            distributed noise per pixel and channel, and "random_colour" is one such number per channel of a box.
        count: Largest number of boxes; a number from `min_count` to `count` is drawn. Each has its part of the area.
        min_count: Smallest number of boxes.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: Union[float, Sequence[float], str] = 0.0
    count: int = 1
    min_count: int = 1

    _CHECKS = {"value": _value}

    def _spec(self) -> dict[str, Any]:
        is_of_box = isinstance(self.value, str) and self.value == "random_colour"
        return {"value": None} | super()._spec() | ({"is_noise_of_box": True} if is_of_box else {})
