"""Parts that are fetched into the memory of tensors.

A block that belongs to one tensor alone arrives in its memory, and is compared with its digest there. A block with the end of
a tensor and the start of the next one arrives in other memory and is divided.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..files import StoreOptions
from .commit import Part
from .memory import bytes_of
from .parts import Blocks, PartReader, Sequential

__all__ = ["Direct", "Opened", "Target", "targets_of"]

_IN_FLIGHT = 32
"""Blocks in flight. Most of them need no memory but the tensors'."""


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


class _Open:
    """Target of which some blocks are not there yet."""

    def __init__(self, target: Target, blocks: int) -> None:
        self.target, self._missing, self._memory = target, blocks, None

    def memory(self) -> Any:
        if self._memory is None:
            self._memory = self.target.make()
        return self._memory

    def received(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.target.done()
            self._memory = None


class Direct:
    """Blocks of a part, each of which is fetched once: to be read, or into memory that is given.

    As a source of a `PartReader` it keeps the blocks that were read until `drop`.
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._kept: dict[int, bytes] = {}
        self._ahead: dict[int, Any] = {}

    def numbers(self, begin: int, end: int) -> range:
        """Returns the numbers of the blocks that have the bytes from `begin` to `end`."""
        size = self._blocks.block_bytes
        return range(begin // size, -(-end // size))

    def start(self, numbers: Iterable[int]) -> None:
        """Requests blocks that will be read."""
        for number in numbers:
            if number not in self._kept and number not in self._ahead:
                self._ahead[number] = self._blocks.start(number)

    def block(self, number: int) -> bytes:
        if number not in self._kept:
            self.start([number])
            self._kept[number] = self._blocks.finish(number, self._ahead.pop(number))
        return self._kept[number]

    def drop(self, before: int) -> None:
        """Drops the blocks before the block `before`."""
        for blocks in (self._kept, self._ahead):
            for number in [number for number in blocks if number < before]:
                del blocks[number]

    def fill(self, targets: Iterable[Target]) -> None:
        """Fetches the bytes of targets, in the order of the part.

        Raises:
            ChecksumError: A block is damaged. Some of the memory is overwritten by then, and none of it changes later.
        """
        by_block: dict[int, list[_Open]] = {}
        for target in targets:
            numbers = self.numbers(target.begin, target.end)
            opened = _Open(target, len(numbers))
            for number in numbers:
                by_block.setdefault(number, []).append(opened)
        in_flight: collections.deque[_Block] = collections.deque()
        try:
            for number in sorted(by_block):
                if len(in_flight) == _IN_FLIGHT:
                    in_flight.popleft().receive()
                in_flight.append(self._request(number, by_block.pop(number)))
            while in_flight:
                in_flight.popleft().receive()
        finally:
            # After a failure nothing may arrive in tensors that the caller uses again.
            for block in in_flight:
                block.stop()

    def _request(self, number: int, opened: list[_Open]) -> _Block:
        begin = number * self._blocks.block_bytes
        end = begin + self._blocks.length(number)
        target = opened[0].target
        is_sole = len(opened) == 1 and target.begin <= begin and end <= target.end
        if not is_sole or number in self._kept or number in self._ahead or number == 0:
            self.start([number])
            return _Divided(self, number, opened, begin)
        return _Filled(self._blocks, number, opened[0], opened[0].memory()[begin - target.begin : end - target.begin])


class _Block:
    """Block in flight."""

    def receive(self) -> None:
        """Waits for the block, and compares it with its digest."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ends the request. Nothing is written after that."""


class _Divided(_Block):
    """Block with the bytes of several targets, or with others too."""

    def __init__(self, direct: Direct, number: int, opened: list[_Open], begin: int) -> None:
        self._direct, self._number, self._opened, self._begin = direct, number, opened, begin

    def receive(self) -> None:
        import numpy

        is_read = self._number in self._direct._kept
        block = numpy.frombuffer(self._direct.block(self._number), numpy.uint8)
        if not is_read:
            self._direct._kept.pop(self._number)
        for opened in self._opened:
            target = opened.target
            begin, end = max(target.begin, self._begin), min(target.end, self._begin + len(block))
            opened.memory()[begin - target.begin : end - target.begin] = block[begin - self._begin : end - self._begin]
            opened.received()


class _Filled(_Block):
    """Block that arrives in the memory of its target."""

    def __init__(self, blocks: Blocks, number: int, opened: _Open, memory: Any) -> None:
        self._blocks, self._number, self._opened = blocks, number, opened
        self._request = blocks.fill(number, memory)

    def receive(self) -> None:
        try:
            self._blocks.compare(self._number, self._blocks.digest(self._request))
        except BaseException:
            self.stop()
            raise
        self._opened.received()

    def stop(self) -> None:
        self._request.stop()


class Opened:
    """Part that is opened to be loaded.

    Raises:
        NotFoundError, ChecksumError: As `Blocks`.
    """

    def __init__(self, url: str, part: Part, store: StoreOptions | None) -> None:
        self.url, self.part = f"{url}/{part.name}", part
        self._blocks = Blocks(url, part, store)
        self.direct = Direct(self._blocks)

    def whole(self) -> PartReader:
        """Returns a file to read from its start to its end."""
        return PartReader(Sequential(self._blocks), self.part)

    def table(self, span: range | None = None) -> PartReader:
        """Returns a file, or the bytes `span` of it, to read a few places of, whose blocks `direct` does not fetch again."""
        return PartReader(self.direct, self.part, span)


def targets_of(places: Iterable[tuple[int, Any, Any]]) -> list[Target]:
    """Returns the targets of tensors.

    Args:
        places: For each tensor the first byte of its storage in the part, a tensor of the shape, the strides and the offset
            that it has there, and the tensor to fill, which has the same shape.
    """
    made = [_Place(*place) for place in places]
    made = [place for place in made if place.length]
    # A copy to memory that a request fills at the same time would change the bytes before they are compared.
    last: _Place | None = None
    for place in sorted((place for place in made if place.memory), key=lambda place: place.memory.start):
        if last is not None and place.memory.start < last.memory.stop:
            last.is_alike = place.is_alike = False
        if last is None or place.memory.stop > last.memory.stop:
            last = place
    return [place.target() for place in sorted(made, key=lambda place: place.begin)]


class _Place:
    """Place of a tensor in a part and in memory.

    `begin` is its first byte in the part, `length` its bytes there, from the first element to the last, `memory` the
    addresses of its memory, which are none for a device. If `is_alike`, its bytes are the same in both.
    """

    def __init__(self, at: int, saved: Any, into: Any) -> None:
        self._saved, self._into = saved, into.detach()
        self.length = _span(saved)
        self.begin = at + saved.storage_offset() * saved.element_size()
        start = into.data_ptr() if _is_plain(into) else 0
        self.memory = range(start, start + _span(into)) if start else range(0)
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


def _span(tensor: Any) -> int:
    """Returns the bytes from the first element to the end of the last one."""
    if not tensor.numel():
        return 0
    return (1 + sum((size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride()))) * tensor.element_size()


def _is_plain(tensor: Any) -> bool:
    """Returns true for a tensor whose memory is that of the host and all that it has."""
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
