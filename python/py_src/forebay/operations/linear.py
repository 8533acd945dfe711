"""Linear transformations of whole pictures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._arguments import by_name, shown
from ..errors import ConfigError
from ..fields import ImageOp

if TYPE_CHECKING:
    import numpy

__all__ = ["LinearTransformation"]


@by_name(matrix="transformation_matrix", mean="mean_vector")
@dataclass(frozen=True, eq=False)
class LinearTransformation(ImageOp):
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
