"""Batches for numpy: arrays without a copy, lists of text and bytes, lists of arrays of different shapes."""

from __future__ import annotations

import numpy

from ..errors import ConfigError
from .batch import Batch, Convert, each
from .ragged import array


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch."""
    batch.require_host("numpy's arrays", '"torch" or "dlpack"')
    for output, dtype in batch.dtypes():
        if dtype == "bfloat16":
            raise ConfigError(
                f'the dtype of {output} is bfloat16, which numpy does not have: use framework="torch", "jax" or "tensorflow", or '
                'a different dtype, such as "float32"'
            )
    return each(numpy.from_dlpack, array)


def mapped(batch: Batch) -> tuple[Convert, Convert]:
    """Returns the functions that convert the engine's outputs for a function of rows, and such outputs to the batch."""
    return converter(batch), lambda outputs: outputs
