"""Files that are read ahead of their consumer."""

from __future__ import annotations

import itertools
import operator
import os
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..arguments import byte_size, flag, folder, one_of, several, whole
from ..errors import ChecksumError, ConfigError, Error, StaleError, StateError
from ..world import World, detect, surroundings
from .cache import FileCache, is_of_list
from .listing import File, FileList, GrowingFiles, list_files
from .stores import StoreOptions, opened, url_of

__all__ = ["FileLoader", "is_of_one_rank", "load_files"]


class _Division(NamedTuple):
    """Share of this process, and the shares that the files are divided into."""

    share: int
    shares: int
    workers: int
    """Workers of each rank; 0 without a DataLoader, or with one that has none."""

    @property
    def ranks(self) -> int:
        return self.shares // max(self.workers, 1)

    @property
    def worker(self) -> int:
        return self.share // self.ranks


class FileLoader:
    """Files of stores as pairs of URL and bytes, many of them in flight.

    `load_files` makes it and describes its arguments. It is an iterable of `(url, bytes)`, alone or as the data set of
    torch's DataLoader, of which each worker reads its share. An epoch ends with its last file; the next one has another
    order with `shuffle`.
    """

    def __init__(
        self,
        files: Sequence[File],
        *,
        ordered: bool,
        shuffle: bool,
        seed: int,
        epoch: int,
        shard: str,
        buffer: int,
        concurrency: int,
        whole_max: int | None,
        cache: FileCache | None,
        failed: str,
        store: StoreOptions | None,
    ) -> None:
        self._files, self._ordered, self._shuffle, self._seed = files, ordered, shuffle, seed
        self._shard, self._buffer, self._concurrency, self._store = shard, buffer, concurrency, store
        self._whole_max, self._cache, self._raises = whole_max, cache, failed == "raise"
        # Rank and number of ranks of the process that this loader was sent from.
        self._sent_world: tuple[int, int] | None = None
        # Process of a worker, and the epoch of its last loop.
        self._loop: tuple[int, int] | None = None
        self._begin(epoch)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # DataLoader looks here whether it iterates or draws indexes, and torch may be imported only after this object was made.
        _register()
        return FileLoader

    def _begin(self, epoch: int) -> None:
        """Moves to the beginning of an epoch."""
        self.epoch = epoch
        # Division in which the files of the epoch were returned, and whether all of them were returned in order.
        self._division: _Division | None = None
        self._in_order = True
        # Place of the epoch's first file in its order, files of the own share that were returned, and the places that
        # were returned out of order.
        self._start, self._taken, self._ahead = 0, 0, set[int]()

    def __len__(self) -> int:
        """Files of this rank in the rest of the epoch."""
        rank, ranks = self._world()
        left = max(len(self._files) - self._start, 0)
        return max(-(-(left - rank) // ranks) - self._taken, 0)

    def set_epoch(self, epoch: int) -> None:
        """Continues with the beginning of an epoch, which selects the order of a shuffle."""
        self._begin(whole("epoch", epoch))

    def _world(self) -> tuple[int, int]:
        """Returns the rank and the number of ranks."""
        if self._shard == "none":
            return 0, 1
        found = surroundings(os.environ)
        if found is None:
            return self._sent_world or _rank_of(detect())
        # Nodes make no difference here, so that the local numbers need not be known.
        (rank, ranks, *_), _source = found
        return _rank_of(detect(rank, ranks, rank, ranks))

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group.
        return self.__dict__ | {"_sent_world": self._world()}

    def _divided(self) -> _Division:
        """Returns the division of the files among ranks, and workers of ranks, and the share of this process."""
        if self._shard == "none":
            return _Division(0, 1, 0)
        rank, ranks = self._world()
        workers = getattr(sys.modules.get("torch.utils.data"), "get_worker_info", lambda: None)()
        if workers is None:
            return _Division(rank, ranks, 0)
        return _Division(rank + ranks * workers.id, ranks * workers.num_workers, workers.num_workers)

    def _divide(self, new: _Division) -> None:
        """Continues with the share of this process, which may be of another division than the files that were returned."""
        if (old := self._division) is not None:
            self._start, self._taken = _moved(self._start, self._taken, self._ahead, self._in_order, old, new)
        self._division = new

    def __iter__(self) -> Iterator[tuple[str, bytes | Error | None]]:
        division = self._divided()
        if division.workers:
            if self._loop is not None and self._loop[0] == os.getpid():
                # A persistent worker. After a `break` workers are at different places, and files in flight were dropped.
                self._begin(self._loop[1] + 1)
            self._loop = os.getpid(), self.epoch
        reads = opened(self._store).reads(self._concurrency, self._buffer, self._whole_max)
        order = _permutation(len(self._files), self._seed, self.epoch) if self._shuffle else None
        self._divide(division)
        number_of_share, shares, _ = division
        self._in_order &= self._ordered
        first = self._start + number_of_share
        # The places of the own share that remain.
        places = itertools.filterfalse(self._ahead.__contains__, itertools.count(first + shares * self._taken, shares))
        in_flight: dict[int, tuple[int, File, str | None]] = {}
        requested, place, is_end = 0, -1, False
        while True:
            while not is_end and reads.has_room(0):
                if place < 0:
                    place = next(places)
                    is_end = not _reaches(self._files, place)
                    continue
                file = self._files[place if order is None else order[place]]
                if not reads.has_room(file.size):
                    break
                is_left = self._whole_max is not None and (file.size or 0) > self._whole_max
                copy = None if self._cache is None or is_left else self._cache.find(file)
                reads.push(copy or file.url, file.size, None if copy else file.etag)
                in_flight[requested] = (place, file, copy)
                requested, place = requested + 1, -1
            read = reads.next(not self._ordered)
            if read is None:
                break
            number, data, *version = read
            at, file, copy = in_flight.pop(number)
            # None is in the place of a file that the consumer opens itself.
            if data is not None:
                try:
                    data = self._checked(file, copy, data, version)
                except Error as error:
                    if self._raises:
                        raise
                    data = error
            self._ahead.add(at)
            while first + shares * self._taken in self._ahead:
                self._ahead.remove(first + shares * self._taken)
                self._taken += 1
            yield file.url, data
        self._begin(self.epoch + 1)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, which counts the files that iteration has returned.

        Without workers, all ranks have returned as many files when a trainer saves it. In workers of a DataLoader, torchdata's
        StatefulDataLoader saves it and needs as many ranks and workers to resume. With `ordered=False` each rank saves its own.
        """
        share, shares, workers = self._division or self._divided()
        return {
            "epoch": self.epoch,
            "seed": self._seed,
            "shuffle": self._shuffle,
            "start": self._start,
            "taken": self._taken,
            "ahead": sorted(self._ahead),
            # The state is equal on all ranks that have returned as many.
            "share": share if workers or not self._in_order else 0,
            "shares": shares,
            "workers": workers,
            "ordered": self._in_order,
            # A shuffle draws another order of another number.
            "files": len(self._files) if self._shuffle else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position, without workers on any number of ranks.

        Raises:
            StateError: It belongs to another order of files or is not a state of this class, or it is within an epoch of a
                shuffle of another number of files, of workers, which need as many ranks and workers as before, or of
                `ordered=False`, where it is that of one rank alone.
        """
        try:
            epoch, start, taken, shares = (int(state[name]) for name in ("epoch", "start", "taken", "shares"))
            # States of earlier versions have no workers.
            share, workers, is_ordered = int(state.get("share", 0)), int(state.get("workers", 0)), state.get("ordered", True)
            ahead, seed, shuffle = {int(place) for place in state["ahead"]}, state["seed"], state["shuffle"]
            if min(epoch, start, taken, share, workers, *ahead) < 0 or share >= shares or shares % max(workers, 1):
                raise ValueError("a number is too small or too large")
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a FileLoader: {error!r}") from None
        if (seed, shuffle) != (self._seed, self._shuffle):
            raise StateError(
                f"the state has shuffle={shuffle} with seed {seed}, and this loader shuffle={self._shuffle} with seed "
                f"{self._seed}: make the loader with the state's"
            )
        is_within = bool(start or taken or ahead)
        if shuffle and is_within and (files := state.get("files")) not in (None, len(self._files)):
            raise StateError(
                f"the state is of a shuffle of {files} files, and this list has {len(self._files)}: another number has another "
                "order, so load the files of the state's list, or begin with the next epoch"
            )
        division = self._divided()
        start, taken = _moved(start, taken, ahead, is_ordered, _Division(share, shares, workers), division)
        self.epoch, self._start, self._taken, self._ahead = epoch, start, taken, ahead
        self._division, self._in_order, self._loop = division, is_ordered, None

    def __getitem__(self, at: int) -> tuple[str, bytes]:
        """Reads one file, by its place in the list without a shuffle."""
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


def _rank_of(world: World) -> tuple[int, int]:
    return world.rank, world.world_size


def _reaches(files: Sequence[File], at: int) -> bool:
    # Not by an IndexError, which the source of URLs may raise as well.
    return files.reaches(at) if isinstance(files, GrowingFiles) else at < len(files)


def _permutation(count: int, seed: int, epoch: int) -> list[int]:
    order = list(range(count))
    random.Random(f"{seed} {epoch}").shuffle(order)
    return order


def _register() -> None:
    """Makes torch's DataLoader iterate instead of drawing indexes."""
    base = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
    if base is not None and not issubclass(FileLoader, base):
        base.register(FileLoader)


def _moved(
    start: int, taken: int, ahead: set[int], is_ordered: bool, old: _Division, new: _Division
) -> tuple[int, int]:
    """Returns the start and the number of files taken in another division than that in which they were returned.

    Raises:
        StateError: It is not known which files the other shares have returned.
    """
    if is_ordered and not old.workers:
        # All ranks have returned as many.
        return start + old.shares * taken, 0
    if old == new or not (taken or ahead):
        return start, taken
    if not is_ordered:
        raise StateError(
            f"files were returned out of order by share {old.share} of {old.shares}, and this is share {new.share} of "
            f"{new.shares}: resume each rank and worker with its own state, on as many, or make the loader with ordered=True"
        )
    if (old.shares, old.workers, old.worker) != (new.shares, new.workers, new.worker):
        raise StateError(
            f"files were returned by worker {old.worker} of {old.workers} on {old.ranks} ranks, and this is worker {new.worker} "
            f"of {new.workers} on {new.ranks}: workers do not return equally many, so resume on as many ranks and workers, or "
            "at the end of an epoch"
        )
    return start, taken


def is_of_one_rank(state: Any) -> bool:
    """Returns true for states with one of a FileLoader that only the same rank can continue: it is out of order."""
    if isinstance(state, Mapping):
        if {"taken", "ahead", "shares", "ordered"} <= state.keys():
            return not state["ordered"] and bool(state["taken"] or state["ahead"])
        state = list(state.values())
    return isinstance(state, (list, tuple)) and any(map(is_of_one_rank, state))


def load_files(
    urls: str | os.PathLike[str] | Iterable[Any],
    *,
    ordered: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    epoch: int = 0,
    shard: str = "auto",
    buffer: int | str = "256mb",
    concurrency: int = 64,
    whole_max: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_limit: int | str | None = None,
    failed: str = "raise",
    store: StoreOptions | None = None,
) -> FileLoader:
    """Reads whole files of stores ahead of their consumer.

    Up to `concurrency` files are in flight while the consumer works on the last one. Large files are fetched in several
    ranges at once. The sizes of a list from `list_files` save a request for each file above 1 MiB.

    Args:
        urls: List from `list_files`, URLs, or the prefix of a list.
        ordered: Return the files in their order. Without it, whichever arrives first.
        shuffle: Another order in each epoch, equal on all ranks.
        seed: Seed of the shuffle.
        epoch: First epoch.
        shard: "auto" divides the files among the ranks of the process group or the launcher, and among the workers of
            torch's DataLoader; "none" returns all files to each.
        buffer: Bytes of files in flight and ready: a number, or a size such as "1gb". A larger file is read alone.
        concurrency: Files in flight and ready.
        whole_max: Largest file, in bytes, that is read. A larger one is returned with None instead of its bytes, for
            `forebay.open`. By default there is no limit.
        cache: Folder on a local disk for copies of the files, by address and version, which later epochs and the other
            processes of the node read. It needs the versions of a list. By default there are no copies.
        cache_limit: Bytes of the folder: a number, or a size such as "1tb". Copies that were not used for longest are removed
            to make room. All processes must have the same. By default there is no limit.
        failed: "raise" raises the error of a file that cannot be read; the file is the first of the next iteration. "return"
            returns the error in the place of its bytes, and continues.
        store: Settings that differ from the environment's.

    Returns:
        An iterable of pairs of URL and bytes. It has `len`, `loader[i]`, `set_epoch`, `state_dict` and
        `load_state_dict`.

    Raises:
        ConfigError: An argument is wrong. Iteration raises the store's errors, such as NotFoundError or AccessError.
    """
    if cache_limit is not None and cache is None:
        raise ConfigError("cache_limit is the limit of a cache: pass the folder of one as well")
    if isinstance(urls, (str, bytes, os.PathLike)):
        urls = list_files(urls, store=store)
    if isinstance(urls, File):
        urls = [urls]
    if isinstance(urls, FileList):
        files: Sequence[File] = urls
    elif isinstance(urls, Sequence):
        files = [_file(url) for url in urls]
    else:
        files = _Drawn(several("urls", urls, "URLs"))
    return FileLoader(
        files,
        ordered=flag("ordered", ordered),
        shuffle=flag("shuffle", shuffle),
        seed=whole("seed", seed),
        epoch=whole("epoch", epoch),
        shard=one_of("shard", shard, ("auto", "none")),
        buffer=byte_size("buffer", buffer),
        concurrency=whole("concurrency", concurrency, least=1, below=1 << 16),
        whole_max=None if whole_max is None else whole("whole_max", whole_max),
        cache=None if cache is None else FileCache(folder("cache", cache), byte_size("cache_limit", cache_limit)),
        failed=one_of("failed", failed, ("raise", "return")),
        store=store,
    )


class _Drawn(GrowingFiles):
    """URLs of an iterator."""

    def __init__(self, urls: Iterable[Any]) -> None:
        super().__init__()
        self._rest: Iterator[Any] | None = iter(urls)

    def _grow(self) -> bool:
        if self._rest is None:
            return False
        try:
            self._files.append(_file(next(self._rest)))
        except StopIteration:
            self._rest = None
        return self._rest is not None

    def __getstate__(self) -> dict[str, Any]:
        len(self)
        return self.__dict__


def _file(url: Any) -> File:
    if isinstance(url, File):
        if url.url.endswith("/"):
            raise ConfigError(f"{url.url} is a folder: list files with recursive=True")
        return url
    return File(url_of("urls", url))
