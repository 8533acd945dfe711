"""Batches for PyTorch: tensors without a copy, lists of text and bytes, lists of tensors of different shapes."""

from __future__ import annotations

import torch

from ..errors import ConfigError
from .batch import Batch, Convert, each
from .ragged import header


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch.

    Raises:
        ConfigError: The device is a CUDA device, which this torch does not have.
    """
    if not batch.is_on_host and torch.version.cuda is None:
        raise ConfigError(
            f'this torch ({torch.__version__}) is built without CUDA, but device is {", ".join(batch.devices)}: install one with '
            'CUDA, or use framework="dlpack", or device="cpu"'
        )
    return each(torch.from_dlpack, _array)


def _array(row: bytes) -> torch.Tensor:
    """Converts one ragged array."""
    dtype, shape, start = header(row)
    # A bytearray, because torch's tensors are writable and bytes are not. frombuffer rejects an empty buffer.
    values = bytearray(memoryview(row)[start:])
    kind = getattr(torch, dtype)
    return torch.frombuffer(values, dtype=kind).reshape(shape) if values else torch.empty(shape, dtype=kind)
