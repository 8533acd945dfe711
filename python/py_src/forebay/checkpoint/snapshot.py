"""Copy of an object in host memory, which training may not change any more."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["snapshot"]


def snapshot(value: Any) -> Any:
    """Returns a copy with all tensors on the CPU. Tensors that share memory share it in the copy too.

    This is all that training waits for when it does not wait for the save.
    """
    return _Copier().copy(value)


class _Copier:
    def __init__(self) -> None:
        self._memo: dict[int, Any] = {}
        """Copies by the `id` of their sources, as in `copy.deepcopy`: the same object twice stays one object."""
        self._storages: dict[tuple[Any, int], Any] = {}
        self._kept: list[Any] = []
        """Objects whose `id` is in use."""

    def copy(self, value: Any) -> Any:
        import torch

        if value is None or isinstance(value, (bool, int, float, str, bytes)):
            return value
        if id(value) in self._memo:
            return self._memo[id(value)]
        if isinstance(value, torch.Tensor):
            copied = self._tensor(value)
        elif isinstance(value, Mapping) and hasattr(value, "__setitem__"):
            # A copy of its type, such as the OrderedDict of a module, which has attributes too.
            copied = copy.copy(value)
            self._remember(value, copied)
            for key in list(copied):
                copied[key] = self.copy(copied[key])
            return copied
        elif type(value) is list:
            copied = []
            self._remember(value, copied)
            copied.extend(map(self.copy, value))
            return copied
        elif type(value) is tuple:
            copied = tuple(map(self.copy, value))
        else:
            return copy.deepcopy(value, self._memo)
        self._remember(value, copied)
        return copied

    def _remember(self, value: Any, copied: Any) -> None:
        self._memo[id(value)] = copied
        self._kept.append(value)

    def _tensor(self, tensor: Any) -> Any:
        import torch

        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
        if not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            return copy.deepcopy(tensor.detach(), self._memo).cpu()
        storage = tensor.untyped_storage()
        key = (storage.device, storage.data_ptr()) if storage.nbytes() else (storage.device, -id(tensor))
        if key not in self._storages:
            self._kept.append(storage)
            self._storages[key] = storage.clone() if storage.device.type == "cpu" else storage.cpu()
        copied = torch.empty(0, dtype=tensor.dtype)
        copied.set_(self._storages[key], tensor.storage_offset(), tensor.size(), tensor.stride())
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(copied, requires_grad=tensor.requires_grad)
        return copied.requires_grad_(tensor.requires_grad)
