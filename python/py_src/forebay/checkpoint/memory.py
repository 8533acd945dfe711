"""Memory of tensors: as bytes to send, as a copy that training cannot change any more, and as the targets for the bytes of a part."""

from __future__ import annotations

import bisect
import io
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
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


def snapshot(value: Any) -> Any:
    """Returns a copy with all tensors on the CPU. Tensors that share memory share it in the copy too.

    This is all that training waits for when it does not wait for the save. The value is pickled as torch.save does, so tensors
    within objects of any class are found. Their storages are copied, and none on its device.
    """
    copies = _Copies()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return copies.key_of(value)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: Any) -> Any:
            return copies.storage_of(key)

    skeleton = io.BytesIO()
    Pickler(skeleton, pickle.HIGHEST_PROTOCOL).dump(value)
    copies.finish()
    skeleton.seek(0)
    return Unpickler(skeleton).load()


class _Copies:
    """Copies of storages."""

    def __init__(self) -> None:
        self._copied: dict[int, Any] = {}
        # The originals: a new storage may not take the address of one that is gone.
        self._held: list[Any] = []
        self._streams: set[Any] = set()

    def key_of(self, value: Any) -> tuple[int, Any] | None:
        """Returns the key of the copy of a storage, and None for everything else. torch keeps pinned memory for the next copy."""
        import torch

        if not isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
            return None
        is_typed = isinstance(value, torch.TypedStorage)
        storage = value._untyped_storage if is_typed else value
        if storage._cdata not in self._copied:
            pinned = storage.device.type == "cuda"
            target = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=pinned)
            target.copy_(bytes_of(storage), non_blocking=pinned)
            if pinned:
                self._streams.add(torch.cuda.current_stream(storage.device))
            self._held.append(storage)
            self._copied[storage._cdata] = target.untyped_storage()
        return storage._cdata, value.dtype if is_typed else None

    def storage_of(self, key: tuple[int, Any]) -> Any:
        """Returns the copy that has a key."""
        import torch

        number, dtype = key
        copied = self._copied[number]
        return copied if dtype is None else torch.TypedStorage(wrap_storage=copied, dtype=dtype, _internal=True)

    def finish(self) -> None:
        """Waits for the copies from devices."""
        for stream in self._streams:
            stream.synchronize()


@dataclass
class Target:
    """Bytes of a part that belong to one tensor."""

    begin: int
    """First byte in the part."""
    end: int
    make: Callable[[], Any]
    """Returns memory for the bytes, as an array of numpy. It is called when the first of them is requested."""
    done: Callable[[], None]
    """Called when all bytes have arrived and are as they were saved."""


class Targets:
    """Targets of the tensors of one load."""

    def __init__(self) -> None:
        self._earlier, self._expected = _Ranges(), _Ranges()

    def of(self, pieces: Iterable[tuple[int, Any, Any]]) -> list[Target]:
        """Returns the targets of tensors, in the order of the part. Targets of the calls before may be in flight: they are
        complete before the new ones are.

        Args:
            pieces: For each tensor the first byte of its storage in the part, a tensor of the shape, the strides and the
                offset that it has there, and the tensor to fill, which has the same shape.
        """
        made = [_Piece(*piece) for piece in pieces]
        made = [piece for piece in made if piece.length]
        # A copy to memory that a request fills at the same time would change the bytes before they are compared.
        last: _Piece | None = None
        for piece in sorted((piece for piece in made if piece.memory), key=lambda piece: piece.memory.start):
            if last is not None and piece.memory.start < last.memory.stop:
                last.is_alike = piece.is_alike = False
            if last is None or piece.memory.stop > last.memory.stop:
                last = piece
            if self._earlier.overlap(piece.memory):
                piece.is_alike = False
        for piece in made:
            self._earlier.add(piece.memory)
        return [piece.target() for piece in sorted(made, key=lambda piece: piece.begin)]

    def expect(self, into: Any) -> None:
        """Notes that bytes will arrive in the memory of a tensor."""
        self._expected.add(_addresses(into))

    def are_expected_in(self, into: Any) -> bool:
        """Returns true if bytes that were noted are for some of the memory of a tensor."""
        return self._expected.overlap(_addresses(into))


class _Ranges:
    """Union of ranges of addresses."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def overlap(self, other: range) -> bool:
        """Returns true if an address of `other` is in a range."""
        begin, end = self._touched(other)
        return begin < end

    def add(self, other: range) -> None:
        if other:
            begin, end = self._touched(other)
            start = min([other.start, *self._starts[begin:end]])
            stop = max([other.stop, *self._stops[begin:end]])
            self._starts[begin:end], self._stops[begin:end] = [start], [stop]

    def _touched(self, other: range) -> tuple[int, int]:
        """Returns the numbers of the ranges with addresses of `other`: the first one, and the one after the last."""
        begin = bisect.bisect_right(self._stops, other.start)
        return begin, max(begin, bisect.bisect_left(self._starts, other.stop))


class _Piece:
    """Bytes of a tensor in a part and in memory.

    `begin` is its first byte in the part, `length` its bytes there, from the first element to the last, `memory` the
    addresses of its memory, which are none for a device. If `is_alike`, its bytes are the same in both.
    """

    def __init__(self, at: int, saved: Any, into: Any) -> None:
        self._saved, self._into = saved, into.detach()
        self.length = _span(saved)
        self.begin = at + saved.storage_offset() * saved.element_size()
        self.memory = _addresses(into) if _is_plain(into) else range(0)
        self.is_alike = bool(self.memory) and _is_alike(saved, into)

    def target(self) -> Target:
        import torch

        if self.is_alike:
            start = self._into.storage_offset() * self._into.element_size()
            memory = bytes_of(self._into.untyped_storage())[start : start + self.length]
            return Target(self.begin, self.begin + self.length, memory.numpy, lambda: None)
        copied: list[Any] = []

        def make() -> Any:
            copied.append(torch.empty(self.length, dtype=torch.uint8))
            return copied[0].numpy()

        def done() -> None:
            saved = copied.pop().view(self._saved.dtype).as_strided(self._saved.size(), self._saved.stride())
            self._into.copy_(saved)

        return Target(self.begin, self.begin + self.length, make, done)


def _addresses(tensor: Any) -> range:
    """Returns the addresses of the memory of a tensor, which differ between devices; none if it has no memory of this kind."""
    import torch

    start = tensor.data_ptr() if tensor.layout is torch.strided and not tensor.is_meta else 0
    return range(start, start + _span(tensor)) if start else range(0)


def _span(tensor: Any) -> int:
    """Returns the bytes from the first element to the end of the last one."""
    if not tensor.numel():
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))) * tensor.element_size()


def _is_plain(tensor: Any) -> bool:
    """Returns true for a tensor that has memory of the host and nothing else."""
    import torch

    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    return is_plain and tensor.device.type == "cpu" and not tensor.is_quantized


def _is_alike(saved: Any, into: Any) -> bool:
    """Returns true if the memory of both tensors has the same elements in the same order, without gaps."""
    if into.is_conj() or into.is_neg() or into.dtype != saved.dtype:
        return False
    if saved.is_contiguous() and into.is_contiguous():
        return True
    order = sorted(range(saved.dim()), key=lambda dimension: -saved.stride(dimension))
    return saved.permute(order).is_contiguous() and into.permute(order).is_contiguous()
