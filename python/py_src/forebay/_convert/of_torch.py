"""Batches for PyTorch: tensors without a copy, lists of text and bytes, lists of tensors of different shapes."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import ConfigError
from .batch import Batch, Convert, each
from .ragged import header, writable


def converter(batch: Batch) -> Convert:
    """Returns the function that converts a batch."""
    if not batch.is_on_host and torch.version.cuda is None:
        raise ConfigError(
            f'this torch ({torch.__version__}) is built without CUDA, but device is {", ".join(batch.devices)}: install one with '
            'CUDA, or use framework="dlpack", or device="cpu"'
        )
    return each(torch.from_dlpack, _array, torch.from_numpy)


def mapped(batch: Batch) -> tuple[Convert, Convert]:
    """Returns the functions that convert the engine's outputs for a function of rows, and such outputs to the batch."""
    return converter(batch), lambda outputs: {name: _tensor(value) for name, value in outputs.items()}


def _tensor(value: Any) -> Any:
    """Converts an array of numpy, if torch has its type."""
    is_array = type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "O") in "biufc"
    return torch.from_numpy(value) if is_array else value


def _array(row: bytes | bytearray) -> torch.Tensor:
    """Converts one ragged array."""
    dtype, shape, start = header(row)
    # frombuffer rejects an empty buffer.
    values = writable(row, start)
    kind = getattr(torch, dtype)
    return torch.frombuffer(values, dtype=kind).reshape(shape) if values else torch.empty(shape, dtype=kind)
