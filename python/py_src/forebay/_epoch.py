"""Iterator of a loader's epoch."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

from . import _forebay
from ._mapping.mapper import Mapper, Wait
from ._transform import Transform
from ._world import World, check_group

_MAP_SECONDS = 0.1
"""Wait for a batch that is mapped, between looks at the engines' next ones."""


@dataclass(eq=False, repr=False)
class BatchMaker:
    """Work on a batch between the engines and the loop."""

    convert: Callable[[Any], Any]
    """From an engine's outputs to a batch of the framework."""
    mapper: Mapper | None
    """The work of `map`, instead of `convert`."""
    transform: Transform | None
    """Function of the batch that is delivered."""
    is_single: bool
    """A step has one batch, and not a list of the devices' batches."""

    @property
    def is_transformed(self) -> bool:
        """True if there is a `transform`."""
        return self.transform is not None

    @property
    def is_plain(self) -> bool:
        """True if a batch has the outputs of the engine."""
        return self.mapper is None and self.transform is None

    def transformed(self, batches: list[Any]) -> Any:
        """Returns the batches of all devices, transformed."""
        batch = batches[0] if self.is_single else batches
        return batch if self.transform is None else self.transform(batch)


class LoaderParts(NamedTuple):
    """Parts of a loader that its iterators use."""

    session: _forebay.Session
    engines: list[_forebay.Engine]
    world: World
    check: Callable[[], None]
    """Raises ClosedError if the loader was closed, or belongs to a different process."""


class Epoch(_forebay.Steps):
    """Iterator of one epoch. The base class has `next`, and calls the methods here for each batch.

    The session has its state: which batches were taken, and which of them were delivered. A batch that a call of `next` has
    taken and not delivered, because of an error or an interrupt, is the first one of the next call.
    """

    def __init__(self, taking: _forebay.Pass, parts: LoaderParts, maker: BatchMaker) -> None:
        self._pass = taking
        self._parts = parts
        self._maker = maker
        # A batch was taken since the process group was checked.
        self._is_checked = False
        if maker.mapper is not None:
            maker.mapper.begin_epoch()

    def peek(self) -> Any:
        """Returns the next batch, which `next` returns again. Until then it does not count, and this epoch has not begun."""
        taken: _forebay.Taken | None = None
        try:
            while True:
                self._check_group()
                taken = self._pass.take(True)
                if taken is None:
                    self._end(3)
                    raise StopIteration
                made = self._made(taken)
                if made is not None:
                    taken.show()
                    return made[0]
                lost = taken.items()
                taken.leave_out()
                taken = None
                self._check_lost(lost)
        except StopIteration:
            raise
        except BaseException:
            # The next `iter` makes it again.
            if taken is not None:
                taken.release()
            self._pass.close()
            raise

    def has_next(self) -> bool:
        """Waits for the next batch, which `next` converts and returns. False at the end of the epoch."""
        taken: _forebay.Taken | None = None
        try:
            self._check_group()
            taken = self._pass.take(False)
            if taken is None:
                self._end(3)
                return False
            self._begin_map(taken)
            return True
        finally:
            if taken is not None:
                taken.release()

    def close(self) -> None:
        """Ends the iterator: its threads stop, and the batches made ahead are dropped. `break` out of a `for` does that too.

        The loader's state stays; its next `iter` starts the next epoch, or this one if no batch was taken. A `next` that waits
        in a different thread raises ClosedError.
        """
        self._pass.close()

    @property
    def is_abandoned(self) -> bool:
        """True if a newer iterator, `load_state_dict` or `close` of the loader has ended this one."""
        return self._pass.is_abandoned

    def _check(self) -> None:
        """Checks the loader before a batch is taken."""
        self._parts.check()
        if not self._pass.is_abandoned:
            self._warn_of_dropped_position()
        self._check_group()

    def _check_group(self) -> None:
        if not self._is_checked:
            # The group may have been made since `iter`.
            check_group(self._parts.world)

    def _made(self, taken: _forebay.Taken) -> tuple[Any] | None:
        """Returns a tuple with the batch of a step for the loop. None: all samples of a device were left out."""
        self._is_checked = True
        batches = self._converted(taken)
        return None if batches is None else (self._maker.transformed(batches),)

    def _converted(self, taken: _forebay.Taken) -> list[Any] | None:
        """Returns the batches of a step in the user's framework, mapped. None: all samples of one of them were left out."""
        mapper = self._maker.mapper
        if mapper is None:
            return [self._maker.convert(outputs) for outputs in taken.items()]
        self._begin_map(taken)
        number, batches = taken.number, []
        self._map(taken, mapper)
        for engine_number, engine in enumerate(self._parts.engines):
            before = taken.items()[engine_number]
            batch = mapper.again(before)
            if batch is not before:
                taken.replace(engine_number, batch)
            wait = Wait()
            while not mapper.ready(batch, wait, engine, _MAP_SECONDS):
                self._parts.check()
                self._pass.check()
                self._take_ahead(mapper)
            batches.append(mapper.finish(self._parts.session, engine, batch, engine_number, number))
        return None if any(batch is None for batch in batches) else batches

    def _begin_map(self, taken: _forebay.Taken) -> None:
        """Begins to map a batch, and those that can be taken ahead of it."""
        mapper = self._maker.mapper
        if mapper is not None:
            self._map_ahead(taken, mapper)
            self._take_ahead(mapper)

    def _map(self, held: _forebay.Taken | _forebay.HeldBatch, mapper: Mapper) -> None:
        """Begins to map the outputs of a batch."""
        for engine_number, outputs in enumerate(held.items()):
            if isinstance(outputs, dict):
                held.replace(engine_number, mapper.begin(self._parts.session, outputs, engine_number, held.number))

    def _map_ahead(self, held: _forebay.Taken | _forebay.HeldBatch, mapper: Mapper) -> None:
        """Begins to map a batch. The call of `next` that finishes it gets the error, if there is one."""
        with contextlib.suppress(Exception):
            self._map(held, mapper)

    def _take_ahead(self, mapper: Mapper) -> None:
        """Takes batches that are ready and maps them, up to the bound."""
        while isinstance(held := self._pass.take_ahead(mapper.prefetch), _forebay.HeldBatch):
            self._map_ahead(held, mapper)
        if held == "full":
            mapper.workers.idle_kind = "output"
        elif held == "ended":
            mapper.workers.idle_kind = None

    def _check_lost(self, lost: list[Any]) -> None:
        """Raises MapError if further ranks wait for a batch that was left out."""
        if self._maker.mapper is not None:
            self._maker.mapper.check_lost(lost, self._parts.engines)

    def _end(self, stacklevel: int = 2) -> None:
        """Ends the epoch: all its batches were delivered."""
        if self._maker.mapper is not None:
            self._maker.mapper.workers.idle_kind = None
        if not self._pass.had_no_batch():
            return
        # Not at the start, because counting batches needs a plan of the epoch, which takes time.
        if not self._parts.engines[0].batches():
            why = "drop_last leaves out the only one, which is shorter than batch_size"
        elif json.loads(_forebay.Engine.stats(self._parts.engines))["counters"].get("samples_skipped"):
            why = "Skip(errors=...) left out every sample"
        else:
            return
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=stacklevel)

    def _leave(self, traceback: TracebackType | None) -> None:
        """Drops the variables of this file's frames in the traceback of an error that `next` raises.

        A program may keep the error, and its traceback has the iterator, which would keep the epoch running.
        """
        _release(traceback)

    def _warn_of_dropped_position(self) -> None:
        """Warns if a state was loaded, no batch has followed it, and `set_epoch` has named an earlier epoch.

        A later epoch is no mistake: a trainer may have ended the loaded one before its last batch.
        """
        dropped = self._parts.session.dropped_position
        if dropped is None:
            return
        epoch, sample = dropped
        engine, now = self._parts.engines[0], self._parts.session.epoch
        warnings.warn(
            f"the loaded state is at batch {engine.batches() - engine.batches_from(sample)} of epoch {epoch}, but set_epoch({now}) was "
            f"called after it was loaded: this position is dropped, and epoch {now} starts at its first batch. To resume, loop over "
            f"range(loader.epoch, n), which starts with epoch {epoch}",
            stacklevel=3,
        )


def _release(traceback: TracebackType | None) -> None:
    """Drops the variables of this file's frames in a traceback."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _release.__code__.co_filename:
            with contextlib.suppress(RuntimeError):  # A frame that runs.
                traceback.tb_frame.clear()
        traceback = traceback.tb_next
