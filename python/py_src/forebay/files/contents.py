"""Lines of texts, and files of tars, read without an index."""

from __future__ import annotations

import itertools
import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, get_args

from .._arguments import byte_size, one_of
from .._choices import Compression, Shard
from ..errors import NotFoundError
from .listing import File, FileList, files_of
from .order import FileOrder
from .stores import StoreOptions, opened

_FILES_AHEAD = 64
"""Files that are requested ahead, and fetched as far as the buffer has room for them."""

ItemT = TypeVar("ItemT", covariant=True)


class _Contents(FileOrder, Generic[ItemT]):
    """Contents of files, in sequence."""

    def __init__(
        self,
        files: Sequence[File],
        *,
        buffer: int | str,
        compression: str,
        memory: int | str | None,
        store: StoreOptions | None,
        **order: Any,
    ) -> None:
        # Not in order: files have different numbers of items, so ranks are at different files.
        super().__init__(files, ordered=False, **order)
        self._buffer, self._store = byte_size("buffer", buffer), store
        self._memory = None if memory is None else byte_size("memory", memory)
        self._compression = one_of("compression", compression, get_args(Compression))

    def _open(self) -> Any:
        """Returns the engine's reader."""
        raise NotImplementedError

    def _parts(self, reads: Any, url: str) -> Iterator[Iterable[Any]]:
        """Returns the items of the next file in parts, and moves the position in it."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Moves the position behind the items that were returned."""

    def __iter__(self) -> Iterator[ItemT]:
        # Not a generator of items: its frames would be a fifth of the time of short lines.
        return itertools.chain.from_iterable(self._all_parts())

    def _all_parts(self) -> Iterator[Iterable[Any]]:
        self._settle()
        remaining, reads = self._rest(), self._open()
        loop = self._current
        if isinstance(self._files, FileList) and not self._files:
            raise NotFoundError(f"no file has an address that begins with {self._files.prefix}")
        offset, version = self._offset, self._version
        requested = deque[tuple[int, File]]()
        is_end = False
        while True:
            while not is_end and len(requested) < _FILES_AHEAD:
                following = next(remaining, None)
                if is_end := following is None:
                    break
                file = following[1]
                reads.push((file.url, file.size, offset, version, file.etag), self._compression)
                requested.append(following)
                offset, version = 0, None
            if not requested:
                break
            position, file = requested.popleft()
            for part in self._parts(reads, file.url):
                self._version = self._version or reads.version()
                yield part
                self._check_loop(loop)
            self._offset, self._version = 0, None
            self._took(position)
        self._end()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last item that iteration has returned. Each rank saves its own.

        Iteration continues in the middle of a file. In workers of a DataLoader, torchdata's StatefulDataLoader saves the state.
        """
        self._settle()
        return super().state_dict() | {"items": self._ITEMS, "offset": self._offset, "version": self._version}


class LineLoader(_Contents[bytes]):
    """Lines of texts, without their ends: bytes. `load_lines` makes it and describes its arguments."""

    _ITEMS = "lines"

    _lines: tuple[Iterator[bytes], int, bytes] | None = None
    """Lines that are being returned, how many they are, and the offsets of their ends."""

    def _begin(self, epoch: int) -> None:
        super()._begin(epoch)
        self._drop_lines()

    def _drop_lines(self) -> None:
        """Ends the lines of a loop, which has them still if it is not the current one any more."""
        if self._lines is not None:
            deque(self._lines[0], maxlen=0)
            self._lines = None

    def _open(self) -> Any:
        self._drop_lines()
        return opened(self._store).lines(self._buffer, self._memory)

    def _parts(self, reads: Any, url: str) -> Iterator[Iterable[bytes]]:
        while (found := reads.next()) is not None:
            lines, ends = found
            left = iter(lines)
            self._lines = left, len(lines), ends
            # The iterator has the number of those that were returned.
            yield left
            self._settle()

    def _settle(self) -> None:
        if self._lines is not None:
            left, count, ends = self._lines
            if returned := count - left.__length_hint__():
                self._offset = struct.unpack_from("=Q", ends, 8 * (returned - 1))[0]
            if returned == count:
                self._lines = None

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return super().__getstate__() | {"_lines": None}


class TarLoader(_Contents[tuple[str, str, bytes]]):
    """Regular files of tars, as `(url, name, bytes)`: the URL of the tar, and the path in it. `load_tars` makes it and describes
    its arguments."""

    _ITEMS = "files of tars"

    def _open(self) -> Any:
        return opened(self._store).tar_files(self._buffer, self._memory)

    def _parts(self, reads: Any, url: str) -> Iterator[Iterable[tuple[str, str, bytes]]]:
        while (found := reads.next()) is not None:
            name, data, self._offset = found
            yield ((url, name, data),)


def load_lines(
    urls: str | os.PathLike[str] | Iterable[Any],
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    shard: Shard = "auto",
    buffer: int | str = "128mb",
    compression: Compression = "auto",
    memory: int | str | None = None,
    store: StoreOptions | None = None,
) -> LineLoader:
    r"""Reads texts line by line, ahead of the consumer, the files in sequence.

    Lines are bytes, which end with ``\n`` or ``\r\n``, and the last one of a file also without. A mark of the byte order stays in the
    first line, and UTF-16 has no lines of this kind. A second loop continues where the first one has ended. Files that are
    compressed are unpacked as they arrive, in a separate thread, not the consumer's.

        for line in forebay.load_lines("s3://bucket/texts/"):
            record = json.loads(line)

    Args:
        urls: List from `list_files`, URLs, a folder, or the start of addresses; one that no file has is an error.
        shuffle: A new order of the files in each epoch, equal on all ranks. Lines stay in their order: for a shuffle of
            lines, `forebay.Loader` reads the same files with an index.
        seed: Seed of the shuffle.
        epoch: First epoch.
        shard: "auto" divides the files among the ranks of the process group or the launcher, and among the workers of
            torch's DataLoader; "none" returns all files to each.
        buffer: Bytes of files in flight and ready: a number, or a size such as "1gb". About 32 MiB that are being divided come on top.
        compression: "auto" unpacks files by the extensions of their names (.gz, .zst, .bz2, .br), "none" none of them; "gz",
            "zst", "bz2" and "br" all of them.
        memory: Most bytes of the window of a file that is compressed by zstd, as for a `Loader`: a number, or a size. Windows up
            to 128 MiB are always read. None: up to 2 GiB (`zstd --long=31`).
        store: Settings that differ from the environment's.

    Returns:
        An iterable of bytes, alone or as the data set of torch's DataLoader, where each worker reads its share. It has
        `set_epoch`, `state_dict` and `load_state_dict`.

    Raises:
        ConfigError: An argument is wrong. Iteration raises the store's errors, such as NotFoundError or AccessError, and
            FormatError for a file that cannot be unpacked or has a line of more than 1 GiB.
    """
    order: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "epoch": epoch, "shard": shard}
    return LineLoader(files_of(urls, store), buffer=buffer, compression=compression, memory=memory, store=store, **order)


def load_tars(
    urls: str | os.PathLike[str] | Iterable[Any],
    *,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    shard: Shard = "auto",
    buffer: int | str = "128mb",
    compression: Compression = "auto",
    memory: int | str | None = None,
    store: StoreOptions | None = None,
) -> TarLoader:
    """Reads the files of tars ahead of the consumer, the tars in sequence, without an index.

    Symbolic and hard links, folders and devices are left out; names are as they are stored, such as `./a`. A second loop continues
    where the first one has ended. A tar is read from front to back, and unpacked as it arrives if it is compressed.
    For a shuffle of samples, and for decoded batches, `forebay.Loader` reads the same tars.

        for url, name, data in forebay.load_tars("s3://bucket/tars/"):
            ...

    Args:
        urls: List from `list_files`, URLs, a folder, or the start of addresses; one that no file has is an error. If there are
            files of any kind too, `list_files(folder, masks="*.tar")`.
        shuffle: A new order of the tars in each epoch, equal on all ranks. Files stay in their order.
        seed: Seed of the shuffle.
        epoch: First epoch.
        shard: "auto" divides the tars among the ranks of the process group or the launcher, and among the workers of
            torch's DataLoader; "none" returns all tars to each.
        buffer: Bytes of tars in flight and ready: a number, or a size such as "1gb". About 32 MiB that are being divided come on top. A
            larger file of a tar is no error.
        compression: "auto" unpacks tars by the extensions of their names (.gz, .tgz, .zst, .bz2, .br), "none" none of them;
            "gz", "zst", "bz2" and "br" all of them.
        memory: Most bytes of the window of a file that is compressed by zstd, as for a `Loader`: a number, or a size. Windows up
            to 128 MiB are always read. None: up to 2 GiB (`zstd --long=31`).
        store: Settings that differ from the environment's.

    Returns:
        An iterable of `(url, name, bytes)`: the URL of the tar, and the path in it. It is used alone or as the data set of
        torch's DataLoader, where each worker reads its share. It has `set_epoch`, `state_dict` and `load_state_dict`.

    Raises:
        ConfigError: An argument is wrong. Iteration raises the store's errors, such as NotFoundError or AccessError, and
            FormatError for a file that is no tar, or a damaged one.
    """
    order: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "epoch": epoch, "shard": shard}
    return TarLoader(files_of(urls, store), buffer=buffer, compression=compression, memory=memory, store=store, **order)
