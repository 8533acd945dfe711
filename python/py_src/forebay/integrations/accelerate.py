"""`DataLoader` of a loader that Accelerate takes as prepared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState, PartialState
from accelerate.utils import send_to_device

from ..errors import ConfigError
from .._loader import Loader
from . import torch

__all__ = ["DataLoader"]

_ACCUMULATION = "accelerate_accumulation"
"""Key of a state that was saved between two steps of the optimizer, in addition to the loader's."""


class DataLoader(torch.DataLoader):
    """A loader for `accelerator.prepare`, which leaves the sharding to it and puts its state into `save_state`.

        train = accelerator.prepare(DataLoader(forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True)))

    Batches are moved to the process's device. `load_state` resumes within an epoch; `skip_first_batches` after it is not
    needed. Accelerate applies accumulated gradients with the last batch of an epoch. If `Skip(errors=...)` may leave out
    whole batches, a batch is delivered when the one after it is ready, which shows whether it is the last one.

    Args:
        loader: Loader with a single device.
        saves_position: Put the position into `save_state`. False for an evaluation: each one starts at its beginning, also
            after a `load_state` of a checkpoint that was saved while an evaluation ran or after one that was left by `break`.
        **others: Nothing. Batch size, threads and the like are the loader's.

    Raises:
        ConfigError: As in `torch.DataLoader`; by `load_state`, a checkpoint was saved between two steps of the optimizer, and
            there are more processes.
    """

    _is_accelerate_prepared = True

    def __init__(self, loader: Loader, saves_position: bool = True, **others: Any) -> None:
        # Accelerate saves and loads states of data loaders that have this attribute.
        self.use_stateful_dataloader = saves_position
        super().__init__(loader, **others)

    def _batches_of(self, loader: Loader) -> torch.Batches:
        return _Batches(loader)

    @property
    def end_of_dataloader(self) -> bool:
        """True at the last batch of an epoch."""
        return self.dataset.end_of_dataloader

    @property
    def total_batch_size(self) -> int:
        """Rows of a batch on all processes together."""
        return self.dataset.loader.adapter.samples_per_step

    @property
    def total_dataset_length(self) -> int:
        """Samples of an epoch on all processes together."""
        return len(self.dataset)


class _Batches(DataLoaderStateMixin, torch.Batches):
    """Batches on the process's device. Accelerate's gradient state follows a pass over them, also one of a DataLoader that
    `skip_first_batches` makes of this data set."""

    # Every batch counts as full, so that no rows are removed from gathered figures.
    _drop_last = True

    def __init__(self, loader: Loader) -> None:
        # State after the last batch of an epoch. The look for one more batch has moved the loader to the next epoch.
        self._last_state: dict[str, Any] | None = None
        # Accelerate's gradient state follows the pass that runs; true once the first batch has named this pass.
        self._has_begun = False
        self.gradient_state = GradientState()
        super().__init__(loader)

    def begin_pass(self) -> int:
        self._last_state = None
        return super().begin_pass()

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        if self._batches is None and not self._has_failed:
            self._has_begun = True
            self.begin()
        batch = super().__getitems__(numbers)
        self.end_of_dataloader = self._next >= len(self.loader) or self._is_last()
        return send_to_device(batch, PartialState().device, non_blocking=True)

    def _is_last(self) -> bool:
        """Returns true if no batch follows, although there are more numbers."""
        if not self.loader.adapter.may_lack_batches or self._batches is None:
            return False
        state = self.loader.state_dict()
        try:
            if self._batches.has_next():
                return False
        except Exception:  # The next call raises it again.
            return False
        # A checkpoint has the state after this batch, not the start of the next epoch, until that begins.
        self._last_state = state
        return True

    def end_pass(self, number_of_pass: int) -> None:
        super().end_pass(number_of_pass)
        if number_of_pass == self.number_of_pass:
            self._last_state = None
            if self._has_begun:
                self._has_begun = False
                self.end()

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> dict[str, Any]:
        state = self._last_state or super().state_dict(num_samples, from_beginning)
        if self.gradient_state.sync_gradients:
            return state
        accumulation = {"batches": self._next, "steps": self.gradient_state.num_steps, "processes": PartialState().num_processes}
        return state | {_ACCUMULATION: accumulation}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        _check_accumulation(state_dict)
        self._last_state = None
        super().load_state_dict(state_dict)


def _check_accumulation(state: Any) -> None:
    """Raises ConfigError for a state between two steps of the optimizer that is resumed on more processes.

    Accelerate saves the number of accumulated batches for each process. A new process begins at 0, so it would apply gradients,
    which all processes do together, after different batches.
    """
    found = state.get(_ACCUMULATION) if isinstance(state, Mapping) else None
    processes = PartialState().num_processes
    if not isinstance(found, Mapping) or processes <= found["processes"]:
        return
    batches, steps = found["batches"], found["steps"]
    before = batches // steps * steps
    raise ConfigError(
        f"the checkpoint was saved after {batches} batches of its epoch on {found['processes']} processes, within the "
        f"gradient_accumulation_steps={steps}, and cannot resume on {processes}: the processes would apply gradients after different "
        f"batches, and wait without end. Resume on at most {found['processes']}, or save after {before} or "
        f"{before + steps} batches, where accelerator.sync_gradients is true"
    )
