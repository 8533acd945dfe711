"""Iterator of a loader's epoch, and the object that trainers set the epoch of."""

from __future__ import annotations

import bisect
import operator
import threading
import warnings
from typing import Any

from .errors import ClosedError, StateError
from .world import check_group

__all__ = ["Epoch", "EpochSetter"]


class EpochSetter:
    """Stand-in for a DataLoader's batch sampler."""

    def __init__(self, loader: Any) -> None:
        self.sampler = self
        self.set_epoch = loader.set_epoch


# Number of a batch, and its outputs of each engine; None marks the end of the epoch.
_Taken = tuple[int, list[Any]]


class Epoch:
    """Iterator of one epoch.

    Args:
        loader: The `Loader`. It has no type here, because the loader's file imports this one.
    """

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._over = False
        self._is_empty = True
        # Guards the next three attributes for short times.
        self._lock = threading.Lock()
        # Batches taken from the engines, and those of them that are incomplete, or could not be converted or transformed.
        # These are delivered again.
        self._taken = 0
        self._failed: list[_Taken] = []
        # Numbers of the batches that calls of `next` are converting or transforming.
        self._in_flight: set[int] = set()
        self.abandoned = False

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        loader._check()
        # Batches that this call has taken: at most one.
        held: list[_Taken] = []
        try:
            with loader._turn:
                self._take(held)
            batch = self._converted(held)
            with self._lock:
                self._in_flight.discard(held[0][0])
                if not self._failed and loader._failing is self:
                    loader._failing = None
            return batch
        except BaseException:
            self._keep(held)
            raise

    def peek(self) -> Any:
        """Returns the next batch, which `next` returns again."""
        held: list[_Taken] = []
        try:
            with self._loader._turn:
                self._take(held)
            return self._converted(held)
        finally:
            self._keep(held)

    def forget(self) -> None:
        """Drops batches that would be delivered again."""
        with self._lock:
            self._failed.clear()

    def last_is_pending(self) -> bool:
        """Returns true if the last batch is not delivered yet: it failed and is delivered again, or is in flight.

        Raises:
            StateError: An earlier batch failed, which a state cannot express.
        """
        with self._lock:
            failed = [number for number, _ in self._failed]
            last = self._taken - 1
            # At the end of an epoch the engines' states cannot leave it out.
            is_in_flight = last in self._in_flight and not self._over
        if failed not in ([], [last]):
            raise StateError(
                "a batch before the last one could not be converted or transformed, and a state cannot leave out that batch alone: "
                "take it from the iterator first, which delivers it next"
            )
        return bool(failed) or is_in_flight

    def _converted(self, held: list[_Taken]) -> Any:
        """Returns the batch in `held` in the user's framework, transformed."""
        loader = self._loader
        batches = [loader._convert(outputs) for outputs in held[0][1]]
        batch = batches[0] if loader._single else batches
        return batch if loader._transform is None else loader._transform(batch)

    def _take(self, held: list[_Taken]) -> None:
        """Adds the next batch and its number to `held`: from the kept ones, else from each engine.

        An interrupt is raised between two steps of the interpreter, so each batch goes into a list in one step.
        """
        loader = self._loader
        # Another thread may have closed the loader.
        loader._check()
        if self._is_empty:
            # The group may have been made since `iter`.
            check_group(loader._world)
        if self.abandoned:
            raise ClosedError("a newer iterator, load_state_dict or close ended this one: only one is alive at a time")
        with self._lock:
            if self._failed:
                held.extend(map(self._failed.pop, (0,)))
            elif self._over:
                raise StopIteration
            else:
                held.append((self._taken, []))
        number, taken = held[0]
        loader._is_fresh = False
        loader._loaded_place = 0
        loader._peeked = None
        try:
            for engine in loader._engines[len(taken) :]:
                taken.extend(map(type(engine).next, (engine,)))
                if taken[-1] is None:
                    taken.clear()
                    self._over = True
                    if self._is_empty:
                        self._warn_of_no_batch()
                    raise StopIteration
                self._is_empty = False
        finally:
            if taken:
                with self._lock:
                    self._taken = max(self._taken, number + 1)
                    self._in_flight.add(number)

    def _keep(self, held: list[_Taken]) -> None:
        """Keeps a batch, which is delivered before later ones."""
        for number, taken in held:
            # The mark of the end is not part of a batch.
            taken[:] = [outputs for outputs in taken if outputs is not None]
            with self._lock:
                self._in_flight.discard(number)
                if taken:
                    bisect.insort(self._failed, (number, taken), key=operator.itemgetter(0))
                    if not self.abandoned:
                        self._loader._failing = self

    def _warn_of_no_batch(self) -> None:
        # Not at the start, because counting batches needs a plan of the epoch, which takes time.
        if not len(self._loader):
            why = "drop_last leaves out the only one, which is shorter than batch_size"
        elif self._loader.stats()["counters"].get("samples_skipped"):
            why = 'on_error="skip" left out every sample'
        else:
            return  # It resumed a position at the end of the epoch.
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=4)
