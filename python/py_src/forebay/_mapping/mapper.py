"""Work of one loader's map: begins batches, finishes them, and decides about samples that fail."""

from __future__ import annotations

import json
import logging
import time
import weakref
from collections.abc import Sequence
from typing import Any

from .. import _forebay
from .._convert import Batch, mapped
from ..errors import ConfigError, Error, MapError, StalledError
from .batch import Failure, MappedBatch
from .calls import caller_of
from .rows import RowPadding, RowsDiffer, kept_rows
from .options import PREFETCH_MAX, Map
from .workers import Workers

_log = logging.getLogger("forebay")

HIDDEN = ("sample_ids", "sample_draws")
"""Outputs that the map needs."""

_CHUNK_MAX = 16
"""Rows that a worker takes together, at most."""

_PREFETCH = 3

_WARNINGS_MAX = 10
"""Samples of an epoch that are left out with a warning; further ones are logged for debugging. As in the engine."""


class Mapper:
    """Map of a loader. `values` are the loader's options, and `ranks` the numbers of ranks of the job and of this node."""

    def __init__(self, options: Map, framework: str, batch: Batch, values: dict[str, Any], ranks: tuple[int, int]) -> None:
        if not batch.is_on_host:
            raise ConfigError(
                f"map works on batches in host memory, but device is {', '.join(batch.devices)}: use device=\"cpu\", and move batches "
                'to the device in transform, as in transform=lambda batch: batch | {"x": batch["x"].to("cuda")}'
            )
        self.options = options
        self._to_rows, self._to_batch = mapped(framework, batch)
        self._batch = batch
        own_seed = values["order"]["augment_seed"]
        self._seed: int = values["seed"] if own_seed is None else own_seed
        self._stall_timeout: float = values["engine"]["stall_timeout"]
        # The rest of the ranks wait for a rank without a batch.
        self._is_alone = ranks[0] * len(batch.devices) == 1
        # Samples of an epoch that may be left out, the engine's included; None: samples that fail are errors.
        self._errors_max: int | None = values["skip"]["errors"] or None
        self._kept_marks = [name for name in HIDDEN if name in batch.marks]
        # States reach back to a bounded number of batches.
        self.prefetch: int = min(options.prefetch or values["engine"]["prefetch"] or _PREFETCH, PREFETCH_MAX)
        self._padding = RowPadding.of(options.name, options.pad, options.pad_to_multiple)
        self._check_inputs(batch.outputs())
        count = options.workers or max(1, _forebay.cpu_count() // ranks[1])
        self.workers = Workers(count, self._opener())
        # Samples of this epoch that were left out with a warning.
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

    @property
    def skips(self) -> tuple[int, int, bool] | None:
        """Limit of the session's samples that are left out, if there is one: their number, the rows of a batch, and true if there
        are no other ranks."""
        return None if self._errors_max is None else (self._errors_max, self._batch.rows, self._is_alone)

    def begin_epoch(self) -> None:
        """Begins to count the warnings of an epoch."""
        self._warnings = 0

    def begin(self, session: _forebay.Session, outputs: dict[str, Any], engine_number: int, number: int) -> MappedBatch:
        """Begins to map batch `number` of the engine at `engine_number`.

        Raises:
            DecodeError: Rows cannot be padded.
            ConfigError: They cannot be rows of the framework, or are no inputs of the function.
        """
        columns = self._to_rows(outputs)
        ids, draws = (columns[name] for name in HIDDEN)
        columns = {name: value for name, value in columns.items() if name not in HIDDEN or name in self._kept_marks}
        inputs = columns
        if self.options.inputs is not None:
            self._check_inputs(list(columns))
            inputs = {name: columns[name] for name in self.options.inputs}
        rest = {name: value for name, value in columns.items() if name not in inputs or name in self._batch.marks}
        keys = [_forebay.function_key(self._seed, *row) for row in draws.tolist()]
        batch = MappedBatch(inputs, rest, keys, ids, keeps_failures=self._errors_max is not None, padding=self._padding)
        session.note_rows(engine_number, number, len(batch))
        self.workers.idle_kind = "input"
        self._put(batch, range(len(batch)))
        return batch

    def again(self, batch: MappedBatch) -> MappedBatch:
        """Returns the batch for `ready`: a new one if `finish` has raised for this one."""
        if batch.has_raised:
            batch = batch.again()
            self._put(batch, batch.open_rows())
        batch.progress = -1
        return batch

    def _put(self, batch: MappedBatch, rows: Sequence[int]) -> None:
        chunk = min(max(len(batch) // (4 * self.workers.count), 1), _CHUNK_MAX)
        self.workers.put(batch, rows, chunk)

    def ready(self, batch: MappedBatch, engine: _forebay.Engine, seconds: float) -> bool:
        """Waits for a batch, at most `seconds`. True if it is complete or has failed.

        Raises:
            StalledError: No call has ended for `stall_timeout`.
            MapError: No worker could start.
        """
        self.workers.start()
        began = time.perf_counter()
        is_done = batch.wait(seconds)
        seconds_spent, samples = self.workers.take_times()
        engine.add_map_times(seconds_spent, samples, time.perf_counter() - began)
        if is_done:
            return True
        try:
            self.workers.check()
        except Exception as error:
            limit = "pass fewer workers to Map, or raise the limit of threads of this process"
            raise MapError(f"no worker of map could start: {error}: {limit}") from error
        if batch.progress != self.workers.progress:
            batch.progress, batch.since = self.workers.progress, time.monotonic()
        elif time.monotonic() - batch.since >= self._stall_timeout:
            rows = batch.open_rows()
            facts = self._identity(batch, rows[0], engine) if rows else {}
            raise _with(
                StalledError, f"no call of {self.options.name} has ended for {self._stall_timeout:.0f} s (stall_timeout)", facts
            )
        return False

    def finish(
        self, session: _forebay.Session, engine: _forebay.Engine, batch: MappedBatch, engine_number: int, number: int
    ) -> dict[str, Any] | None:
        """Returns batch `number` of the engine at `engine_number`, which is complete; None if all its samples were left out.

        Raises:
            MapError: The function failed for a sample that may not be left out; a worker failed, or a process has died.
            ConfigError: The workers cannot start, or rows of an output cannot be one array.
        """
        try:
            if isinstance(batch.error, RowsDiffer):
                error = batch.error
                raise _with(ConfigError, error.sentence(self.options.name), self._identity(batch, error.row, engine))
            if isinstance(batch.error, Error):
                raise batch.error
            if batch.error is not None:
                text = Failure.of(batch.error).text
                raise MapError(f"a worker that ran {self.options.name}, or made a batch of its results, failed: {text}") from batch.error
            failures = batch.failures()
            if not batch.is_settled:
                self._settle(session, engine, batch, failures, engine_number, number)
        except BaseException:
            batch.has_raised = True
            raise
        if batch.batch is None:
            return None
        rows = [row for row in range(len(batch)) if row not in failures]
        outputs = dict(batch.batch)
        outputs |= {name: kept_rows(value, rows) for name, value in batch.rest.items() if name not in outputs}
        return self._to_batch(outputs)

    def _settle(
        self,
        session: _forebay.Session,
        engine: _forebay.Engine,
        batch: MappedBatch,
        failures: dict[int, Failure],
        engine_number: int,
        number: int,
    ) -> None:
        """Leaves failures out, or raises an error of the first one that may not be left out."""
        if self._errors_max is None:
            for row, failure in failures.items():
                hint = ": skip=Skip(errors=100) leaves such samples out"
                raise self._error(batch, row, failure, engine, hint) from _cause(failure)
            return
        left = session.skips_left(engine_number, number, len(failures))
        hint = f"the epoch has more bad samples than Skip(errors={self._errors_max})"
        if failures and left < len(failures):
            row = list(failures)[max(left, 0)]
            raise self._error(batch, row, failures[row], engine, f": {hint}") from _cause(failures[row])
        if left < 0:
            raise MapError(f"{hint}: those for which {self.options.name} failed, and those that could not be decoded up to this batch")
        errors = [self._error(batch, row, failure, engine) for row, failure in failures.items()]
        session.note_failures(engine_number, number, len(errors))
        batch.is_settled = True
        if errors:
            engine.add_skipped(len(errors))
        for error in errors:
            self._warnings += 1
            _log.log(logging.WARNING if self._warnings <= _WARNINGS_MAX else logging.DEBUG, "a sample was skipped: %s", error)

    def check_lost(self, batches: list[MappedBatch], engines: list[_forebay.Engine]) -> None:
        """Raises MapError if the rest of the ranks wait for a batch that was lost, as all its samples were left out."""
        if self._is_alone:
            return
        batch, engine = next(pair for pair in zip(batches, engines) if len(pair[0].failures()) == len(pair[0]))
        row, failure = next(iter(batch.failures().items()))
        message = (
            f"{self.options.name} failed for every sample of a batch, for which the remaining ranks would wait: repair the function or the "
            f"data, or choose a larger batch_size. The next call continues with the batch after it. The first error: {failure.text}"
        )
        raise _with(MapError, message, self._identity(batch, row, engine)) from _cause(failure)

    def _error(self, batch: MappedBatch, row: int, failure: Failure, engine: _forebay.Engine, hint: str = "") -> MapError:
        return _with(MapError, f"{self.options.name} failed for a sample: {failure.text}{hint}", self._identity(batch, row, engine))

    def _identity(self, batch: MappedBatch, row: int, engine: _forebay.Engine) -> dict[str, str]:
        """Returns the facts that name a row's sample."""
        stream, shard, index = (int(number) for number in batch.ids[row])
        sample = json.loads(engine.sample(stream, shard, index))
        keys = batch.rest.get("sample_keys")
        named = (sample["key"] if keys is None else keys[row]) or None
        facts = {"stream": stream, "shard": shard, "sample in shard": index, "file": sample["file"], "key": named, "row": row}
        facts |= {name: sample[name] for name in ("row_group", "row_in_group")}
        return {name: str(value) for name, value in facts.items() if value is not None}


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
