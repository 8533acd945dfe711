"""Format of safetensors: a header in JSON, and the bytes of each tensor.

It is written and read here, not by the package of that name, which needs all bytes in memory at once: these go from the
tensors to the store and from the store to the tensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .._arguments import shown
from ..errors import ConfigError, FormatError
from .direct import Opened
from .into import filled
from .memory import with_rest

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}
"""Names of types in the format and in torch."""

_METADATA = "__metadata__"
"""Key of a header that is not the name of a tensor."""

_HEADER_MAX = 100_000_000
"""Bytes of a header that all readers accept."""

_PIECE = 64 << 20
"""Bytes that are copied at a time from a tensor that is on a device or not contiguous."""


def check(obj: Any) -> None:
    """Checks that the format can hold `obj`.

    Raises:
        ConfigError: It is not a dict of tensors by name, or a tensor's type has no name in this format.
    """
    import torch

    other = 'save it with format="torch"'
    takes = 'format="safetensors" takes a dict of tensors by name'
    if not isinstance(obj, Mapping):
        raise ConfigError(f"{takes}, and this is {shown(type(obj))}: {other}")
    for name, tensor in obj.items():
        if not isinstance(name, str) or name == _METADATA:
            raise ConfigError(f"{takes}, and {shown(name)} is not a name in this format: {other}")
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.is_meta:
            raise ConfigError(f"{takes}, and {name} is not a tensor with memory: {other}")
        if tensor.dtype not in _names():
            raise ConfigError(f'format="safetensors" has no name for {tensor.dtype}, the type of {name}: {other}')


def _names() -> dict[Any, str]:
    import torch

    return {getattr(torch, own): name for name, own in _DTYPES.items() if hasattr(torch, own)}


def size(obj: Any) -> int:
    """Returns the most bytes of the file of an object that `check` accepts."""
    return with_rest(sum(tensor.numel() * tensor.element_size() for tensor in obj.values()))


def write(obj: Any, file: Any) -> None:
    """Writes a dict of tensors by name that `check` accepts."""
    import torch

    names = _names()
    header: dict[str, Any] = {}
    end = 0
    # The largest types first, so that each tensor starts at a multiple of its element.
    order = sorted(obj, key=lambda name: (-obj[name].element_size(), name))
    for name in order:
        start, end = end, end + obj[name].numel() * obj[name].element_size()
        header[name] = {"dtype": names[obj[name].dtype], "shape": list(obj[name].shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in order:
        for piece in obj[name].detach().reshape(-1).split(max(_PIECE // obj[name].element_size(), 1)):
            if piece.numel():
                memory = piece.cpu().resolve_conj().resolve_neg().contiguous()
                file.send(memory.view(torch.uint8).numpy())


def read(opened: Opened, into: Any = None, map_location: Any = None, weights_only: bool = True) -> dict[str, Any]:
    """Reads a dict of tensors. `weights_only` makes no difference: the format has nothing else.

    Raises:
        FormatError: The file has a different format.
        ConfigError: `map_location` is a function or a dict, or `into` has different tensors.
    """
    if callable(map_location) or isinstance(map_location, dict):
        raise ConfigError("map_location is the name of a device for safetensors, since its tensors have no device")
    with opened.table() as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= _HEADER_MAX:
            raise FormatError(f"a header of safetensors has at most {_HEADER_MAX} bytes, but this one has {length}")
        header = file.read(length)
    saved, positions = _empty(header, 8 + length, opened.part.size)
    loaded = filled(opened, saved, lambda tensor: positions[id(tensor)], into)
    return loaded if map_location is None else {name: tensor.to(map_location) for name, tensor in loaded.items()}


def _empty(text: bytes, start: int, size: int) -> tuple[dict[str, Any], dict[int, int]]:
    """Returns the tensors of a header, with memory without contents, and their offsets in a file of `size` bytes."""
    import torch

    saved, positions = {}, {}
    try:
        header = json.loads(text)
        header.pop(_METADATA, None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensor = torch.empty(entry["shape"], dtype=getattr(torch, _DTYPES[entry["dtype"]]))
            if tensor.numel() * tensor.element_size() != end - begin:
                raise ValueError(f"{name} has {end - begin} bytes for a shape of {entry['shape']}")
            if begin < 0 or start + end > size:
                raise ValueError(f"{name} is cut off")
            saved[name], positions[id(tensor)] = tensor, start + begin
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise FormatError(f"a header of safetensors is damaged: {error!r}") from None
    return saved, positions
