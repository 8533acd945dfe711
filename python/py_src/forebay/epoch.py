"""Iterator of a loader's epoch."""

from __future__ import annotations

import contextlib
import itertools
import threading
import warnings
from types import TracebackType
from typing import Any

from .errors import ClosedError, Error
from .mapping.mapper import Wait
from .world import check_group

__all__ = ["Epoch"]


_Held = tuple[int, list[Any]]
"""Number of the batch that a call of `next` works on, and its outputs of each engine, or the `MappedBatch` of these; None marks the
end of the epoch."""

_MAP_SECONDS = 0.1
"""Wait for a batch that is mapped, between looks at the engines' next ones."""


class Epoch:
    """Iterator of one epoch.

    A batch is pending from before the engines are asked for it until `next` returns it, so that a signal handler or
    another thread sees a state without it. A pending batch that no call works on has failed or was taken ahead, to be mapped,
    and the next call begins with the first of them.

    Args:
        loader: The `Loader`. It has no type here, because the loader's file imports this one.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._over = False
        self._is_empty = True
        # The first batch is not that of the epoch.
        self._is_resumed = False
        # Guards the next three attributes for short times. Reentrant, because a signal handler may ask for the state.
        self._lock = threading.RLock()
        # Batches that the engines were asked for.
        self._begun = 0
        # Outputs of each pending batch, by its number and then by engine, as far as the engines have delivered them.
        self._pending: dict[int, list[Any]] = {}
        # Numbers of the batches that calls of `next` are taking, converting or transforming.
        self._in_flight: set[int] = set()
        self.abandoned = False
        self._is_closed = False
        # The engines have delivered all batches of the epoch, and some of them are pending.
        self._has_ended = False
        # The epoch in each engine, which ends with this object, since the first batch was asked for.
        self._started: list[Any] = []

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        loader._check()
        held: list[_Held] = []
        try:
            while True:
                with loader._turn:
                    if not self.abandoned:
                        loader._warn_of_unused_place()
                    self._take(held)
                batches = self._finished(held)
                batch = None if batches is None else _transformed(loader, batches)
                number = held[0][0]
                with self._lock:
                    self._pending.pop(number, None)
                    self._in_flight.discard(number)
                    self._note_failed()
                if batches is not None:
                    return batch
                # It counts for the state, but is not delivered.
                lost = held.pop()[1]
                loader._mapper.check_lost(lost, loader._engines)
        except BaseException as error:
            self._keep(held)
            _release(error.__traceback__)
            # This frame is part of the traceback as well.
            del self, held
            raise

    def peek(self) -> Any:
        """Returns the next batch, which `next` returns again."""
        held: list[_Held] = []
        try:
            while True:
                with self._loader._turn:
                    self._take(held)
                batches = self._finished(held)
                if batches is not None:
                    return _transformed(self._loader, batches)
                with self._lock:
                    self._pending.pop(held[0][0], None)
                    self._in_flight.discard(held[0][0])
                lost = held.pop()[1]
                self._loader._mapper.check_lost(lost, self._loader._engines)
        finally:
            self._keep(held)

    def has_next(self) -> bool:
        """Waits for the next batch, which `next` converts and returns. False at the end of the epoch."""
        held: list[_Held] = []
        try:
            with self._loader._turn:
                self._take(held)
            return True
        except StopIteration:
            return False
        finally:
            self._keep(held)

    def close(self) -> None:
        """Ends the iterator: its threads stop, and the batches made ahead are dropped. `break` out of a `for` does that too.

        The loader's state stays; its next `iter` starts the next epoch, or this one if no batch was taken. A `next` that waits
        in another thread raises ClosedError.
        """
        loader = self._loader
        # In this order, and before `_turn` is taken, which a waiting `next` holds.
        self._is_closed = True
        self._started.clear()
        with loader._turn:
            with self._lock:
                for number in self._failed():
                    self._pending[number].clear()
            loader._end(self)

    def forget(self) -> None:
        """Drops batches that would be delivered again: the engines are at the start of another epoch."""
        with self._lock:
            self._pending.clear()
            self._begun = 0
            self._has_ended = False

    def abandon(self) -> None:
        """Ends the iterator, as the loader has left its place."""
        self.abandoned = True
        with self._lock:
            for number in self._failed():
                self._pending[number].clear()

    @property
    def is_running(self) -> bool:
        """True if `next` may return a batch."""
        with self._lock:
            # After `close` a batch that is in flight may still be delivered, but none that has failed.
            held = self._in_flight if self._is_closed else self._pending
            return not self.abandoned and (not (self._over or self._is_closed) or bool(held))

    def pending(self) -> tuple[int | None, str]:
        """Returns the number of the first batch that a state leaves out, if there is one, and its kind for `Engine.state_dict`."""
        with self._lock:
            failed = self._failed()
            number = self._begun
            while number - 1 in self._pending:
                number -= 1
            is_ahead = number < self._begun or self._has_ended and not self._over
            if self._loader._mapper is not None and is_ahead and not (failed and failed[0] < number):
                # The end of the epoch counts with the call of `next` that finds it.
                return number, "all"
            if failed:
                return failed[0], "failed"
            return None if number == self._begun else number, "in flight"

    def _failed(self) -> list[int]:
        """Returns the numbers of the batches that failed; the caller holds `_lock`."""
        return sorted(self._pending.keys() - self._in_flight)

    def _note_failed(self) -> None:
        """Lets the loader see the first batch that failed; the caller holds `_lock`."""
        if not self.abandoned:
            number, kind = self.pending()
            self._loader._failing = (number, kind) if number is not None and kind != "in flight" else None

    def _take(self, held: list[_Held]) -> None:
        """Adds the next batch to `held`: the first one that failed, or a new one, completed by each engine.

        An interrupt is raised between two steps of the interpreter, so outputs go into their list in one step.
        """
        loader = self._loader
        # Another thread may have closed the loader.
        loader._check()
        if self._is_empty:
            # The group may have been made since `iter`.
            check_group(loader._world)
        if self.abandoned:
            raise ClosedError(
                "a newer iterator, load_state_dict or close ended this one: only one is alive at a time, so make a loader for each loop"
            )
        self._check_open()
        if loader._trainer.ends_next:
            loader._trainer.end_pass()
            self._over = True
        with self._lock:
            failed = self._failed()
            if not failed and self._has_ended and not self._over:
                self._end_pass()
            if not failed and self._over:
                raise StopIteration
            number = failed[0] if failed else self._begun
            held.append((number, self._pending.get(number, [])))
            self._in_flight.add(number)
            self._pending[number] = taken = held[0][1]
            # The mark of the end, which an interrupt has left.
            taken[:] = [outputs for outputs in taken if outputs is not None]
            self._begun = max(self._begun, number + 1)
        if loader._loaded is not None:
            self._is_resumed = loader._loaded_sample(loader.epoch) > 0
        if loader._started:
            self._started, loader._started = loader._started, []
        # `close` may have missed the epoch that this thread has just taken over.
        self._check_open()
        loader._is_fresh = False
        loader._loaded = None
        loader._peeked = None
        for engine in loader._engines[len(taken) :]:
            try:
                taken.extend(map(type(engine).next, (engine,)))
            except ClosedError:
                # The engine's message names the engine's functions.
                loader._check()
                self._check_open()
                raise ClosedError("the epoch of this iterator was ended: iter of the loader starts the next one") from None
            if taken[-1] is None:
                self._end(held)
                raise StopIteration
        if loader._mapper is None:
            self._is_empty = False
        else:
            self._map_ahead(number, taken)
            self._take_ahead()

    def _map(self, number: int, taken: list[Any]) -> None:
        """Begins to map the outputs of a batch."""
        for place, outputs in enumerate(taken):
            if isinstance(outputs, dict):
                taken[place] = self._loader._mapper.begin(outputs, place, number)

    def _map_ahead(self, number: int, taken: list[Any]) -> None:
        """Begins to map the outputs of a batch. The call of `next` that finishes it gets the error, if there is one."""
        with contextlib.suppress(Exception):
            self._map(number, taken)

    def _take_ahead(self) -> None:
        """Takes batches that are ready and maps them, up to the bound; the caller holds `_turn`."""
        loader = self._loader
        mapper = loader._mapper
        while not (self._has_ended or self._over or self._is_closed or self.abandoned):
            with self._lock:
                last = self._begun - 1
                # A batch that not all engines have delivered, or a new one.
                taken = self._pending.get(last)
                if taken is None or len(taken) == len(loader._engines) or last in self._in_flight:
                    if len(self._pending) > mapper.prefetch:
                        mapper.workers.idle_kind = "output"
                        return
                    last += 1
                    self._pending[last] = taken = []
                    self._begun = last + 1
            for place, engine in list(enumerate(loader._engines))[len(taken) :]:
                try:
                    # In one step of the interpreter, as an interrupt between two would lose the batch.
                    taken.extend(itertools.chain.from_iterable(map(type(engine).poll, (engine,))))
                except Error:
                    # The call of `next` whose turn it is gets it from the engine again.
                    return
                if len(taken) == place or taken[-1] is None:
                    break
            if taken and taken[-1] is None:
                with self._lock:
                    self._pending.pop(last, None)
                    self._begun = last
                self._has_ended = True
                mapper.workers.idle_kind = None
                return
            if len(taken) < len(loader._engines):
                return
            self._map_ahead(last, taken)

    def _finished(self, held: list[_Held]) -> list[Any] | None:
        """Returns the batches in `held` in the user's framework, mapped. None: all samples of one of them were left out."""
        loader = self._loader
        mapper = loader._mapper
        if mapper is None:
            return [loader._convert(outputs) for outputs in held[0][1]]
        batches = []
        number, taken = held[0]
        self._map(number, taken)
        for place, engine in enumerate(loader._engines):
            # In its place at once, as an interrupt before that would lose it.
            batch = taken[place] = mapper.again(taken[place])
            wait = Wait()
            while not mapper.ready(batch, wait, engine, _MAP_SECONDS):
                loader._check()
                self._check_open()
                if loader._turn.acquire(blocking=False):
                    try:
                        self._take_ahead()
                    finally:
                        loader._turn.release()
            batches.append(mapper.finish(batch, engine, place, number))
        if any(batch is None for batch in batches):
            return None
        self._is_empty = False
        return batches

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this iterator was closed: iter of the loader starts the next epoch")

    def _end(self, held: list[_Held]) -> None:
        """Ends the epoch, of which the batch in `held` is not a part."""
        number, taken = held[0]
        taken.clear()
        with self._lock:
            self._pending.pop(number, None)
            self._in_flight.discard(number)
            self._begun = number
        held.clear()
        self._end_pass()

    def _end_pass(self) -> None:
        """Ends the epoch: all its batches were delivered."""
        self._over = True
        self._loader._trainer.end_pass()
        if self._loader._mapper is not None:
            self._loader._mapper.workers.idle_kind = None
            with self._lock:
                self._note_failed()
        if self._is_empty and not self._is_resumed:
            self._warn_of_no_batch()

    def _keep(self, held: list[_Held]) -> None:
        """Keeps a batch, which is delivered before later ones."""
        for number, taken in held:
            # The mark of the end is not part of a batch.
            taken[:] = [outputs for outputs in taken if outputs is not None]
            with self._lock:
                self._pending[number] = taken
                self._in_flight.discard(number)
                self._note_failed()
                if self._is_closed:
                    # No call delivers it.
                    taken.clear()

    def _warn_of_no_batch(self) -> None:
        # Not at the start, because counting batches needs a plan of the epoch, which takes time.
        if not len(self._loader):
            why = "drop_last leaves out the only one, which is shorter than batch_size"
        elif self._loader.stats()["counters"].get("samples_skipped"):
            why = "Skip(errors=...) left out every sample"
        else:
            return
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=6)


def _transformed(loader: Any, batches: list[Any]) -> Any:
    """Returns the batches of all devices, transformed."""
    batch = batches[0] if loader._single else batches
    return batch if loader._transform is None else loader._transform(batch)


def _release(traceback: TracebackType | None) -> None:
    """Drops the variables of this file's frames in a traceback.

    A program may keep an error, and its traceback has the iterator, which would keep the epoch running.
    """
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _release.__code__.co_filename:
            with contextlib.suppress(RuntimeError):  # A frame that runs.
                traceback.tb_frame.clear()
        traceback = traceback.tb_next
