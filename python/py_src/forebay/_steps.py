"""Steps of a run by number: their samples, their batches again, and the file that names them later."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

from . import _forebay
from ._arguments import whole
from ._groups import Engine, Order
from ._samples import Run, Sample, of_engine
from ._world import World

__all__ = ["StepsOfRun"]


class StepsOfRun:
    """Methods of the loader that are about steps by number."""

    _arguments: dict[str, Any]
    _config: dict[str, Any]
    _engines: list[_forebay.Engine]
    _session: _forebay.Session
    _world: World

    def samples_of(self, step: int, *, epoch: int | None = None) -> list[Sample]:
        """Returns the samples of this process in step number `step`, without reading any: `python -m forebay which` in a run.

        The step is that of a run in this world without interruptions. Of several devices, the samples follow each other.

        Args:
            step: Number of the batch over all epochs, or in `epoch`, from 0.
            epoch: Epoch of the batch. None: `step` counts from the first epoch on, `len` batches in each.

        Raises:
            ConfigError: `epoch` has no such batch.
        """
        self._check()
        epoch, batch = self._batch_of(step, epoch)
        first = self._world.rank * len(self._engines)
        return of_engine(self._engines[0], epoch, batch, range(first, first + len(self._engines)))

    def replay(self, step: int, *, epoch: int | None = None) -> Any:
        """Returns the batch of step number `step` again: the same samples, crops and flips, mapped and transformed.

        A second loader with the arguments of this one makes it, so this one's position and batches stay, and steps of
        `skip_steps` are made too. The function of `map` and `transform` are called again.

        Args:
            step: As in `samples_of`.
            epoch: As in `samples_of`.

        Raises:
            ConfigError: `epoch` has no such batch.
        """
        self._check()
        epoch, batch = self._batch_of(step, epoch)
        order, engine = self._arguments["order"] or Order(), self._arguments["engine"] or Engine()
        changes = {"order": replace(order, skip_steps=None), "engine": replace(engine, prefetch=1), "world": self._world}
        with type(self)(**self._arguments | changes) as again:
            state = json.loads(self._session.state_at(epoch, batch))
            state["forebay"].pop("skipped", None)
            again.load_state_dict(state)
            return next(iter(again))

    def save_run(self, path: str | os.PathLike[str]) -> None:
        """Writes the file with which `python -m forebay which` names the samples of any step of this run.

        It has the arguments, the digests of the indexes and the seeds, and no secrets. One rank is enough.
        """
        self._check()
        Run.save(path, self._config, self.state_dict())

    def _batch_of(self, step: int, epoch: int | None) -> tuple[int, int]:
        """Returns the epoch of a step and the batch in it."""
        step = whole("step", step)
        return divmod(step, max(len(self), 1)) if epoch is None else (whole("epoch", epoch), step)
