"""Batches for JAX.

Tensors in host memory become arrays on JAX's default device, uncommitted, so that a computation may place them
elsewhere. They share the batch's memory if that device is the CPU; JAX keeps the memory until the last computation that
reads it is complete. Types that JAX does not have, such as int64 without `jax_enable_x64`, are converted, which copies.
With a sharding, see `sharding.py`. Tensors on a CUDA device keep their device and memory.

Lists stay on the host: text, bytes, and numpy arrays for arrays of different shapes, since JAX compiles for each shape.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import ml_dtypes
import numpy

from ..errors import ConfigError
from .batch import Batch, Convert, each, on_host
from .ragged import array
from .sharding import Sharded


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch."""
    if not batch.is_on_host and batch.sharding is None:
        return each(jax.dlpack.from_dlpack, partial(array, bfloat16=ml_dtypes.bfloat16))
    sharded = None if batch.sharding is None else Sharded(batch)

    def convert(outputs: dict[str, Any]) -> dict[str, Any]:
        values = _on_host(outputs)
        if sharded is not None:
            sharded.fill(values)
        arrays = {name: value for name, value in values.items() if isinstance(value, numpy.ndarray)}
        # One call for all arrays takes less time than one for each. Merged, since JAX sorts the names.
        return values | (jax.device_put(arrays) if sharded is None else sharded(arrays))

    return convert


def mapped(batch: Batch) -> tuple[Convert, Convert]:
    """Returns the functions that convert the engine's outputs for a function of rows, and such outputs to the batch."""
    if batch.sharding is not None:
        raise ConfigError("map gives batches without a sharding: leave sharding out, and call jax.device_put in transform")

    def to_batch(outputs: dict[str, Any]) -> dict[str, Any]:
        arrays = {name: value for name, value in outputs.items() if isinstance(value, numpy.ndarray)}
        # Types of JAX, bfloat16 among them.
        return outputs | jax.device_put({name: value for name, value in arrays.items() if value.dtype.kind in "biufcV"})

    return _on_host, to_batch


def _on_host(outputs: dict[str, Any]) -> dict[str, Any]:
    return {name: on_host(value, ml_dtypes.bfloat16) for name, value in outputs.items()}
