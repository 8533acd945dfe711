"""Epochs as a trainer counts them.

A trainer names its epoch with `set_epoch`, and a loader then runs the epoch of that number. Lightning combines loaders of
unequal length in one of its epochs: a short one is iterated again where it ends, or delivers nothing from there on. So such
a loader is in another epoch than its trainer, or at an end that its trainer has not reached, and a state records both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from .arguments import whole
from .errors import ConfigError, StateError
from .lightning_epochs import correct_batches, loop_of, repeats_batches

__all__ = ["EpochSetter", "Place", "TrainerEpochs", "trainer_epoch_of"]

_EPOCH, _IS_OVER = "trainer_epoch", "trainer_epoch_is_over"
"""Keys of a state, in addition to the engine's. They are absent where the epoch of the trainer is the loader's."""


class EpochSetter:
    """Stand-in for a DataLoader's batch sampler, with the attributes that Lightning reads; it is not iterated.

    Lightning 2.6 looks for `sampler.set_epoch`, and with DeepSpeed for `batch_size`. Accelerate and Transformers look at
    the batch sampler of a torch `DataLoader` alone.
    """

    def __init__(self, loader: Any) -> None:
        self.sampler = self
        self.batch_size = loader.batch_size
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` of the loader run an epoch of the trainer."""
        loop = loop_of(sys._getframe())
        self._loader._follow_trainer(epoch, repeats_batches(loop))
        correct_batches(loop)


class Place(NamedTuple):
    """Place of a state that was loaded."""

    epoch: int
    sample: int
    trainer_epoch: int | None = None
    """Epoch of the trainer, where that is recorded."""
    is_over: bool = False
    """The trainer's epoch has no more batches of this loader."""


def trainer_epoch_of(state: Mapping[str, Any]) -> tuple[int | None, bool]:
    """Returns the last two items of the `Place` of a state.

    Raises:
        StateError: One of them has another type.
    """
    number, is_over = state.get(_EPOCH), state.get(_IS_OVER, False)
    try:
        number = None if number is None else whole(_EPOCH, number)
    except ConfigError as error:
        raise StateError(f"the checkpoint of the loader: {error}") from None
    if not isinstance(is_over, bool):
        raise StateError(f"the checkpoint of the loader: {_IS_OVER} is true or false, but it is {is_over!r}")
    return number, is_over


class TrainerEpochs:
    """The trainer's epoch of a loader's passes; a pass is an iterator. The loader's lock guards it."""

    def __init__(self) -> None:
        # Epoch of the pass that runs, and of the next one, if it is named. None: the loader's own.
        self._of_pass: int | None = None
        self._named: int | None = None
        # The pass that runs has delivered all its batches.
        self._has_ended = False
        # The next call of `next` ends the pass: the trainer's epoch had no more batches where the state was saved.
        self._ends_next = False
        # Every epoch of the trainer is the same one of the loader.
        self.repeats = False

    def load(self, place: Place) -> None:
        """Moves to a state that was loaded."""
        self._of_pass, self._has_ended, self._ends_next = place.trainer_epoch, place.is_over, False

    def name(self, epoch: int | None, ends_next: bool = False, repeats: bool = False) -> None:
        """Names the trainer's epoch of the next pass."""
        self._named, self._ends_next, self.repeats = epoch, ends_next, repeats

    def end_next(self) -> None:
        """Makes the next pass deliver no batch."""
        self._ends_next = True

    def begin_pass(self, is_named: bool) -> None:
        """Begins a pass, of the epoch that was named or, without a name, of the same one."""
        if is_named:
            self._of_pass = self._named
        self._has_ended = False

    def end_pass(self) -> None:
        """Records that a pass has delivered all its batches."""
        self._has_ended, self._ends_next = True, False

    @property
    def ends_next(self) -> bool:
        """True if the pass that begins has no batch."""
        return self._ends_next

    def record(self, state: dict[str, Any], is_named: bool) -> dict[str, Any]:
        """Returns a state of the pass that runs, or of the next one if that was named, with the trainer's epoch."""
        epoch = self._named if is_named else self._of_pass
        is_over = self._ends_next or self._has_ended and not is_named
        if epoch is None or epoch == state["epoch"] and not is_over:
            return state
        return state | {_EPOCH: epoch} | ({_IS_OVER: True} if is_over else {})
