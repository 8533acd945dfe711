"""Batches for TensorFlow: tensors without a copy, string tensors of text and bytes, lists of tensors of different shapes.

A string tensor owns its strings, so text and bytes are copied.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .._forebay import Ragged, Tensor
from .batch import Batch, Convert
from .ragged import array


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch."""
    # DLPack's functions need TensorFlow's devices, which the first operation opens.
    tf.constant(0)
    return lambda outputs: {name: _convert(value) for name, value in outputs.items()}


def _convert(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tf.experimental.dlpack.from_dlpack(value.__dlpack__())
    if isinstance(value, Ragged):
        return [tf.constant(array(row, tf.bfloat16.as_numpy_dtype)) for row in value.rows]
    return tf.constant(value, tf.string)
