"""Files that are read ahead of their consumer."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, TypeVar, Union, overload

from .._arguments import byte_size, folder, one_of, whole
from .._choices import Shard
from ..errors import ChecksumError, ConfigError, Error, StaleError
from .cache import FileCache, is_of_list
from .listing import File, files_of
from .order import FileOrder
from .stores import StoreOptions, opened

if TYPE_CHECKING:
    # Type checkers have this module; programs need not install it.
    from typing_extensions import Unpack


def is_marker(file: File) -> bool:
    """Returns true for an empty object that marks a folder, in a list that has such objects."""
    return file.url.endswith("/") and file.size == 0


ReadT = TypeVar("ReadT", covariant=True)


class FileLoader(FileOrder, Generic[ReadT]):
    """Files of stores as pairs of URL and bytes, many of them in flight.

    `load_files` makes it and describes its arguments. It is an iterable of `(url, bytes)`, alone or as the data set of
    torch's DataLoader, where each worker reads its share. An epoch ends with its last file; the next one has a new
    order with `shuffle`.
    """

    def __init__(
        self, files: Sequence[File], buffer: int, concurrency: int, whole_max: int | None, cache: FileCache | None, failed: str,
        store: StoreOptions | None, **order: Any,
    ) -> None:
        super().__init__(files, **order)
        self._buffer, self._concurrency, self._store = buffer, concurrency, store
        self._whole_max, self._cache, self._raises = whole_max, cache, failed == "raise"
        # True for a list in which an address with a slash at its end is the address of an empty object, and not of a folder.
        self.has_markers = False

    def __len__(self) -> int:
        """Files of this rank in the rest of the epoch."""
        rank, ranks = self._world()
        left = max(len(self._files) - self._start, 0)
        return max(-(-(left - rank) // ranks) - self._taken, 0)

    def __iter__(self) -> Iterator[tuple[str, ReadT]]:
        remaining = self._rest()
        loop = self._current
        reads = opened(self._store).reads(self._concurrency, self._buffer, self._whole_max)
        in_flight: dict[int, tuple[int, File, str | None]] = {}
        requested, following, is_end = 0, None, False
        while True:
            while not is_end and reads.has_room(0):
                following = following or next(remaining, None)
                if (is_end := following is None) or not reads.has_room(following[1].size):
                    break
                position, file = following
                if self.has_markers and is_marker(file):
                    if in_flight:
                        # The files before it are returned first.
                        break
                    following = None
                    self._took(position)
                    yield file.url, b""
                    self._check_loop(loop)
                    continue
                is_left = self._whole_max is not None and (file.size or 0) > self._whole_max
                copy = None if self._cache is None or is_left else self._cache.find(file)
                reads.push(copy or file.url, file.size, None if copy else file.etag)
                in_flight[requested] = (position, file, copy)
                requested, following = requested + 1, None
            read = reads.next(not self._ordered)
            if read is None:
                break
            number, data, *version = read
            position, file, copy = in_flight.pop(number)
            # None is the value for a file that the consumer opens itself.
            if data is not None:
                try:
                    data = self._checked(file, copy, data, version)
                except Error as error:
                    if self._raises:
                        raise
                    data = error
            self._took(position)
            yield file.url, data
            self._check_loop(loop)
        self._end()

    def __getitem__(self, at: int) -> tuple[str, bytes]:
        """Reads one file, by its index in the list without a shuffle."""
        file = self._files[operator.index(at)]
        copy = None if self._cache is None else self._cache.find(file)
        data, version = self._read(copy or file.url, file.size, None if copy else file.etag)
        return file.url, self._checked(file, copy, data, version)

    def _read(self, url: str, size: int | None, etag: str | None) -> tuple[Any, list[Any]]:
        """Reads one file. Returns its bytes, or an exception, and their version."""
        reads = opened(self._store).reads(1, self._buffer, None)
        reads.push(url, size, etag)
        _, data, *version = reads.next(False)
        return data, version

    def _checked(self, file: File, copy: str | None, data: Any, version: list[Any]) -> bytes:
        """Returns the bytes that were read from a file, or from its copy in the cache."""
        if self._cache is not None and copy is not None:
            if isinstance(data, bytes) and self._cache.is_whole(copy, data):
                return data
            # Damaged, or evicted meanwhile.
            self._cache.discard(copy)
            data, version = self._read(file.url, file.size, file.etag)
        if isinstance(data, (ChecksumError, StaleError)) and file.size is not None:
            raise StaleError(f"{file.url} is not as it was listed: {data}: list the files again") from data
        if isinstance(data, BaseException):
            raise data
        if self._cache is not None and is_of_list(file, *version):
            self._cache.add(file, data)
        return data


_Urls = Union[str, os.PathLike[str], Iterable[Any]]
_Raise = Literal["raise"]
_Return = Literal["return"]
# Arguments on which the type of the items does not depend.
_Options = TypedDict(
    "_Options",
    {"ordered": bool, "shuffle": bool, "seed": int, "epoch": int, "shard": Shard, "buffer": Union[int, str], "concurrency": int,
     "cache": Union[str, os.PathLike[str], None], "cache_limit": Union[int, str, None], "store": Union[StoreOptions, None]},
    total=False,
)


@overload
def load_files(urls: _Urls, *, whole_max: None = None, failed: _Raise = ..., **options: Unpack[_Options]) -> FileLoader[bytes]: ...
@overload
def load_files(urls: _Urls, *, whole_max: int, failed: _Raise = ..., **options: Unpack[_Options]) -> FileLoader[bytes | None]: ...
@overload
def load_files(urls: _Urls, *, whole_max: None = None, failed: _Return, **options: Unpack[_Options]) -> FileLoader[bytes | Error]: ...
@overload
def load_files(urls: _Urls, *, whole_max: int, failed: _Return, **options: Unpack[_Options]) -> FileLoader[bytes | Error | None]: ...
def load_files(
    urls: str | os.PathLike[str] | Iterable[Any],
    *,
    ordered: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    shard: Shard = "auto",
    buffer: int | str = "256mb",
    concurrency: int = 64,
    whole_max: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | str | None = None,
    failed: Literal["raise", "return"] = "raise",
    store: StoreOptions | None = None,
) -> FileLoader[Any]:
    """Reads whole files of stores ahead of their consumer: `for url, data in forebay.load_files("s3://bucket/texts/"): ...`.

    Up to `concurrency` files are in flight while the consumer works on the last one. Large files are fetched in several
    ranges at once. The sizes of a list from `list_files` save a request for each file above 1 MiB.

    Args:
        urls: List from `list_files`, URLs, or the prefix of a list.
        ordered: Return the files in their order. Without it, whichever arrives first.
        shuffle: A new order in each epoch, equal on all ranks.
        seed: Seed of the shuffle.
        epoch: First epoch.
        shard: "auto" divides the files among the ranks of the process group or the launcher, and among the workers of
            torch's DataLoader; "none" returns all files to each.
        buffer: Bytes of files in flight and ready: a number, or a size such as "1gb". A larger file is read alone.
        concurrency: Files in flight and ready.
        whole_max: Largest file, in bytes, that is read. A larger one is returned with None instead of its bytes, for
            `forebay.open`. By default there is no limit.
        cache: Folder on a local disk for copies of the files, by address and version, which later epochs and the
            rest of the node's processes read. It needs the versions of a list. By default there are no copies.
        cache_limit: Bytes of the folder: a number, or a size such as "1tb". Copies that were not used for longest are removed
            to make room. All processes must have the same. By default there is no limit.
        failed: "raise" raises the error of a file that cannot be read; the file is the first of the next iteration. "return"
            returns the error instead of its bytes, and continues.
        store: Settings that differ from the environment's.

    Returns:
        An iterable of pairs of URL and bytes. It has `len`, `loader[i]`, `set_epoch`, `state_dict` and
        `load_state_dict`.

    Raises:
        ConfigError: An argument is wrong. Iteration raises the store's errors, such as NotFoundError or AccessError.
    """
    if cache_limit is not None and cache is None:
        raise ConfigError("cache_limit is the limit of a cache: pass the folder of one as well")
    order: dict[str, Any] = {"ordered": ordered, "shuffle": shuffle, "seed": seed, "epoch": epoch, "shard": shard}
    return FileLoader(
        files_of(urls, store),
        buffer=byte_size("buffer", buffer),
        concurrency=whole("concurrency", concurrency, least=1, below=1 << 16),
        whole_max=None if whole_max is None else whole("whole_max", whole_max),
        cache=None if cache is None else FileCache(folder("cache", cache), byte_size("cache_limit", cache_limit)),
        failed=one_of("failed", failed, ("raise", "return")),
        store=store,
        **order,
    )
