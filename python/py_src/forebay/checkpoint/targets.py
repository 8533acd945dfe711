"""Offsets of tensors in a part, and the memory that their bytes arrive in."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .memory import bytes_of


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
