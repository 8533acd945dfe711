"""Position of a loader in its epochs, as the loader and as a trainer count them, and the states that keep it.

A trainer names its epoch with `set_epoch`, and a loader then runs the epoch of that number. Lightning combines loaders of
unequal length in one of its epochs: a short one is iterated again where it ends, or delivers nothing from there on. So such
a loader is in a different epoch than its trainer, or at an end that its trainer has not reached, and a state records both.

Lightning keeps the position in an epoch as a number of batches, and ends the epoch where that number reaches the length of
the data loader. The position of a loader is a sample: with different batches it has a different number, and the epoch would end before
its last samples. So the number is corrected before the resumed epoch begins. Lightning has no interface for that: its loop
calls `set_epoch` at that time, and is found as the caller.
"""

from __future__ import annotations

import json
import operator
import sys
import warnings
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from . import _forebay
from .adapter import Adapter, Rest
from ._arguments import whole
from .errors import StateError

_FRAMES_MAX = 5
"""Frames from `set_epoch` to the method of the loop, at most: Lightning 2 has three or four."""


def loop_of(frame: FrameType | None) -> Any | None:
    """Returns the nearest loop of Lightning's Trainer among the callers of `frame`. None: there is none."""
    return _caller(frame, "_Loop", ".loops.loop")


def counts_iterations(frame: FrameType | None) -> bool:
    """Returns true if Fabric's wrapper of a data loader calls `frame`: its epochs are the iterations of this process."""
    return _caller(frame, "_FabricDataLoader", ".wrappers") is not None


def _caller(frame: FrameType | None, name: str, module: str) -> Any | None:
    """Returns the nearest object of a class among the callers of `frame`; `module` is the end of its name."""
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return None
        owner = frame.f_locals.get("self")
        if any(kind.__name__ == name and kind.__module__.endswith(module) for kind in type(owner).__mro__):
            return owner
        frame = frame.f_back
    return None


def repeats_batches(loop: Any) -> bool:
    """Returns true if each epoch of `loop` has to have the batches of the first one: Lightning turns the shuffle of torch's
    DataLoader off for that."""
    return loop is not None and getattr(loop.trainer, "overfit_batches", 0) > 0


def correct_batches(loop: Any) -> None:
    """Sets the number of the batch at which `fit` resumes an epoch to the loaded position's. Further loops stay as they are."""
    epoch_loop = getattr(loop, "epoch_loop", None)
    if epoch_loop is None or not epoch_loop.restarting or not isinstance(loop.max_batches, int):
        return
    epoch = loop.epoch_progress.current.processed
    progress = epoch_loop.batch_progress
    # Lightning counts a batch as completed later if the checkpoint was saved at its end.
    waiting = int(getattr(epoch_loop, "restarted_on_train_batch_end", False))
    done = progress.current.completed + waiting
    rests = list(_rests(loop._combined_loader, epoch, done))
    if progress.is_last_batch:
        number = loop.max_batches
    else:
        mode = min if loop._combined_loader._mode == "min_size" else max
        number = loop.max_batches - max(mode(rest.left for rest in rests), 0)
    if number == done or number > done and any(rest.may_lack for rest in rests):
        return
    if number == loop.max_batches and not progress.is_last_batch:
        # The position is beyond a lower limit than the checkpoint's.
        for loader in loop._combined_loader.flattened:
            if (adapter := _adapter(loader)) is not None:
                adapter.end_trainer_epoch()
    for name in ("ready", "started", "processed", "completed"):
        setattr(progress.current, name, number)
    progress.current.completed -= waiting


def _adapter(loader: Any) -> Adapter | None:
    """Returns the adapter of a loader of this package, also of one in a torch `DataLoader`."""
    adapter = getattr(loader, "adapter", None)
    return adapter if isinstance(adapter, Adapter) else None


def _rests(combined: Any, epoch: int, done: int) -> Iterator[Rest]:
    """Yields the rest that each loader has of `epoch`, within the limit that the trainer sets."""
    for loader, limit in zip(combined.flattened, combined.limits):
        adapter = _adapter(loader)
        rest = None if adapter is None else adapter.rest_of_trainer_epoch(epoch)
        if rest is None:
            # A loader of a different library: Lightning's own count. One without a length ends at the trainer's limit.
            try:
                length = len(loader)
            except (TypeError, NotImplementedError):
                length = limit
            rest = Rest(length, max(length - done, 0), False)
        length = min(rest.length, limit)
        yield Rest(length, length - (rest.length - rest.left), rest.may_lack)


class EpochSetter:
    """Stand-in for a DataLoader's batch sampler, with the attributes that Lightning reads; it is not iterated.

    Lightning 2.6 looks for `sampler.set_epoch`, and with DeepSpeed for `batch_size`. Accelerate and Transformers look at
    only the batch sampler of a torch `DataLoader`.
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


def load(session: _forebay.Session, state: Mapping[str, Any], strict: bool) -> None:
    """Moves a loader to the position of `state`."""
    if not isinstance(state, Mapping):
        raise StateError(f"a state is the dict that state_dict() returned, but this is a {type(state).__name__}")
    if not state.keys() >= {"epoch", "sample_in_epoch"}:
        keys = ", ".join(map(repr, list(state)[:5])) or "nothing"
        raise StateError(f"a state is a dict from state_dict(), but this dict has {keys}: pass the item with the state")
    session.load(json.dumps(dict(state), default=_plain), strict)


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
        state, length = json.loads(self._session.state()), self._engine.batches()
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
