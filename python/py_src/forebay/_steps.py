"""Steps of a run by number: their epoch, their samples, and the state before them."""

from __future__ import annotations

import json
from typing import Any

from . import _forebay
from ._arguments import whole
from ._samples import Sample, of_engine
from ._world import World


class StepsOfRun:
    """Steps of a loader by number.

    Args:
        session: The loader's session.
        engines: Its engines, one for each device.
        world: Its rank.
    """

    def __init__(self, session: _forebay.Session, engines: list[_forebay.Engine], world: World) -> None:
        self._session = session
        self._engines = engines
        self._world = world

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
