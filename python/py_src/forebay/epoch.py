"""Iterator of a loader's epoch."""

from __future__ import annotations

import contextlib
import threading
import warnings
from types import TracebackType
from typing import Any

from .errors import ClosedError
from .world import check_group

__all__ = ["Epoch"]


_Held = tuple[int, list[Any]]
"""Number of the batch that a call of `next` works on, and its outputs of each engine; None marks the end of the epoch."""


class Epoch:
    """Iterator of one epoch.

    A batch is pending from before the engines are asked for it until `next` returns it, so that a signal handler or
    another thread sees a state without it. A pending batch that no call works on has failed, and the next call begins
    with it.

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
        # The epoch in each engine, which ends with this object, since the first batch was asked for.
        self._started: list[Any] = []

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        loader._check()
        held: list[_Held] = []
        try:
            with loader._turn:
                if not self.abandoned:
                    loader._warn_of_unused_place()
                self._take(held)
            batch = _converted(loader, held)
            number = held[0][0]
            with self._lock:
                self._pending.pop(number, None)
                self._in_flight.discard(number)
                self._note_failed()
            return batch
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
            with self._loader._turn:
                self._take(held)
            return _converted(self._loader, held)
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

    @property
    def is_running(self) -> bool:
        """True if `next` may return a batch."""
        with self._lock:
            # After `close` a batch that is in flight may still be delivered, but none that has failed.
            held = self._in_flight if self._is_closed else self._pending
            return not self.abandoned and (not (self._over or self._is_closed) or bool(held))

    def pending(self) -> tuple[int | None, bool]:
        """Returns the number of the first batch that a state leaves out, if there is one, and true if that has failed."""
        with self._lock:
            failed = self._failed()
            if failed:
                return failed[0], True
            number = self._begun
            while number - 1 in self._pending:
                number -= 1
            return None if number == self._begun else number, False

    def _failed(self) -> list[int]:
        """Returns the numbers of the batches that failed; the caller holds `_lock`."""
        return sorted(self._pending.keys() - self._in_flight)

    def _note_failed(self) -> None:
        """Lets the loader see the first batch that failed; the caller holds `_lock`."""
        if not self.abandoned:
            self._loader._failing = next(iter(self._failed()), None)

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
            if not failed and self._over:
                raise StopIteration
            number = failed[0] if failed else self._begun
            held.append((number, self._pending.get(number, [])))
            self._in_flight.add(number)
            self._pending[number] = taken = held[0][1]
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
            self._is_empty = False

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this iterator was closed: iter of the loader starts the next epoch")

    def _end(self, held: list[_Held]) -> None:
        """Ends the epoch, of which the batch in `held` is not a part."""
        number, taken = held[0]
        taken.clear()
        self._over = True
        self._loader._trainer.end_pass()
        with self._lock:
            self._pending.pop(number, None)
            self._in_flight.discard(number)
            self._begun = number
        held.clear()
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
            why = 'on_error="skip" left out every sample'
        else:
            return
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=5)


def _converted(loader: Any, held: list[_Held]) -> Any:
    """Returns the batch in `held` in the user's framework, transformed."""
    batches = [loader._convert(outputs) for outputs in held[0][1]]
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
