"""Position of the iteration in one process, for programs that save the state of each worker, such as torchdata's
StatefulDataLoader. The reference has only the position of all workers together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["KEY", "Position", "Taken", "after"]

KEY = "worker"
"""Key in a state of one process, next to the keys of the reference's."""


class _Counts(Protocol):
    @property
    def taken(self) -> int: ...


class Taken(Iterator[Any]):
    """Samples of an iteration in Python, which are counted."""

    def __init__(self, samples: Iterable[Any], taken: int) -> None:
        self._samples = iter(samples)
        self.taken = taken

    def __next__(self) -> Any:
        sample = next(self._samples)
        self.taken += 1
        return sample

    def close(self) -> None:
        """Ends the iteration."""
        self._samples.close()  # type: ignore[attr-defined]


class Position:
    """Position of the iteration in this process."""

    def __init__(self) -> None:
        # Samples of this worker that the next iteration leaves out. None: all.
        self._left_out: int | None = 0
        # A position was loaded, and no iterator was made since.
        self._is_loaded = False
        # Epoch, and its samples that were done when it began, of the iteration that has begun.
        self._start: tuple[int, int] | None = None
        self._counts: _Counts | None = None
        self._is_ended = False

    def is_upcoming(self) -> bool:
        """Returns true if the next sample begins an epoch."""
        return self._start is None

    @property
    def start(self) -> tuple[int, int]:
        """Epoch, and its samples that were done when the iteration began."""
        assert self._start is not None, "no iteration has begun"
        return self._start

    def reset(self) -> None:
        """Notes an iterator that has not begun its epoch."""
        self._start, self._counts, self._is_ended = None, None, False
        if self._left_out is None and not self._is_loaded:
            # The iterator before belonged to the epoch without samples.
            self._left_out = 0
        self._is_loaded = False

    def begin(self, epoch: int, done: int) -> int:
        """Notes the begin of an epoch, and returns the number of samples that it leaves out."""
        left_out, self._left_out = self._left_out or 0, 0
        self._start = (epoch, done)
        return left_out

    def count(self, samples: _Counts) -> None:
        """Notes the samples of the epoch, which have their number."""
        self._counts = samples

    def end(self) -> None:
        """Notes the end of the epoch's samples."""
        self._is_ended = True

    def worker(self) -> dict[str, Any]:
        """Returns the part of a state that belongs to this process."""
        if self._left_out is None:
            return {"samples": 0, "is_ended": True}
        taken = self._left_out if self._counts is None else self._counts.taken
        return {"samples": taken, "is_ended": self._is_ended}

    def load(self, worker: dict[str, Any]) -> None:
        """Makes the next iteration continue after the position `worker`."""
        self.reset()
        self._left_out, self._is_loaded = None if worker["is_ended"] else worker["samples"], True

    def take_empty(self) -> bool:
        """Returns true once if the next iteration has no samples, because those of the epoch were taken."""
        is_empty = self._left_out is None
        if is_empty:
            self._left_out, self._is_ended = 0, True
        return is_empty


def after(ids: NDArray[np.int64], samples: int) -> NDArray[np.int64]:
    """Returns the `ids` after the first `samples` samples; -1 is none."""
    if not samples:
        return ids
    places = np.flatnonzero(ids != -1)
    return ids[places[samples - 1] + 1 :] if samples <= len(places) else ids[len(ids) :]
