"""A batch while its rows are mapped."""

from __future__ import annotations

import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .rows import RowPadding, collated


class Call(NamedTuple):
    """Arguments of one call of the function."""

    sample: dict[str, Any]
    """A row of each output."""
    key: int
    """Key of the sample's generator."""


class Failure(NamedTuple):
    """Outcome of a call that raised an error."""

    text: str
    """Type and message."""
    error: BaseException | None
    """The error, if it could be passed on."""
    details: str = ""
    """Its traceback, where the error itself has none."""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Returns the failure with an error of this process."""
        return cls("".join(traceback.format_exception_only(type(error), error)).strip(), error)


class WorkerFailure(Failure):
    """Outcome of all calls of a worker that had an error which is not about a sample."""


Caller = Callable[[Sequence[Call]], "list[Any]"]
"""Calls the function for several samples. Returns for each a dict or a `Failure`; an error of the worker is raised."""


@dataclass(eq=False, repr=False)
class MappedBatch:
    """Rows of a batch, their results, and the batch that these become.

    Workers call `run`, each for different rows; the one that completes the last row collates all. The consumer waits for that.
    """

    columns: dict[str, Any]
    """Outputs that the function gets, as sequences of rows."""
    rest: dict[str, Any]
    """Outputs that stay as they are, in the engine's form."""
    keys: list[int]
    """Key of the generator of each row."""
    ids: Any
    """Stream, shard and index of each row."""
    keeps_failures: bool
    """Collate the remaining rows if some have failed."""
    padding: RowPadding | None = None
    """Padding of the function's outputs."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        # The lock is held until the batch is done, for `wait`.
        self._is_done, self._end = False, threading.Lock()
        self._end.acquire()
        self._results: list[Any] = [None] * len(self.keys)
        # Rows without a result.
        self._remaining = len(self.keys)
        # Error of a worker or of collating, which is not about one sample, and the collated outputs: None without a row.
        self.error: BaseException | None = None
        self.batch: dict[str, Any] | None = None
        # The consumer has counted the failures; and `finish` has raised, so that the consumer needs a new try.
        self.is_settled = False
        self.has_raised = False
        # Chunks that the workers had done when the consumer looked, and the time when that number has changed.
        self.progress, self.since = -1, 0.0

    def __len__(self) -> int:
        return len(self.keys)

    def call_of(self, row: int) -> Call:
        """Returns the arguments of the call for a row."""
        return Call({name: _row(column, row) for name, column in self.columns.items()}, self.keys[row])

    def run(self, rows: Sequence[int], caller: Caller) -> None:
        """Makes the results of `rows`. Does not raise."""
        outcomes, error = [None] * len(rows), None
        # With an error of a worker all rows without a result are tried again later.
        if self.error is None:
            try:
                outcomes = caller([self.call_of(row) for row in rows])
            except BaseException as raised:
                error = raised
        with self._lock:
            for row, outcome in zip(rows, outcomes):
                self._results[row] = outcome
            self.error = self.error or error
            self._remaining -= len(rows)
            is_last = self._remaining == 0
        if is_last:
            self._complete()

    def _complete(self, failures: type[BaseException] = BaseException) -> None:
        """Collates the results of all rows. Raises only errors besides `failures`: interrupts of the consumer's thread."""
        try:
            self._collate()
        except failures as raised:
            self.error = raised
        self._is_done = True
        self._end.release()

    def _collate(self) -> None:
        failed = self.failures()
        if self.error is not None or failed and not self.keeps_failures:
            return
        rows = [row for row in range(len(self)) if row not in failed]
        # Of most samples, or of the first one, so that a sample with different names fails alone.
        counts = Counter(frozenset(self._results[row]) for row in rows)
        names = counts.most_common(1)[0][0] if counts else frozenset()
        for row in rows:
            if (found := self._results[row].keys()) != names:
                text = f"it returned {', '.join(found)} for this sample, and {', '.join(sorted(names))} for a different one"
                self._results[row] = Failure(f"ValueError: {text}", None)
        if self.failures().keys() != failed.keys():
            self._collate()
        elif rows:
            if self.padding is not None:
                self.padding.check(names, self.rest)
            self.batch = collated([self._results[row] for row in rows], rows, self.columns, self.padding)

    def wait(self, seconds: float) -> bool:
        """Waits for the last row, at most `seconds`. True if all rows are done."""
        if not self._is_done:
            self._end.acquire(timeout=seconds)
        return self._is_done

    def failures(self) -> dict[int, Failure]:
        """Returns the failures by row, after `wait`."""
        return {row: result for row, result in enumerate(self._results) if isinstance(result, Failure)}

    def open_rows(self) -> list[int]:
        """Returns the rows without a result."""
        return [row for row, result in enumerate(self._results) if result is None]

    def again(self) -> MappedBatch:
        """Returns a batch that replaces this one, for a new try of the rows without a result. If all have one, it collates again."""
        batch = replace(self)
        batch._results = [None if isinstance(result, Failure) else result for result in self._results]
        batch._remaining = len(batch.open_rows())
        batch.is_settled = self.is_settled
        if not batch._remaining:
            batch._complete(Exception)
        return batch


def _row(column: Any, row: int) -> Any:
    """Returns a row for the function. Of a list it is a view too, so that the function cannot change the shape of the list's own one."""
    value = column[row]
    if isinstance(column, list):
        if hasattr(value, "detach"):
            return value.detach()
        if hasattr(value, "view"):
            return value.view()
    return value
