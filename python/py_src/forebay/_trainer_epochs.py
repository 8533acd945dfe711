"""Epochs as a trainer counts them.

A trainer names its epoch with `set_epoch`, and a loader then runs the epoch of that number. Lightning combines loaders of
unequal length in one of its epochs: a short one is iterated again where it ends, or delivers nothing from there on. So such
a loader is in a different epoch than its trainer, or at an end that its trainer has not reached, and a state records both.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from . import _forebay
from ._arguments import whole
from .errors import ConfigError, StateError
from ._lightning_epochs import correct_batches, loop_of, repeats_batches

_EPOCH, _IS_OVER = "trainer_epoch", "trainer_epoch_is_over"
"""Keys of a state, in addition to the engine's. They are absent where the epoch of the trainer is the loader's."""


class EpochSetter:
    """Stand-in for a DataLoader's batch sampler, with the attributes that Lightning reads; it is not iterated.

    Lightning 2.6 looks for `sampler.set_epoch`, and with DeepSpeed for `batch_size`. Accelerate and Transformers look at
    the batch sampler of a torch `DataLoader` alone.
    """

    def __init__(self, session: _forebay.Session, batch_size: int) -> None:
        self.sampler = self
        self.batch_size = batch_size
        self._session = session

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` of the loader run an epoch of the trainer.

        A loaded position is resumed in the epoch of the trainer in which it was saved, and only there.
        """
        loop = loop_of(sys._getframe())
        self._session.follow_trainer(whole("epoch", epoch), repeats_batches(loop))
        correct_batches(loop)


def recorded(epoch: int | None, is_over: bool) -> dict[str, Any]:
    """Returns the items of a state about the trainer's epoch."""
    return {} if epoch is None else {_EPOCH: epoch} | ({_IS_OVER: True} if is_over else {})


def trainer_epoch_of(state: Mapping[str, Any]) -> tuple[int | None, bool]:
    """Returns the trainer's epoch in a state, if it has one, and true if this loader has no more batches in it.

    Raises:
        StateError: One of them has a different type.
    """
    number, is_over = state.get(_EPOCH), state.get(_IS_OVER, False)
    try:
        number = None if number is None else whole(_EPOCH, number)
    except ConfigError as error:
        raise StateError(f"the checkpoint of the loader: {error}") from None
    if not isinstance(is_over, bool):
        raise StateError(f"the checkpoint of the loader: {_IS_OVER} is true or false, but it is {is_over!r}")
    return number, is_over
