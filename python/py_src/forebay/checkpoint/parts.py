"""Parts of a checkpoint: files whose blocks have digests.

The digests are computed as a part is written, and each block is compared before any of its bytes are returned.
"""

from __future__ import annotations

import collections
import io
from typing import Any, Protocol

from .._forebay import hex_digest
from ..errors import ChecksumError, NotFoundError
from ..files import FileWriter, StoreOptions
from ..files.stores import opened
from . import commit
from .commit import HASH, Part

__all__ = ["Blocks", "BlockSource", "PartReader", "PartWriter", "Sequential"]

_AHEAD_MAX = 8
"""Blocks that are fetched ahead of sequential reads."""

_KEPT = 3
"""Blocks that stay in memory after they were read: torch returns to the table of a file and to the headers of records."""


class PartWriter(FileWriter):
    """Part that is written. It appears when it is closed; `part` describes it then."""

    def __init__(self, url: str, name: str, store: StoreOptions | None = None) -> None:
        super().__init__(f"{url}/{name}", store)
        self._name, self._block_bytes = name, commit.BLOCK
        self._digests: list[str] = []
        self.part: Part | None = None

    def write(self, data: Any, /) -> int:
        self._check()
        with memoryview(data).cast("B") as view:
            at = 0
            while at < len(view):
                end = at + self._block_bytes - len(self._buffer)
                if end - at == self._block_bytes <= len(view) - at:
                    self._append(bytes(view[at:end]))
                else:
                    self._buffer += view[at:end]
                    if len(self._buffer) == self._block_bytes:
                        self._send()
                at = end
            self._at += len(view)
            return len(view)

    def _send(self) -> None:
        if self._buffer:
            block, self._buffer = bytes(self._buffer), bytearray()
            self._append(block)

    def _append(self, block: bytes) -> None:
        self._digests.append(hex_digest(HASH, block))
        self._upload.write(block)

    def flush(self) -> None:
        """Does nothing: blocks are sent as they are complete."""

    def close(self) -> None:
        is_new = not self.closed and self._upload is not None
        super().close()
        if is_new:
            self.part = Part(self._name, self._at, tuple(self._digests), self._block_bytes)


class BlockSource(Protocol):
    """Source of the blocks of a part."""

    def block(self, number: int) -> bytes:
        """Returns a block, verified."""
        ...


class Blocks:
    """Blocks of a part in a store.

    Raises:
        NotFoundError: The commit has the part, and the store does not.
        ChecksumError: Its size is another one.
    """

    def __init__(self, url: str, part: Part, store: StoreOptions | None) -> None:
        self._url, self._part = f"{url}/{part.name}", part
        try:
            self._ranges = opened(store).open(self._url, min(part.size, part.block_bytes))
        except NotFoundError as error:
            raise NotFoundError(f"{self._url} is missing, which the checkpoint's commit has: load another step") from error
        self._front = self._ranges.front()
        if self._ranges.size != part.size:
            raise ChecksumError(
                f"{self._url} has {self._ranges.size} bytes and has to have {part.size}: load another step"
            )

    def __len__(self) -> int:
        return len(self._part.digests)

    def start(self, number: int) -> Any:
        """Requests a block."""
        if number == 0:
            return None
        start = number * self._part.block_bytes
        return self._ranges.fetch(start, min(start + self._part.block_bytes, self._part.size))

    def finish(self, number: int, request: Any) -> bytes:
        """Waits for a block and compares its digest.

        Raises:
            ChecksumError: The block is damaged.
        """
        block = self._front if request is None else request.wait()
        recorded = self._part.digests[number]
        if (computed := hex_digest(HASH, block)) != recorded:
            start = number * self._part.block_bytes
            raise ChecksumError(
                f"{self._url} is damaged in its bytes {start} to {start + len(block)}: their {HASH} is {computed} and has to "
                f"be {recorded}: load another step"
            )
        return block


class Sequential:
    """Blocks of a part that is read from its start to its end, with jumps: blocks after the last one are fetched ahead."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._kept: collections.OrderedDict[int, bytes] = collections.OrderedDict()
        self._in_flight: dict[int, Any] = {}
        self._last, self._ahead = -1, 1

    def block(self, number: int) -> bytes:
        if number in self._kept:
            self._kept.move_to_end(number)
            return self._kept[number]
        if number == self._last + 1 or number in self._in_flight:
            self._ahead = min(2 * self._ahead, _AHEAD_MAX)
        else:
            self._in_flight, self._ahead = {}, 0
        for wanted in range(number, min(number + 1 + self._ahead, len(self._blocks))):
            if wanted not in self._in_flight and wanted not in self._kept:
                self._in_flight[wanted] = self._blocks.start(wanted)
        block = self._blocks.finish(number, self._in_flight.pop(number))
        # Blocks that a jump has passed over would stay in memory.
        self._in_flight = {later: request for later, request in self._in_flight.items() if later > number}
        self._last, self._ahead = number, max(self._ahead, 1)
        self._kept[number] = block
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return block


class PartReader(io.BufferedIOBase):
    """Part that is read."""

    def __init__(self, source: BlockSource, part: Part) -> None:
        super().__init__()
        self._source, self._part, self._at = source, part, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0, self._at, self._part.size)[whence]
        if at < 0:
            raise ValueError(f"a position before the start of the file: {at}")
        self._at = at
        return at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._part.size - self._at, 0)
        buffer = bytearray(left if size is None or size < 0 else min(size, left))
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: Any, /) -> int:
        with memoryview(buffer).cast("B") as view:
            count = max(min(len(view), self._part.size - self._at), 0)
            filled = 0
            while filled < count:
                number, begin = divmod(self._at, self._part.block_bytes)
                piece = memoryview(self._source.block(number))[begin : begin + count - filled]
                view[filled : filled + len(piece)] = piece
                filled += len(piece)
                self._at += len(piece)
            return count

    readinto1 = readinto
