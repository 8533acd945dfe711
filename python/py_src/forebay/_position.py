"""Position of a loader in its epochs, as the loader and as a trainer count them, the states that keep it, and the steps of a run.

A trainer names its epoch with `set_epoch`, and a loader then runs the epoch of that number. Lightning combines loaders of
unequal length in one of its epochs: a short one is iterated again where it ends, or delivers nothing from there on. So such
a loader is in a different epoch than its trainer, or at an end that its trainer has not reached, and a state records both.
"""

from __future__ import annotations

import json
import operator
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _forebay
from ._arguments import whole
from .errors import ConfigError, StateError
from ._lightning_epochs import correct_batches, loop_of, repeats_batches
from ._samples import Sample, of_engine
from ._world import World

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


def saved(session: _forebay.Session) -> dict[str, Any]:
    """Returns the state of a loader."""
    state, *trainer_epoch = session.state()
    return json.loads(state) | recorded(*trainer_epoch)


def load(session: _forebay.Session, state: Mapping[str, Any], strict: bool) -> None:
    """Moves a loader to the position of `state`."""
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returned, but this is a {type(state).__name__}")
    if not state.keys() >= {"epoch", "sample_in_epoch"}:
        keys = ", ".join(map(repr, list(state)[:5])) or "nothing"
        raise StateError(f"a state is a dict from state_dict(), but this dict has {keys}: pass the item with the state")
    document = json.dumps(dict(state), default=_plain)
    session.load(document, *trainer_epoch_of(state), strict)


class LeftEpochs:
    """Warning of an interactive session that runs a loop again which an error or an interrupt has left."""

    def __init__(self, session: _forebay.Session, engine: _forebay.Engine) -> None:
        self._session = session
        self._engine = engine
        # Last error of an interactive session when the last iterator was made.
        self._error = getattr(sys, "last_value", None)

    def warn(self) -> None:
        """Warns as the next iterator is made."""
        # The session keeps its last error there, and Jupyter does too. Plain programs have none.
        error, self._error = self._error, getattr(sys, "last_value", None)
        if self._error is error or self._session.is_placed:
            return
        state, length = json.loads(self._session.state()[0]), self._engine.batches()
        rest = self._engine.batches_from(state["sample_in_epoch"])
        if state["epoch"] + 1 == self._session.epoch and 0 < rest < length:
            warnings.warn(
                f"epoch {state['epoch']} was left after {length - rest} of {length} batches, and epoch {self._session.epoch} begins, as "
                "after a `break`: to continue the epoch that was left, call loader.load_state_dict(loader.state_dict()) before the loop",
                stacklevel=3,
            )


def _plain(value: Any) -> int:
    """Converts whole numbers of numpy and torch to Python's, for `json`."""
    try:
        return operator.index(value)
    except TypeError:
        raise StateError(
            f"a state consists of plain numbers, text and dicts, but {value!r} in it is a {type(value).__name__}"
        ) from None


@dataclass(eq=False)
class StepsOfRun:
    """Steps of a loader by number."""

    _session: _forebay.Session
    _engines: list[_forebay.Engine]
    """One for each device."""
    _world: World

    def samples(self, step: int, epoch: int | None) -> list[Sample]:
        """Returns the samples of this process in a step. Of several devices, the samples are consecutive."""
        first = self._world.rank * len(self._engines)
        return of_engine(self._engines[0], *self._batch_of(step, epoch), range(first, first + len(self._engines)))

    def state_before(self, step: int, epoch: int | None) -> dict[str, Any]:
        """Returns the state before a step, which `skip_steps` may name."""
        state = json.loads(self._session.state_at(*self._batch_of(step, epoch)))
        state["forebay"].pop("skipped", None)
        return state

    def _batch_of(self, step: int, epoch: int | None) -> tuple[int, int]:
        """Returns the epoch of a step and the batch in it."""
        step = whole("step", step)
        return self._engines[0].place_of_step(step) if epoch is None else (whole("epoch", epoch), step)
