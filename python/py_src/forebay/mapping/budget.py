"""Samples of an epoch that were left out, up to a batch. The engine decodes ahead, so its own count is that of a later one."""

from __future__ import annotations

import json

from .. import _forebay

__all__ = ["SkipBudget"]


class SkipBudget:
    """Budget of one engine's epoch, which its bad samples and those of the function share.

    The room left depends on the batches up to the one in question, whatever was decoded ahead. Samples that the engine tried in
    place of all those of a batch count only for its own check.

    Args:
        max_errors: Samples that may be left out.
        rows: Rows of a full batch.
        is_alone: There are no other ranks, so the engine does not deliver a batch without rows.
    """

    def __init__(self, max_errors: int, rows: int, is_alone: bool) -> None:
        self.max_errors = max_errors
        self._rows = rows
        self._is_alone = is_alone
        self._first_sample = 0
        # Samples that were left out in earlier epochs.
        self._counted_before = 0
        # Rows that the engine has left out of each batch, and failures of the function there.
        self._of_engine: dict[int, int] = {}
        self._of_function: dict[int, int] = {}

    def begin_epoch(self, engine: _forebay.Engine, first_sample: int) -> None:
        """Is called before the engine starts an epoch at a place of it."""
        self._first_sample = first_sample
        self._counted_before = _counted(engine)
        self._of_engine.clear()
        self._of_function.clear()

    def note(self, number: int, rows: int) -> None:
        """Notes the rows of batch `number`."""
        if rows < self._rows:
            self._of_engine[number] = self._rows - rows

    def settle(self, number: int, failures: int) -> None:
        """Notes the failures of batch `number`."""
        if failures:
            self._of_function[number] = failures

    def left(self, number: int, engine: _forebay.Engine, failures: int) -> int:
        """Returns how many of `failures` more, those of the function in batch `number`, the budget allows. Negative: the engine's bad
        samples up to this batch have exceeded it already."""
        of_function = sum(count for at, count in self._of_function.items() if at != number)
        if not of_function and not failures:
            # The engine checks its own.
            return 0
        # Those of batches ahead included.
        counted = _counted(engine) - self._counted_before
        if counted + failures <= self.max_errors:
            return self.max_errors - counted
        state = json.loads(engine.state_dict(number, "all"))
        if number in self._of_engine and engine.batches_from(state["sample_in_epoch"]) <= 1:
            # The last batch need not be full, and there are none ahead.
            return self.max_errors - counted
        of_engine = sum(count for at, count in self._of_engine.items() if at <= number)
        if self._is_alone and "skipped" not in state["forebay"]:
            # Batches without rows, which were not delivered. Those of `skip_steps` look alike.
            of_engine += max(0, state["sample_in_epoch"] - self._first_sample - number * self._rows)
        return self.max_errors - min(of_function + of_engine, counted)


def _counted(engine: _forebay.Engine) -> int:
    """Returns the number of samples that an engine has left out, those of the function included."""
    return json.loads(_forebay.Engine.stats([engine]))["counters"].get("samples_skipped", 0)
