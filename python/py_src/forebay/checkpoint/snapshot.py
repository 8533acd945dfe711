"""Copy of an object in host memory, which training may not change any more."""

from __future__ import annotations

import io
import pickle
from typing import Any

from .memory import bytes_of


def snapshot(value: Any) -> Any:
    """Returns a copy with all tensors on the CPU. Tensors that share memory share it in the copy too.

    This is all that training waits for when it does not wait for the save. Everything but tensors is pickled, as torch.save
    would, so tensors within objects of any class are found, and none is copied on its device.

    Raises:
        Exception: A part of the object cannot be pickled.
    """
    copies = _Copies()
    skeleton = io.BytesIO()
    _Pickler(skeleton, copies).dump(value)
    copies.finish()
    skeleton.seek(0)
    return _Unpickler(skeleton, copies).load()


class _Copies:
    """Copies of tensors and storages, by numbers in the order of their first use."""

    def __init__(self) -> None:
        self.copied: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, Any] = {}
        # The originals: a new object may not take the address of one that is gone.
        self._held: list[Any] = []
        self._streams: set[Any] = set()

    def number_of(self, value: Any) -> int | None:
        """Returns the number of the copy of a tensor or storage, and None for everything else."""
        import torch

        if not isinstance(value, (torch.Tensor, torch.UntypedStorage, torch.TypedStorage)):
            return None
        if id(value) not in self._numbers:
            copied = self._tensor(value) if isinstance(value, torch.Tensor) else self._any_storage(value)
            self._held.append(value)
            self._numbers[id(value)] = len(self.copied)
            self.copied.append(copied)
        return self._numbers[id(value)]

    def finish(self) -> None:
        """Waits for the copies from devices."""
        for stream in self._streams:
            stream.synchronize()

    def _tensor(self, tensor: Any) -> Any:
        import torch

        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
        if tensor.is_meta:
            result = tensor.detach().clone()
        elif not is_plain or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
            # Its memory is not all that it has.
            result = tensor.detach().to("cpu", copy=True)
        else:
            storage = self._storage(tensor.untyped_storage())
            result = torch.empty(0, dtype=tensor.dtype)
            result.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        if type(tensor) is torch.nn.Parameter:
            result = torch.nn.Parameter(result, requires_grad=tensor.requires_grad)
        else:
            result.requires_grad_(tensor.requires_grad)
        if tensor.__dict__:
            result.__dict__.update(snapshot(tensor.__dict__))
        return result

    def _any_storage(self, storage: Any) -> Any:
        import torch

        if isinstance(storage, torch.UntypedStorage):
            return self._storage(storage)
        copied = self._storage(storage._untyped_storage)
        return torch.TypedStorage(wrap_storage=copied, dtype=storage.dtype, _internal=True)

    def _storage(self, storage: Any) -> Any:
        """Returns the copy of the memory of tensors. torch keeps pinned memory for the next copy."""
        import torch

        if storage._cdata not in self._storages:
            pinned = storage.device.type == "cuda"
            source = bytes_of(storage)
            target = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=pinned)
            target.copy_(source, non_blocking=pinned)
            if pinned:
                self._streams.add(torch.cuda.current_stream(storage.device))
            self._held.append(storage)
            self._storages[storage._cdata] = target.untyped_storage()
        return self._storages[storage._cdata]


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, copies: _Copies) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._copies = copies

    def persistent_id(self, value: Any) -> int | None:
        return self._copies.number_of(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, copies: _Copies) -> None:
        super().__init__(file)
        self._copies = copies

    def persistent_load(self, number: int) -> Any:
        return self._copies.copied[number]
