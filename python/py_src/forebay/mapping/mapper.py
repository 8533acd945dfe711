"""Work of one loader's map: begins batches, finishes them, and decides about samples that fail."""

from __future__ import annotations

import json
import logging
import time
import weakref
from typing import Any

from .. import _forebay
from ..convert import Batch, mapped
from ..errors import ConfigError, MapError, StalledError
from .batch import Failure, MappedBatch
from .calls import caller_of
from .collate import kept_rows
from .generator import key
from .options import Map
from .workers import Workers

__all__ = ["Mapper"]

_log = logging.getLogger("forebay")

_HIDDEN = ("sample_ids", "sample_draws")
"""Outputs that the map needs."""

_CHUNK_MAX = 16
"""Rows that a worker takes together, at most."""

_PREFETCH = 3

_WARNINGS_MAX = 10
"""Samples of an epoch that are left out with a warning; further ones are logged for debugging. As in the engine."""


class Mapper:
    """Map of a loader.

    Args:
        options: The map.
        framework: Framework of the batches.
        batch: Facts about them.
        values: Options of the loader.
        ranks: Ranks of the job, and of this node.
    """

    def __init__(self, options: Map, framework: str, batch: Batch, values: dict[str, Any], ranks: tuple[int, int]) -> None:
        if not batch.is_on_host:
            raise ConfigError(
                f"map works on batches in host memory, but device is {', '.join(batch.devices)}: use device=\"cpu\", and move batches "
                "to the device in transform"
            )
        self.options = options
        self._to_rows, self._to_batch = mapped(framework, batch)
        self._batch = batch
        self._seed: int = values["shuffle_seed"] if values["augment_seed"] is None else values["augment_seed"]
        self._max_errors: int | None = values["max_errors"] if values["on_error"] == "skip" else None
        self._stall_timeout: float = values["stall_timeout"]
        # Other ranks wait for a rank without a batch.
        self._is_alone = ranks[0] * len(batch.devices) == 1
        self._kept_marks = [name for name in _HIDDEN if name in batch.marks]
        self.prefetch: int = options.prefetch or values["prefetch"] or _PREFETCH
        self._check_inputs(batch.outputs())
        count = options.workers or max(1, _forebay.cpu_count() // ranks[1])
        self.workers = Workers(count, self._opener())
        # Figures of the epoch: samples that the engines had left out before, and warnings.
        self._skipped_before: list[int] = []
        self._warnings = 0
        weakref.finalize(self, self.workers.close)

    def _opener(self) -> Any:
        """Returns the function that makes a worker's caller. It has no reference to this object."""
        options = self.options
        if options.kind == "processes":
            from .processes import ProcessCaller, pickled

            function = pickled(options.function, options.name)
            return lambda: ProcessCaller(function, options.name)
        if options.kind == "interpreters":
            from .interpreters import opener

            return opener(options.function, options.name)
        caller = caller_of(options.function)
        return lambda: caller

    def _check_inputs(self, outputs: list[str]) -> None:
        """Raises ConfigError if an input is not among the outputs; empty if they are not known."""
        for name in self.options.inputs or ():
            if outputs and name not in outputs:
                raise ConfigError(f"map: inputs of Map has {name!r}, but the outputs are {', '.join(outputs)}")

    def begin_epoch(self, engines: list[_forebay.Engine]) -> None:
        """Is called before the engines start an epoch."""
        self._warnings = 0
        if self._max_errors is not None:
            self._skipped_before = [_skipped(engine) for engine in engines]

    def begin(self, outputs: dict[str, Any]) -> MappedBatch:
        """Begins to map a batch of an engine."""
        columns = self._to_rows(outputs)
        ids, draws = (columns[name] for name in _HIDDEN)
        columns = {name: value for name, value in columns.items() if name not in _HIDDEN or name in self._kept_marks}
        inputs = columns
        if self.options.inputs is not None:
            self._check_inputs(list(columns))
            inputs = {name: columns[name] for name in self.options.inputs}
        rest = {name: value for name, value in columns.items() if name not in inputs or name in self._batch.marks}
        keys = [key(self._seed, *row) for row in draws.tolist()]
        batch = MappedBatch(inputs, rest, keys, ids, keeps_failures=self._max_errors is not None)
        self.workers.idle_kind = "input"
        self._put(batch, range(len(batch)))
        return batch

    def _put(self, batch: MappedBatch, rows: Any) -> None:
        chunk = min(max(len(batch) // (4 * self.workers.count), 1), _CHUNK_MAX)
        self.workers.put(batch, rows, chunk)

    def ready(self, batch: MappedBatch, wait: Wait, engine: _forebay.Engine, seconds: float) -> bool:
        """Waits for a batch, at most `seconds`. True if it is complete or has failed.

        Raises:
            StalledError: No call has ended for `stall_timeout`.
        """
        if wait.is_first and batch.has_raised:
            batch.has_raised = False
            self._put(batch, batch.reopen())
        wait.is_first = False
        began = time.perf_counter()
        is_done = batch.wait(seconds)
        self._report(engine, time.perf_counter() - began)
        if is_done:
            return True
        if wait.progress != self.workers.progress:
            wait.progress, wait.since = self.workers.progress, time.monotonic()
        elif time.monotonic() - wait.since >= self._stall_timeout:
            row = batch.first_open()
            facts = {} if row is None else self._identity(batch, row, engine)
            raise _with(
                StalledError, f"no call of {self.options.name} has ended for {self._stall_timeout:.0f} s (stall_timeout)", facts
            )
        return False

    def _report(self, engine: _forebay.Engine, waited: float) -> None:
        seconds, samples = self.workers.take_times()
        engine.add_map_times(seconds, samples, waited)

    def finish(self, batch: MappedBatch, engines: list[_forebay.Engine], number: int) -> dict[str, Any] | None:
        """Returns a batch of engine `number` that is complete; None if all its samples were left out.

        Raises:
            MapError: The function failed for a sample that may not be left out; or a process has died.
            ConfigError: The workers cannot start.
        """
        engine = engines[number]
        try:
            if batch.error is not None:
                raise batch.error
            failures = batch.failures()
            if not batch.is_settled:
                self._settle(batch, failures, engine, number)
        except BaseException:
            batch.has_raised = True
            raise
        if batch.batch is None:
            return None
        rows = [row for row in range(len(batch)) if row not in failures]
        outputs = dict(batch.batch)
        outputs |= {name: kept_rows(value, rows) for name, value in batch.rest.items() if name not in outputs}
        return self._to_batch(outputs)

    def _settle(self, batch: MappedBatch, failures: dict[int, Failure], engine: _forebay.Engine, number: int) -> None:
        """Leaves failures out, or raises the first one."""
        for row, failure in failures.items():
            hint = ""
            if self._max_errors is None:
                hint = ': on_error="skip" with max_errors leaves such samples out'
            elif _skipped(engine) - self._skipped_before[number] >= self._max_errors:
                hint = f": the epoch has more bad samples than max_errors {self._max_errors}"
            error = self._error(batch, row, failure, engine, hint)
            if hint:
                raise error from _cause(failure)
            engine.add_skipped(1)
            self._warnings += 1
            _log.log(logging.WARNING if self._warnings <= _WARNINGS_MAX else logging.DEBUG, "a sample was skipped: %s", error)
        if len(failures) == len(batch) and not self._is_alone:
            raise MapError(
                f"{self.options.name} failed for every sample of a batch, for which the other ranks would wait: repair the function or the "
                "data, or choose a larger batch_size"
            )
        batch.is_settled = True

    def _error(self, batch: MappedBatch, row: int, failure: Failure, engine: _forebay.Engine, hint: str) -> MapError:
        return _with(MapError, f"{self.options.name} failed for a sample: {failure.text}{hint}", self._identity(batch, row, engine))

    def _identity(self, batch: MappedBatch, row: int, engine: _forebay.Engine) -> dict[str, str]:
        """Returns the facts that name a row's sample."""
        stream, shard, index = (int(number) for number in batch.ids[row])
        sample = json.loads(engine.sample(stream, shard, index))
        keys = batch.rest.get("sample_keys")
        named = (sample["key"] if keys is None else keys[row]) or None
        facts = {"stream": stream, "shard": shard, "sample in shard": index, "file": sample["file"], "key": named, "row": row}
        return {name: str(value) for name, value in facts.items() if value is not None}


class Wait:
    """The consumer's wait for a batch."""

    def __init__(self) -> None:
        self.is_first = True
        self.progress = -1
        self.since = time.monotonic()


def _skipped(engine: _forebay.Engine) -> int:
    """Returns the number of samples that an engine has left out."""
    return json.loads(_forebay.Engine.stats([engine]))["counters"].get("samples_skipped", 0)


def _with(kind: Any, message: str, facts: dict[str, str]) -> Any:
    error = kind(f"{message} ({', '.join(f'{name} {value}' for name, value in facts.items())})" if facts else message)
    error.context = facts
    return error


class _Details(Exception):
    """Traceback of a process."""


def _cause(failure: Failure) -> BaseException | None:
    """Returns the error of the function, with its traceback in the process that ran it."""
    error = failure.error
    if failure.details:
        details = _Details(f"\n{failure.details}")
        if error is None:
            return details
        error.__cause__ = details
    return error
