"""Parts that are fetched into the memory of tensors.

A block that belongs to one tensor alone arrives in its memory, and is compared with its digest there. A block with the end of
a tensor and the start of the next one arrives in separate memory and is divided. The blocks of all parts of a load pass one
window, so that requests for a part are in flight before the part before it is complete.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..files import StoreOptions
from .commit import CheckpointPart
from .parts import Blocks, Buffers, Fetched, Filled, PartReader, Sequential
from .memory import Target

_IN_FLIGHT = 32
"""Blocks in flight. Most of them need no memory but the tensors'."""


class BlockWindow:
    """Blocks in flight, which are received in the order of their requests: all of them at the end of a `with` statement.

    Raises:
        ChecksumError: A block is damaged. Some of the memory is overwritten by then, and none of it changes later.
    """

    def __init__(self) -> None:
        self._blocks: collections.deque[_Block] = collections.deque()

    def __enter__(self) -> BlockWindow:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self.drain()
        finally:
            # After a failure nothing may arrive in tensors that the caller uses again.
            for block in self._blocks:
                block.stop()

    def add(self, request: Callable[[], _Block]) -> None:
        """Requests a block when there is room for it."""
        if len(self._blocks) == _IN_FLIGHT:
            self._blocks.popleft().receive()
        self._blocks.append(request())

    def then(self, action: Callable[[], None]) -> None:
        """Calls a function when all blocks before are received."""
        self.add(lambda: _Block(action))

    def drain(self) -> None:
        """Receives all blocks."""
        while self._blocks:
            self._blocks.popleft().receive()


class _PendingTarget:
    """Target with blocks that have not arrived."""

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
    """Blocks of a part, each fetched once: to be read, or into memory that is given.

    As a source of a `PartReader` it keeps the blocks that were read until `drop`.
    """

    def __init__(self, blocks: Blocks, buffers: Buffers) -> None:
        self._blocks, self._buffers = blocks, buffers
        self._fetched: dict[int, Fetched] = {}

    def numbers(self, begin: int, end: int) -> range:
        """Returns the numbers of the blocks that have the bytes from `begin` to `end`."""
        size = self._blocks.block_bytes
        return range(begin // size, -(-end // size))

    def start(self, numbers: Iterable[int]) -> None:
        """Requests blocks that will be read."""
        for number in numbers:
            if number not in self._fetched:
                self._fetched[number] = Fetched(self._blocks, number, self._buffers)

    def block(self, number: int) -> Any:
        self.start([number])
        return self._fetched[number].wait()

    def drop(self, before: int) -> None:
        """Drops the blocks before the block `before`."""
        for number in [number for number in self._fetched if number < before]:
            del self._fetched[number]

    def fill(self, targets: Iterable[Target]) -> None:
        """Fetches the bytes of targets, in the order of the part."""
        with BlockWindow() as window:
            self.request(targets, window)

    def request(self, targets: Iterable[Target], into: BlockWindow) -> None:
        """Requests the bytes of targets through a window, in the order of the part."""
        by_block: dict[int, list[_PendingTarget]] = {}
        for target in targets:
            numbers = self.numbers(target.begin, target.end)
            pending = _PendingTarget(target, len(numbers))
            for number in numbers:
                by_block.setdefault(number, []).append(pending)
        for number in sorted(by_block):
            into.add(functools.partial(self._request, number, by_block[number]))

    def _request(self, number: int, pending: list[_PendingTarget]) -> _Block:
        begin = number * self._blocks.block_bytes
        end = begin + self._blocks.length(number)
        target = pending[0].target
        is_sole = len(pending) == 1 and target.begin <= begin and end <= target.end
        fetched = self._fetched.get(number)
        if not is_sole or fetched is not None or self._blocks.has(number):
            # The window has it also after `drop`, and nothing else has it if it was not there before.
            return _divided(fetched or Fetched(self._blocks, number, self._buffers), pending, begin)
        return _direct(self._blocks, number, pending[0], pending[0].memory()[begin - target.begin : end - target.begin])


class _Block(NamedTuple):
    """Block in flight."""

    receive: Callable[[], None]
    """Waits for the block, and compares it with its digest."""
    stop: Callable[[], None] = lambda: None
    """Ends the request. Nothing is written after that."""


def _divided(fetched: Fetched, targets: list[_PendingTarget], start: int) -> _Block:
    """Returns a block with the bytes of several targets, or with more bytes too."""

    def receive() -> None:
        block = fetched.wait()
        for pending in targets:
            target = pending.target
            begin, end = max(target.begin, start), min(target.end, start + len(block))
            pending.memory()[begin - target.begin : end - target.begin] = block[begin - start : end - start]
            pending.received()

    return _Block(receive)


def _direct(blocks: Blocks, number: int, pending: _PendingTarget, memory: Any) -> _Block:
    """Returns a block that arrives in the memory of its target."""
    filled = Filled(blocks, number, memory)

    def receive() -> None:
        try:
            filled.wait()
        except BaseException:
            filled.stop()
            raise
        pending.received()

    return _Block(receive, filled.stop)


class Opened:
    """Part that is opened to be loaded."""

    def __init__(self, url: str, part: CheckpointPart, store: StoreOptions | None, buffers: Buffers | None = None) -> None:
        self.url: str = f"{url}/{part.name}"
        self.part: CheckpointPart = part
        self._blocks = Blocks(url, part, store)
        self.direct: Direct = Direct(self._blocks, buffers or Buffers())

    def whole(self) -> PartReader:
        """Returns a file to read from its start to its end."""
        return PartReader(Sequential(self._blocks).block, self.part)

    def table(self, span: range | None = None) -> PartReader:
        """Returns a file, or the bytes `span` of it, to read a few ranges of; `direct` does not fetch their blocks again."""
        return PartReader(self.direct.block, self.part, span)
