"""Position of a loader in its epochs, and the states that keep it."""

from __future__ import annotations

import json
import operator
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from . import _forebay
from .errors import StateError
from ._trainer_epochs import recorded, trainer_epoch_of


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
    """Warning of an interactive session that runs a loop again which an error or an interrupt has left.

    Args:
        session: The loader's session.
        engine: The engine of its first device.
    """

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
