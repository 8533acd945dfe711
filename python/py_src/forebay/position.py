"""Position of a loader in its epochs, and the states that keep it."""

from __future__ import annotations

import json
import operator
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from . import _forebay
from .arguments import whole
from .epoch import Epoch
from .errors import StateError
from .lightning_epochs import Rest
from .mapping.mapper import Mapper
from .trainer_epochs import Place, TrainerEpochs, trainer_epoch_of
from .world import World, check_group

__all__ = ["LoaderPosition"]


class LoaderPosition:
    """Methods of the loader that move it, and its attributes for that."""

    _engines: list[_forebay.Engine]
    _closed: bool
    _mapper: Mapper | None
    _may_lack_batches: bool
    _pid: int
    _world: World

    def _begin_at_start(self, samples_per_step: int) -> None:
        """Makes the attributes of a loader that has delivered nothing."""
        # Serialises threads that take batches, also those of an iterator that a newer one ends. Held while batches are
        # taken, not while they are converted. Reentrant, because a signal handler may use the loader.
        self._turn = threading.RLock()
        # Weak, because the iterator holds the loader. Without a cycle both end when the last of them is dropped. The name is
        # not DataLoader's `_iterator`, which Lightning replaces.
        self._live: Callable[[], Epoch | None] = lambda: None
        # An epoch has been started, and no batch of it was asked for: the next `iter` continues with it.
        self._is_fresh = False
        # That epoch in each engine, which ends when the object is dropped. The iterator that asks for a batch takes them.
        self._started: list[_forebay.StartedEpoch | None] = []
        # Epoch that the engines move to or start. After an interrupt it stays: some of them may have done that.
        self._starting: int | None = None
        # Iterator with the batch of `_peek`, until that batch is delivered.
        self._peeked: Epoch | None = None
        # The first batch that the last iterator has taken and not delivered, and "failed" or "all", as in `Engine.state_dict`. The
        # state does not count it, also after the caller has dropped the iterator, which ends the epoch.
        self._failing: tuple[int, str] | None = None
        # Last error of an interactive session when the last iterator was made.
        self._session_error: BaseException | None = getattr(sys, "last_value", None)
        # Epoch that `set_epoch` has named and no `iter` has started yet.
        self._named_epoch: int | None = None
        # The epochs of a trainer that may differ from the loader's.
        self._trainer = TrainerEpochs()
        # Place of the state that was loaded and that no batch has followed yet.
        self._loaded: Place | None = None
        # Samples of a batch on all devices of all ranks together.
        self._samples_per_step = samples_per_step

    def _start(self) -> None:
        """Starts the epoch that the next batch belongs to, unless it has been started already."""
        target = self.epoch
        self._trainer.begin_pass(self._named_epoch is not None)
        if self._starting is not None or target != self._engines[0].epoch - self._is_fresh:
            loaded, self._starting = self._loaded, target
            self._move(target, self._loaded_sample(target))
            # Another call of `set_epoch` may return to it.
            self._loaded = loaded
        self._named_epoch = None
        if not self._is_fresh:
            self._starting = target
            if self._mapper is not None:
                self._mapper.begin_epoch(self._engines, self._loaded_sample(target))
            for engine in self._engines:
                engine.start()
            self._started = [engine.started_epoch() for engine in self._engines]
            self._is_fresh, self._starting = True, None

    def _loaded_sample(self, epoch: int) -> int:
        """Returns the place where `epoch` begins: that of the loaded state, if it is of this epoch, or 0."""
        return self._loaded.sample if self._loaded is not None and self._loaded.epoch == epoch else 0

    def _warn_of_unused_place(self) -> None:
        """Warns if a state was loaded, no batch has followed it, and `set_epoch` has named an earlier epoch.

        A later epoch is no mistake: a trainer may have ended the loaded one before its last batch.
        """
        if self._loaded is None or self._loaded.epoch <= self.epoch:
            return
        epoch = self._loaded.epoch
        batch = len(self) - self._engines[0].batches_from(self._loaded.sample)
        warnings.warn(
            f"the loaded state is at batch {batch} of epoch {epoch}, but set_epoch({self.epoch}) was called after it was loaded: this "
            f"place is dropped, and epoch {self.epoch} starts at its first batch. To resume, loop over range(loader.epoch, n), which "
            f"starts with epoch {epoch}",
            stacklevel=3,
        )

    def _warn_of_left_epoch(self) -> None:
        """Warns if an interactive session runs a loop again that an error or an interrupt has left; the caller holds `_turn`."""
        # The session keeps its last error there, and Jupyter does too. Other programs have none.
        error, self._session_error = self._session_error, getattr(sys, "last_value", None)
        if self._session_error is error or self._is_fresh or self._named_epoch is not None or self._loaded is not None:
            return
        state, length = self.state_dict(), len(self)
        rest = self._engines[0].batches_from(state["sample_in_epoch"])
        if state["epoch"] + 1 == self.epoch and 0 < rest < length:
            warnings.warn(
                f"epoch {state['epoch']} was left after {length - rest} of {length} batches, and epoch {self.epoch} begins, as after a "
                "`break`: to continue the epoch that was left, call loader.load_state_dict(loader.state_dict()) before the loop",
                stacklevel=3,
            )

    def _move(self, epoch: int, sample: int) -> None:
        state = json.loads(self._engines[0].state_dict(None, "failed"))
        self._load(state | {"epoch": epoch, "sample_in_epoch": sample}, strict=True)

    def _load(self, state: dict[str, Any], strict: bool) -> None:
        """Loads a state; the caller holds `_turn`."""
        document, trainer_epoch = json.dumps(state, default=_plain), trainer_epoch_of(state)
        # In one step of the interpreter: an interrupt between two engines would leave them at different places.
        list(map(operator.methodcaller("load_state_dict", document, strict), self._engines))
        # An iterator that no batch was taken from moves to the new epoch.
        iterator = self._live()
        if iterator is not None:
            iterator.forget()
        self._peeked = self._failing = None
        self._is_fresh = False
        self._started = []
        self._named_epoch = self._starting = None
        self._loaded = Place(int(state["epoch"]), int(state["sample_in_epoch"]), *trainer_epoch)

    def _end(self, epoch: Epoch) -> None:
        """Ends the epoch of an iterator that is closed, if no batch was asked for yet; the caller holds `_turn`."""
        if self._is_fresh and self._live() is epoch and not self._closed and os.getpid() == self._pid:
            loaded, named = self._loaded, self._named_epoch
            self._load(json.loads(self._engines[0].state_dict(*epoch.pending())), strict=True)
            # The next `iter` starts it again.
            self._loaded, self._named_epoch = loaded, named

    @property
    def epoch(self) -> int:
        """Epoch that the next `iter` runs, from 0. Within a loop, and after it was left, that is the one after its own."""
        if self._named_epoch is not None:
            return self._named_epoch
        return self._starting if self._starting is not None else self._engines[0].epoch - self._is_fresh

    @property
    def first_batch(self) -> int:
        """Number of the batch that the next `iter` starts with, for `enumerate` and progress bars. The last is `len` - 1."""
        sample = self._loaded_sample(self.epoch)
        batch, rest = divmod(sample, self._samples_per_step)
        # Within a batch of this size, after another size; or at the end of an epoch, whose last batch is not full.
        return self._engines[0].batches() - self._engines[0].batches_from(sample) if rest else batch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` run `epoch`: from a loaded state of that epoch until a batch is taken, else from its start.

        An iterator that no batch was taken from moves there too. `state_dict` is that place, unless an iterator is running.
        """
        self._check()
        epoch = whole("epoch", epoch)
        with self._turn:
            self._trainer.name(None)
            self._name(epoch)

    def _follow_trainer(self, epoch: int, repeats: bool = False) -> None:
        """Like `set_epoch`, for a trainer that may iterate this loader more or less than once in its epoch.

        The place of a state is resumed in the epoch of the trainer in which it was saved, and in no other one. With
        `repeats` every epoch of the trainer is the first one of the loader.
        """
        self._check()
        epoch = whole("epoch", epoch)
        with self._turn:
            place, target, ends_next = self._loaded, 0 if repeats else epoch, False
            # A loader that repeats its epoch is in another one than its trainer, except in the trainer's first one.
            saved = place.trainer_epoch if place is not None else None
            saved = place.epoch if place is not None and saved is None and repeats else saved
            if place is not None and saved == epoch:
                target, ends_next = place.epoch, place.is_over
            elif place is not None and saved is not None and saved < epoch:
                # Also of this epoch, as the engines may have been moved there.
                self._loaded, self._starting = None, target
            self._trainer.name(epoch, ends_next, repeats)
            self._name(target)

    def _rest_of_trainer_epoch(self, epoch: int) -> Rest | None:
        """Returns the batches that this loader has in an epoch of the trainer from the loaded place on. None: no state was loaded."""
        place, length = self._loaded, len(self)
        if place is None:
            return None
        left = length
        if place.epoch == self.epoch:
            # An epoch of the trainer in which another one of the loader is running has had all batches of the first.
            is_first = place.trainer_epoch != epoch or self._trainer.repeats
            left = self._engines[0].batches_from(place.sample) if is_first and not place.is_over else 0
        return Rest(length, left, self._may_lack_batches)

    def _end_trainer_epoch(self) -> None:
        """Makes the next `iter` deliver no batch, so that the trainer begins its next epoch."""
        with self._turn:
            self._trainer.end_next()

    def _name(self, epoch: int) -> None:
        """Names the epoch of the next `iter`; the caller holds `_turn`."""
        self._named_epoch = epoch
        if self._is_fresh:
            self._start()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches delivered so far; batches made ahead do not count.

        Other threads and signal handlers may call it at any time. The state is small, consists of plain numbers and
        strings, is equal on all ranks, and MosaicML streaming can load it. A batch that could not be converted, or whose
        `transform` raised an error, is delivered again and does not count.

        Raises:
            StateError: Several threads share the iterator, and such a batch precedes one that was delivered.
        """
        self._check()
        check_group(self._world)
        iterator, named, failing = self._live(), self._named_epoch, self._failing
        if iterator is not None and iterator.is_running:
            pending, named = iterator.pending(), None
        else:
            pending = failing if failing is not None and named is None else (None, "failed")
        state = json.loads(self._engines[0].state_dict(*pending))
        if named is not None:
            state |= {"epoch": named, "sample_in_epoch": self._loaded_sample(named)}
        return self._trainer.record(state, named is not None)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Makes the next `iter` resume the position of `state`, on any legal number of ranks.

        Args:
            state: Result of `state_dict`, also MosaicML streaming's. Its seed and canonical nodes replace the loader's.
            strict: Reject a state of another plan, such as other data, weights or seeds. The batch size may differ.

        Raises:
            StateError: The state belongs to another plan; the message lists the arguments that differ.
        """
        self._check()
        if not isinstance(state, Mapping):
            raise StateError(f"a state is the dict that state_dict() returned, but this is a {type(state).__name__}")
        if not state.keys() >= {"epoch", "sample_in_epoch"}:
            keys = ", ".join(map(repr, list(state)[:5])) or "nothing"
            raise StateError(f"a state is a dict from state_dict(), but this dict has {keys}: pass the item with the state")
        with self._turn:
            self._load(dict(state), strict)
            self._trainer.load(self._loaded)
            self._abandon()

    def _seek(self, batch: int) -> None:
        """Makes the next `iter` start with batch number `batch` of its epoch, without reading those before it."""
        with self._turn:
            self._move(self.epoch, batch * self._samples_per_step)
            self._abandon()


def _plain(value: Any) -> int:
    """Converts whole numbers of numpy and torch to Python's, for `json`."""
    try:
        return operator.index(value)
    except TypeError:
        raise StateError(
            f"a state consists of plain numbers, text and dicts, but {value!r} in it is a {type(value).__name__}"
        ) from None
