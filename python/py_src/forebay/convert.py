"""Conversion of the engine's outputs to the user's framework. Tensors keep their memory: nothing is copied."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ._forebay import Ragged, Tensor
from .errors import ConfigError, InternalError

# Types of the engine, with the names of numpy and torch. The index is the type's number in the header of a ragged
# array.
DTYPES = (
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


def converter(framework: str, devices: list[str], fields: list[list[Any]] | None) -> Callable[[Any], Any]:
    """Returns the function that converts one output of the engine to `framework`. Imports the framework.

    `fields` are the outputs in the engine's form. Without them no output is bfloat16, because no column is.
    """
    if framework == "torch":
        import torch

        if devices != ["cpu"] * len(devices) and torch.version.cuda is None:
            raise ConfigError(
                f'this torch ({torch.__version__}) is built without CUDA, but device is {", ".join(devices)}: install one with '
                'CUDA, or use framework="dlpack", or device="cpu"'
            )

        def array(row: bytes) -> torch.Tensor:
            dtype, shape, start = _header(row)
            # A bytearray, because torch's tensors are writable and bytes are not. frombuffer rejects an empty buffer.
            values = bytearray(memoryview(row)[start:])
            kind = getattr(torch, dtype)
            return torch.frombuffer(values, dtype=kind).reshape(shape) if values else torch.empty(shape, dtype=kind)

        return _outputs(torch.from_dlpack, array)
    if framework == "numpy":
        if devices != ["cpu"] * len(devices):
            raise ConfigError(
                f'numpy\'s arrays are in host memory, but device is {", ".join(devices)}: use framework="torch" or "dlpack", '
                'or device="cpu"'
            )
        for name, field in fields or ():
            for output, spec in field.get("fields", [[name, field]]):
                if spec.get("dtype") == "bfloat16":
                    raise ConfigError(
                        f'the dtype of {output} is bfloat16, which numpy does not have: use framework="torch", or another '
                        'dtype, such as "float32"'
                    )
        import numpy

        return _outputs(numpy.from_dlpack, _array)
    if framework == "dlpack":
        return _outputs(lambda tensor: tensor, _array)
    raise ConfigError(f'framework is "torch", "numpy" or "dlpack", but it is {framework!r}')


def _outputs(tensor: Callable[[Tensor], Any], array: Callable[[bytes], Any]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, Tensor):
            return tensor(value)
        if isinstance(value, Ragged):
            return [array(row) for row in value.rows]
        return value

    return convert


def _array(row: bytes) -> Any:
    """Converts one ragged array to numpy."""
    import numpy

    dtype, shape, start = _header(row)
    if dtype == "bfloat16":
        raise ConfigError('numpy has no bfloat16: use framework="torch", or another dtype')
    return numpy.frombuffer(bytearray(memoryview(row)[start:]), dtype).reshape(shape)


def _header(row: bytes) -> tuple[str, tuple[int, ...], int]:
    """Returns type, shape and offset of the values of a ragged array.

    Its header is one byte for the type, one for the number of dimensions, six unused bytes, and the dimensions as u64.
    """
    try:
        shape = struct.unpack_from(f"={row[1]}Q", row, 8)
        return DTYPES[row[0]], shape, 8 + 8 * len(shape)
    except (IndexError, struct.error) as error:
        raise InternalError(f"an array of {len(row)} bytes has a broken header: {error}") from None
