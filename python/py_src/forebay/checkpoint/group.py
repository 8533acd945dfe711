"""Ranks that save one checkpoint."""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .._world import torch_distributed
from ..errors import Error, NetworkError, from_engine

_WAIT = datetime.timedelta(hours=6)
"""Longest wait for the slowest rank's upload. A rank that dies ends the wait at once."""

_Result = TypeVar("_Result")

_made: tuple[Any, Any] = (lambda: None, lambda: None)
"""Weak references to the default process group, and to the group made for it: torch ends them, before the process ends."""


class Alone:
    """A single process."""

    rank: int = 0
    ranks: int = 1

    def run(self, action: Callable[[], _Result]) -> list[_Result]:
        """Runs `action` on every rank, and returns all results in the order of ranks.

        Raises:
            Error: It failed on a rank. All ranks raise; that rank raises its own exception.
        """
        return [action()]

    def first(self, action: Callable[[], _Result]) -> _Result:
        """Runs `action` on rank 0, and returns its result on all ranks. It fails as `run` does."""
        return self.run(lambda: action() if self.rank == 0 else None)[0]  # type: ignore[return-value]


class Group(Alone):
    """Processes of a process group of torch, which all call the same methods."""

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        self._group = group
        self.rank: int = dist.get_rank(group)
        self.ranks: int = dist.get_world_size(group)

    def run(self, action: Callable[[], _Result]) -> list[_Result]:
        import torch.distributed as dist

        result: Any = None
        failed: BaseException | None = None
        try:
            result = action()
        except BaseException as error:
            # Also an interrupt, as the rest of the ranks would wait then.
            failed = error
        kind = failed.kind if isinstance(failed, Error) else Error.kind
        mine = None if failed is None else (kind, f"{type(failed).__name__}: {failed}")
        outcomes: list[Any] = [None] * self.ranks
        try:
            dist.all_gather_object(outcomes, (mine, result), group=self._group)
        except RuntimeError as error:
            if failed is None:
                raise NetworkError(f"a rank does not respond, it may have ended: {error}") from error
        if failed is not None:
            raise failed
        for rank, (theirs, _) in enumerate(outcomes):
            if theirs is not None:
                kind, message = theirs
                raise from_engine(kind, f"rank {rank} has failed: {message}", [("rank", str(rank))])
        return [result for _, result in outcomes]


def rank_and_ranks() -> tuple[int, int]:
    """Returns the rank of this process in the default process group, and the number of ranks. It does not communicate."""
    dist = torch_distributed()
    return (0, 1) if dist is None else (dist.get_rank(), dist.get_world_size())


def current() -> Alone:
    """Returns the ranks of the default process group, or this process if there is none.

    The default group is not used itself: a save in the background would disturb the order of its operations. The first call
    makes a group of the same ranks, so all ranks make it at the same point of the program.
    """
    global _made
    dist = torch_distributed()
    if dist is None:
        return Alone()
    if _made[0]() is not dist.group.WORLD or _made[1]() is None:
        group = dist.new_group(backend="gloo", timeout=_WAIT)
        _made = (weakref.ref(dist.group.WORLD), weakref.ref(group))
    return Group(_made[1]())
