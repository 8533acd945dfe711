"""States of shards as in the reference, for programs that use them.

Programs reset the state of a shard after a failed download, because the reference leaves it as being prepared and other
processes wait forever. That is not needed here: a state is computed from the disk, and setting one has no effect.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import IntEnum
from typing import overload

from .format import Reader

__all__ = ["ShardStates", "_ShardState"]


class _ShardState(IntEnum):
    """State of a shard, with the reference's numbers."""

    INVALID = 0
    REMOTE = 1
    PREPARING = 2
    LOCAL = 3


class ShardStates(Sequence[_ShardState]):
    """States of all shards of a data set: `LOCAL` if all files are on local disk in one form, else `REMOTE`; `INVALID`
    for readers that do not name their files.

    Args:
        shards: Their readers.
    """

    def __init__(self, shards: Sequence[Reader]) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return len(self._shards)

    @overload
    def __getitem__(self, at: int) -> _ShardState: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[_ShardState]: ...
    def __getitem__(self, at: int | slice) -> _ShardState | Sequence[_ShardState]:
        if isinstance(at, slice):
            return [_state_of(shard) for shard in self._shards[at]]
        return _state_of(self._shards[at])

    def __setitem__(self, at: int, state: _ShardState) -> None:
        """Does nothing."""


def _state_of(shard: Reader) -> _ShardState:
    if not isinstance(shard, Reader):
        return _ShardState.INVALID
    forms = (shard._raw_infos(), shard._zip_infos())
    is_here = any(files and all(os.path.isfile(shard._path(info)) for info in files) for files in forms)
    return _ShardState.LOCAL if is_here else _ShardState.REMOTE
