"""Order of files, their division among ranks and workers, and the position in it.

The engine's order (`forebay-order`) does not serve here. Its plan of an epoch needs the sizes of all shards before the
first sample, and a list of files may still grow while it is read. It gives all ranks equally many samples, and here
each rank or worker takes its share of the files without repeats, which may arrive out of order. And positions that
programs have saved count in the shuffle of this module.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from .._arguments import flag, one_of, whole
from .._choices import Shard
from ..errors import StateError
from .._world import detect, surroundings
from .listing import File, GrowingFiles


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


class FileOrder:
    """Files of this process's share, epoch after epoch: the base of loaders, which are data sets of torch's DataLoader.

    An epoch ends with the last file of the share. The next one has a new order with a shuffle.
    """

    _ITEMS = "files"
    """The items of the iteration."""

    def __init__(self, files: Sequence[File], *, ordered: bool, shuffle: bool, seed: int, epoch: int, shard: Shard) -> None:
        self._files, self._ordered, self._shuffle = files, flag("ordered", ordered), flag("shuffle", shuffle)
        self._seed, self._shard = whole("seed", seed), one_of("shard", shard, get_args(Shard))
        # Rank and number of ranks of the process that this loader was sent from.
        self._sent_world: tuple[int, int] | None = None
        # Process of a worker, and the epoch of its last loop.
        self._loop: tuple[int, int] | None = None
        self._begin(whole("epoch", epoch))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # DataLoader looks here whether it iterates or draws indexes, and torch may be imported only after this object was made.
        _register()
        return type(self)

    def _begin(self, epoch: int) -> None:
        """Moves to the beginning of an epoch."""
        self.epoch = epoch
        # The loop that the position belongs to, if there is one.
        self._current: object | None = None
        # Division in which the files of the epoch were returned, and whether all of them were returned in order.
        self._division: _Division | None = None
        self._in_order = True
        # Position in the epoch's order: the index of its first file, the files of this share that were returned in order,
        # and the indexes of those that were returned ahead of them.
        self._start, self._taken, self._ahead = 0, 0, set[int]()
        # This worker has returned all files of the epoch before. Further workers may still be in that epoch.
        self._has_ended = False
        # Offset of the next item in the next file, and the version of that file.
        self._offset, self._version = 0, None

    def set_epoch(self, epoch: int) -> None:
        """Continues with the beginning of an epoch, which selects the order of a shuffle."""
        self._begin(whole("epoch", epoch))

    def _world(self) -> tuple[int, int]:
        """Returns the rank and the number of ranks."""
        if self._shard == "none":
            return 0, 1
        found = surroundings(os.environ)
        if found is None and self._sent_world is not None:
            return self._sent_world
        # Nodes make no difference here, so that the local numbers need not be known.
        world = detect() if found is None else detect(*found[0][:2], *found[0][:2])
        return world.rank, world.world_size

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker has no process group.
        return self.__dict__ | {"_sent_world": self._world(), "_current": None}

    def _divided(self) -> _Division:
        """Returns the division of the files among ranks, and workers of ranks, and the share of this process."""
        if self._shard == "none":
            return _Division(0, 1, 0)
        rank, ranks = self._world()
        workers = _worker_info()
        if workers is None:
            return _Division(rank, ranks, 0)
        return _Division(rank + ranks * workers.id, ranks * workers.num_workers, workers.num_workers)

    def _rest(self) -> Iterator[tuple[int, File]]:
        """Begins a loop, which is `_current` then. Returns the remaining files of the share, with their indexes in the order."""
        division = self._divided()
        if self._shard != "none":
            warn_of_second_division(self, 'shard="none"')
        if _worker_info() is not None:
            if self._loop is not None and self._loop[0] == os.getpid():
                # A persistent worker. After a `break` workers are at different files, and files in flight were dropped.
                self._begin(self._loop[1] + 1)
            self._loop = os.getpid(), self.epoch - self._has_ended
        self._current = object()
        if self._has_ended:
            return iter(())
        if (old := self._division) is not None:
            # The files that were returned may be of a different division.
            is_ahead = bool(self._ahead or self._offset)
            self._start, self._taken = self._moved(self._start, self._taken, is_ahead, self._in_order, old, division)
        self._division = division
        self._in_order &= self._ordered
        order = list(range(len(self._files))) if self._shuffle else None
        if order is not None:
            random.Random(f"{self._seed} {self.epoch}").shuffle(order)
        positions = itertools.filterfalse(self._ahead.__contains__, itertools.count(self._position(), division.shares))
        return (
            (position, self._files[position if order is None else order[position]])
            for position in itertools.takewhile(lambda position: _reaches(self._files, position), positions)
        )

    def _check_loop(self, loop: object) -> None:
        """Raises StateError in a loop that the position does not belong to any more."""
        if loop is not self._current:
            raise StateError(
                f"this loop over a {type(self).__name__} was ended by set_epoch, load_state_dict or a second loop over it: use a loader "
                "for each loop, and call these between two loops"
            )

    def _end(self) -> None:
        """Moves to the next epoch after the end of a loop."""
        if not self._has_ended:
            self._begin(self.epoch + 1)
            self._has_ended = _worker_info() is not None

    def _position(self) -> int:
        """Returns the index of the first file of the share that was not returned."""
        share, shares, _ = self._division
        return self._start + share + shares * self._taken

    def _took(self, position: int) -> None:
        """Counts a file that was returned."""
        self._ahead.add(position)
        while (position := self._position()) in self._ahead:
            self._ahead.remove(position)
            self._taken += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, which counts the files that iteration has returned.

        Without workers, all ranks have returned equally many files when a trainer saves it. In workers of a DataLoader, torchdata's
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
            # Ranks that have returned equally many files have equal states.
            "share": share if workers or not self._in_order else 0,
            "shares": shares,
            "workers": workers,
            "ended": self._has_ended,
            "ordered": self._in_order,
            # The order of a shuffle depends on the number of files.
            "files": len(self._files) if self._shuffle else None,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a position, without workers on any number of ranks.

        Iteration over lines or files of tars raises StaleError if the file at the position was replaced.

        Raises:
            StateError: It is not a state of this class, or belongs to a different order of files. A state within an epoch also
                fails if a shuffle has a different number of files, if there are workers and the number of ranks or workers
                differs, and, with `ordered=False` or in lines and files of tars, on a different rank.
        """
        try:
            epoch, start, taken, shares = (int(state[name]) for name in ("epoch", "start", "taken", "shares"))
            # States of earlier versions have no workers.
            share, workers, is_ordered = int(state.get("share", 0)), int(state.get("workers", 0)), state.get("ordered", True)
            ahead, seed, shuffle = {int(position) for position in state["ahead"]}, state["seed"], state["shuffle"]
            offset, version = int(state.get("offset", 0)), state.get("version")
            if version is not None and not isinstance(version, str) or offset >= 1 << 63:
                raise TypeError("a version or an offset of a different kind")
            if min(epoch, start, taken, share, workers, offset, *ahead) < 0 or share >= shares or shares % max(workers, 1):
                raise ValueError("a number is too small or too large")
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a {type(self).__name__}: {error!r}") from None
        if (items := state.get("items", FileOrder._ITEMS)) != self._ITEMS:
            raise StateError(f"the state is from a loader of {items}, and this one returns {self._ITEMS}")
        if (seed, shuffle) != (self._seed, self._shuffle):
            raise StateError(
                f"the state has shuffle={shuffle} with seed {seed}, and this loader shuffle={self._shuffle} with seed "
                f"{self._seed}: make the loader with the state's"
            )
        is_within = bool(start or taken or ahead or offset)
        if shuffle and is_within and (files := state.get("files")) not in (None, len(self._files)):
            raise StateError(
                f"the state belongs to a shuffle of {files} files, but this list has {len(self._files)}, and the order depends on their "
                "number: load the files of the state's list, or begin with the next epoch"
            )
        division = self._divided()
        old, is_ahead = _Division(share, shares, workers), bool(ahead or offset)
        start, taken = self._moved(start, taken, is_ahead, is_ordered, old, division)
        self._begin(epoch)
        self._start, self._taken, self._ahead = start, taken, ahead
        self._offset, self._version = offset, version
        self._has_ended = bool(state.get("ended")) and old == division and _worker_info() is not None
        self._division, self._in_order, self._loop = division, is_ordered, None

    def _moved(
        self, start: int, taken: int, is_ahead: bool, is_ordered: bool, old: _Division, new: _Division
    ) -> tuple[int, int]:
        """Returns the start and the number of files taken in division `new`, where `old` was their division.

        Raises:
            StateError: It is not known which files the remaining shares have returned.
        """
        if is_ordered and not old.workers:
            # All ranks have returned equally many files.
            return start + old.shares * taken, 0
        if old == new or not (taken or is_ahead):
            return start, taken
        if not is_ordered:
            is_file = self._ITEMS == FileOrder._ITEMS
            raise StateError(
                f"{self._ITEMS} were returned{' out of order' if is_file else ''} by share {old.share} of {old.shares}, and this is "
                f"share {new.share} of {new.shares}: resume each rank and worker with its own state, on the same number of them"
                f"{', or make the loader with ordered=True' if is_file else ''}"
            )
        if (old.shares, old.workers, old.worker) != (new.shares, new.workers, new.worker):
            raise StateError(
                f"files were returned by worker {old.worker} of {old.workers} on {old.ranks} ranks, and this is worker {new.worker} "
                f"of {new.workers} on {new.ranks}: workers do not return the same number of files, so resume with "
                "the same number of ranks and workers, or at the end of an epoch"
            )
        return start, taken


def _worker_info() -> Any:
    """Returns torch's description of the worker of a DataLoader that this process is, if it is one."""
    return getattr(sys.modules.get("torch.utils.data"), "get_worker_info", lambda: None)()


def _reaches(files: Sequence[File], at: int) -> bool:
    # Not by an IndexError, which the source of URLs may raise as well.
    return files.reaches(at) if isinstance(files, GrowingFiles) else at < len(files)


def _register() -> None:
    """Makes torch's DataLoader iterate instead of drawing indexes."""
    base = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", None)
    if base is not None and not issubclass(FileOrder, base):
        base.register(FileOrder)


def is_of_one_rank(state: Any) -> bool:
    """Returns true for states with one of a loader of files that only the same rank can continue."""
    if isinstance(state, Mapping):
        if {"taken", "ahead", "shares", "ordered"} <= state.keys():
            return not state["ordered"] and bool(state["taken"] or state["ahead"] or state.get("offset"))
        state = list(state.values())
    return isinstance(state, (list, tuple)) and any(map(is_of_one_rank, state))


def warn_of_second_division(source: Any, whole: str) -> None:
    """Warns in a worker of a DataLoader if a DataPipe divides the items of the data set `source`, which are a share already.

    With the argument `whole` the data set returns everything.
    """
    info = _worker_info()
    if info is None or info.id > 0 or info.num_workers < 2 or not _divides_again(getattr(info, "dataset", None), type(source)):
        return
    name = type(source).__name__
    warnings.warn(
        f"a sharding_filter behind {name} divides each worker's share again, so files are left out: leave out the filter, or pass "
        f"{whole} where the {name} is made",
        stacklevel=3,
    )


def _divides_again(pipe: Any, source: type) -> bool:
    """Returns true if `pipe` is or has a DataPipe that divides samples of a `source`."""
    from torch.utils.data import IterDataPipe, MapDataPipe
    from torch.utils.data.graph import traverse_dps
    from torch.utils.data.graph_settings import _is_sharding_datapipe, get_all_graph_pipes

    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        return False
    for divider in filter(_is_sharding_datapipe, get_all_graph_pipes(traverse_dps(pipe))):
        before = get_all_graph_pipes(traverse_dps(divider))
        if any(isinstance(value, source) for one in before for value in vars(one).values()):
            return True
    return False
