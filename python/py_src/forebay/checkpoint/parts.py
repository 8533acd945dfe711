"""Parts of a checkpoint: files of blocks with digests.

The digests are computed as a part is written, and each block is compared before any of its bytes are returned.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from .._forebay import hex_digest
from ..errors import ChecksumError, NotFoundError
from ..files import FileWriter, StoreOptions
from ..files.opened import PositionedFile
from ..files.stores import opened
from . import commit
from .commit import HASH, CheckpointPart

_AHEAD_MAX = 8
"""Blocks that are fetched ahead of sequential reads."""

_FRONT_MAX = 1 << 20
"""Bytes of a first block that is fetched as its part is opened."""

_KEPT = 3
"""Blocks that stay in memory after they were read: torch returns to the table of a file and to the headers of records."""


class PartWriter(FileWriter):
    """Part under construction. It appears when it is closed; `part` describes it then."""

    def __init__(self, url: str, name: str, store: StoreOptions | None = None, size: int | None = None) -> None:
        super().__init__(f"{url}/{name}", store, size)
        self._name, self._block_bytes = name, commit.BLOCK
        self._digests: list[str] = []
        self.part: CheckpointPart | None = None

    def write(self, data: Any, /) -> int:
        self._check()
        with memoryview(data).cast("B") as view:
            self._cut(view, bytes)
            return len(view)

    def send(self, array: Any) -> None:
        """Appends the memory of `array`, an array of bytes of numpy, and sends whole blocks of it without a copy.

        The memory may not change until the file is closed.
        """
        self._check()
        self._cut(array, lambda block: block)

    def _cut(self, data: Any, own: Callable[[Any], Any]) -> None:
        """Cuts bytes into blocks. `own` returns the bytes to send of a whole block."""
        at = 0
        while at < len(data):
            end = at + self._block_bytes - len(self._buffer)
            if end - at == self._block_bytes <= len(data) - at:
                self._append(own(data[at:end]))
            else:
                self._buffer += memoryview(data[at:end])
                if len(self._buffer) == self._block_bytes:
                    self._send()
            at = end
        self._at += len(data)

    def _send(self) -> None:
        if self._buffer:
            block, self._buffer = bytes(self._buffer), bytearray()
            self._append(block)

    def _append(self, block: Any) -> None:
        """Sends a block, in bytes or in an array that does not change."""
        if isinstance(block, bytes):
            self._digests.append(hex_digest(HASH, block))
            self._upload.write(block)
        else:
            self._digests.append(self._upload.send(block, HASH))

    def flush(self) -> None:
        """Does nothing: blocks are sent as they are complete."""

    def close(self) -> None:
        is_new = not self.closed and self._upload is not None
        super().close()
        if is_new:
            self.part = CheckpointPart(self._name, self._at, tuple(self._digests), self._block_bytes)


class Buffers:
    """Arrays for blocks, which are reused: the first use of fresh memory takes longer than a fast network."""

    def __init__(self) -> None:
        self._free: list[Any] = []

    def take(self, size: int) -> Any:
        """Returns an array of at least `size` bytes."""
        import numpy

        fits = next((at for at, array in enumerate(self._free) if len(array) >= size), None)
        return numpy.zeros(size, numpy.uint8) if fits is None else self._free.pop(fits)

    def give(self, array: Any) -> None:
        """Takes back an array that is not used any more."""
        self._free.append(array)


class Blocks:
    """Blocks of a part in a store.

    Raises:
        NotFoundError: The commit has the part, and the store does not.
        ChecksumError: Its size is wrong.
    """

    def __init__(self, url: str, part: CheckpointPart, store: StoreOptions | None) -> None:
        self._url, self._part = f"{url}/{part.name}", part
        first = min(part.size, part.block_bytes)
        # A larger block is fetched with the rest, into their kind of memory.
        self._has_front = first <= _FRONT_MAX
        try:
            self._ranges = opened(store).open(self._url, first if self._has_front else 1)
        except NotFoundError as error:
            raise NotFoundError(f"{self._url} is missing, although the checkpoint's commit names it: load a different step") from error
        self.front: bytes = self._ranges.front()
        if self._ranges.size != part.size:
            raise ChecksumError(
                f"{self._url} has {self._ranges.size} bytes instead of {part.size}: load a different step"
            )
        self.block_bytes: int = part.block_bytes

    def __len__(self) -> int:
        return len(self._part.digests)

    def length(self, number: int) -> int:
        """Returns the bytes of a block."""
        return min(self.block_bytes, self._part.size - number * self.block_bytes)

    def has(self, number: int) -> bool:
        """Returns true for a block that has arrived as the part was opened."""
        return number == 0 and self._has_front

    def fill(self, number: int, memory: Any) -> Any:
        """Requests a block into `memory`, an array of numpy of its length."""
        return self._ranges.fill(number * self.block_bytes, memory)

    def compare(self, number: int, computed: str) -> None:
        """Compares the digest of a block with the recorded one.

        Raises:
            ChecksumError: The block is damaged.
        """
        if computed != (recorded := self._part.digests[number]):
            start = number * self.block_bytes
            raise ChecksumError(
                f"{self._url} is damaged in its bytes {start} to {start + self.length(number)}, which have the {HASH} {computed} "
                f"instead of {recorded}: load a different step"
            )


class Filled:
    """Block that is fetched into memory, an array of numpy of its length."""

    def __init__(self, blocks: Blocks, number: int, memory: Any) -> None:
        self._blocks, self._number, self._request = blocks, number, blocks.fill(number, memory)

    def wait(self) -> None:
        """Waits for the block, and compares its digest."""
        self._blocks.compare(self._number, self._request.digest(HASH))

    def stop(self) -> None:
        """Ends the request: nothing is written to the memory after that."""
        self._request.stop()


class Fetched:
    """Block in a buffer. The buffer is free again when this object is dropped."""

    def __init__(self, blocks: Blocks, number: int, buffers: Buffers) -> None:
        import numpy

        self._filled: Filled | None = None
        self._buffers, self._buffer = buffers, None
        if blocks.has(number):
            self._bytes = numpy.frombuffer(blocks.front, numpy.uint8)
            blocks.compare(number, hex_digest(HASH, blocks.front))
        else:
            self._buffer = buffers.take(blocks.block_bytes)
            self._bytes = self._buffer[: blocks.length(number)]
            self._filled = Filled(blocks, number, self._bytes)

    def wait(self) -> Any:
        """Returns the bytes, verified, as an array of this object."""
        if self._filled is not None:
            self._filled.wait()
            self._filled = None
        return self._bytes

    def __del__(self) -> None:
        if self._filled is not None:
            # Nothing may arrive in memory that is used again.
            self._filled.stop()
        if self._buffer is not None:
            self._buffers.give(self._buffer)


class Sequential:
    """Blocks of a part in order, with jumps: blocks after the last one are fetched ahead."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks, self._buffers = blocks, Buffers()
        self._kept: collections.OrderedDict[int, Fetched] = collections.OrderedDict()
        self._in_flight: dict[int, Fetched] = {}
        self._last, self._ahead = -1, 1

    def block(self, number: int) -> Any:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number].wait()
        if number == self._last + 1 or number in self._in_flight:
            self._ahead = min(2 * self._ahead, _AHEAD_MAX)
        else:
            self._in_flight, self._ahead = {}, 0
        for wanted in range(number, min(number + 1 + self._ahead, len(self._blocks))):
            if wanted not in self._in_flight and wanted not in self._kept:
                self._in_flight[wanted] = Fetched(self._blocks, wanted, self._buffers)
        block = self._in_flight.pop(number)
        block.wait()
        # Blocks that a jump has passed over would stay in memory.
        self._in_flight = {later: request for later, request in self._in_flight.items() if later > number}
        self._last, self._ahead = number, max(self._ahead, 1)
        self._kept[number] = block
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return block.wait()


class PartReader(PositionedFile):
    """File object of a part, or of its bytes `span`. `block` returns the verified bytes of a block by its number."""

    def __init__(self, block: Callable[[int], Any], part: CheckpointPart, span: range | None = None) -> None:
        self._block, self._block_bytes = block, part.block_bytes
        self._span = range(part.size) if span is None else span
        self.size: int = len(self._span)

    def read(self, size: int | None = -1, /) -> bytes:
        # torch asks for this method while it handles an error of `readinto`.
        left = max(self.size - self._at, 0)
        buffer = bytearray(left if size is None or size < 0 else min(size, left))
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: Any, /) -> int:
        with memoryview(buffer).cast("B") as view:
            count = max(min(len(view), self.size - self._at), 0)
            filled = 0
            while filled < count:
                number, begin = divmod(self._span.start + self._at, self._block_bytes)
                piece = memoryview(self._block(number))[begin : begin + count - filled]
                view[filled : filled + len(piece)] = piece
                filled += len(piece)
                self._at += len(piece)
            return count
