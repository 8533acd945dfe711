"""Position of a loader in its epochs, and the states that keep it."""

from __future__ import annotations

import json
import operator
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from . import _forebay
from ._arguments import whole
from .errors import StateError
from ._trainer_epochs import recorded, trainer_epoch_of
from ._world import World, check_group

__all__ = ["LoaderPosition"]


class LoaderPosition:
    """Methods of the loader that move it. The session has the position."""

    _engines: list[_forebay.Engine]
    _session: _forebay.Session
    _world: World
    # Last error of an interactive session when the last iterator was made.
    _session_error: BaseException | None

    def _check(self) -> None:
        """Raises ClosedError if the loader was closed, or belongs to a different process."""
        raise NotImplementedError

    @property
    def epoch(self) -> int:
        """Epoch that the next `iter` runs, from 0. Within a loop, and after it was left, that is the one after its own."""
        return self._session.epoch

    @property
    def first_batch(self) -> int:
        """Number of the batch that the next `iter` starts with, for `enumerate` and progress bars. The last is `len` - 1."""
        return self._session.first_batch()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` run `epoch`: from a loaded state of that epoch until a batch is taken, else from its start.

        An iterator that no batch was taken from moves there too. `state_dict` is that place, unless an iterator is running.
        """
        self._check()
        self._session.set_epoch(whole("epoch", epoch))

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
        state, *trainer_epoch = self._session.state()
        return json.loads(state) | recorded(*trainer_epoch)

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
        document = json.dumps(dict(state), default=_plain)
        self._session.load(document, *trainer_epoch_of(state), strict)

    def _warn_of_left_epoch(self) -> None:
        """Warns if an interactive session runs a loop again that an error or an interrupt has left."""
        # The session keeps its last error there, and Jupyter does too. Other programs have none.
        error, self._session_error = self._session_error, getattr(sys, "last_value", None)
        if self._session_error is error or self._session.is_placed:
            return
        state, length = self.state_dict(), self._engines[0].batches()
        rest = self._engines[0].batches_from(state["sample_in_epoch"])
        if state["epoch"] + 1 == self.epoch and 0 < rest < length:
            warnings.warn(
                f"epoch {state['epoch']} was left after {length - rest} of {length} batches, and epoch {self.epoch} begins, as after a "
                "`break`: to continue the epoch that was left, call loader.load_state_dict(loader.state_dict()) before the loop",
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
