"""Memory of tensors as bytes: the memory of the tensors in an object is sent as it is."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from typing import Any


class Memory:
    """Storages of the tensors in the dicts, lists and tuples of an object, by their addresses.

    It keeps them alive. Tensors in objects of different classes, and on devices, are not in it.
    """

    def __init__(self, value: Any) -> None:
        storages = {storage.data_ptr(): storage for storage in _storages(value) if storage.nbytes()}
        self._starts = sorted(storages)
        self._arrays = [bytes_of(storages[start]).numpy() for start in self._starts]

    def find(self, data: Any) -> Any | None:
        """Returns an array of the same memory as the buffer `data`; None if that belongs to a different object."""
        import numpy

        start, _ = numpy.frombuffer(data, numpy.uint8).__array_interface__["data"]
        number = bisect.bisect_right(self._starts, start) - 1
        if number < 0:
            return None
        begin = start - self._starts[number]
        found = self._arrays[number][begin : begin + len(data)]
        return found if len(found) == len(data) else None


def size_of(value: Any) -> int:
    """Returns the most bytes of a file with the tensors in the dicts, lists and tuples of an object, each storage once.

    Tensors in objects of different classes are not known.
    """
    return with_rest(sum({(each.device, each.data_ptr()): each.nbytes() for each in _storages(value, True)}.values()))


def with_rest(size: int) -> int:
    """Returns the most bytes of a file with this many bytes of tensors: names and all the rest are small next to them."""
    return size + size // 16 + (1 << 20)


def _storages(value: Any, on_devices: bool = False) -> Iterator[Any]:
    import torch

    if hasattr(value, "to_local"):
        value = value.to_local()
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        if value.layout is torch.strided and not value.is_meta and (on_devices or value.device.type == "cpu"):
            yield value.untyped_storage()
    elif isinstance(value, (Mapping, list, tuple)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _storages(each, on_devices)


def bytes_of(storage: Any) -> Any:
    """Returns the memory of a storage as a tensor of bytes."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)

