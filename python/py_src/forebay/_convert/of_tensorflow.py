"""Batches for TensorFlow: tensors without a copy, string tensors of text and bytes, lists of tensors of different shapes.

A string tensor owns its strings, so text and bytes are copied.
"""

from __future__ import annotations

from typing import Any

import numpy
import tensorflow as tf

from .._forebay import Ragged, Tensor
from .batch import Batch, Convert, on_host
from .ragged import array


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch."""
    # DLPack's functions need TensorFlow's devices, which the first operation opens.
    tf.constant(0)
    return lambda outputs: {name: _convert(value) for name, value in outputs.items()}


def mapped(batch: Batch) -> tuple[Convert, Convert]:
    """Returns the functions that convert the engine's outputs for a function of rows, and such outputs to the batch."""
    tf.constant(0)
    return (
        lambda outputs: {name: on_host(value, tf.bfloat16.as_numpy_dtype) for name, value in outputs.items()},
        lambda outputs: {name: _tensor(value) for name, value in outputs.items()},
    )


def _tensor(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return _of_array(value)
    if isinstance(value, list) and all(isinstance(item, (str, bytes)) for item in value):
        return tf.constant(value, tf.string)
    if isinstance(value, list):
        return [_of_array(item) if isinstance(item, numpy.ndarray) else item for item in value]
    return value


def _of_array(array: numpy.ndarray) -> Any:
    """Converts an array, if TensorFlow has its type: not objects, times and records."""
    try:
        return tf.convert_to_tensor(array)
    except (TypeError, ValueError):
        return array


def _convert(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tf.experimental.dlpack.from_dlpack(value.__dlpack__())
    if isinstance(value, Ragged):
        return [tf.constant(array(row, tf.bfloat16.as_numpy_dtype)) for row in value.rows]
    return tf.constant(value, tf.string) if isinstance(value, list) else tf.convert_to_tensor(value)
