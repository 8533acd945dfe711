"""`DataLoader` of a loader that Accelerate takes as prepared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState, PartialState
from accelerate.utils import send_to_device

from ..loader import Loader
from . import torch

__all__ = ["DataLoader"]


class DataLoader(DataLoaderStateMixin, torch.DataLoader):
    """A loader for `accelerator.prepare`, which leaves the sharding to it and puts its state into `save_state`.

        train = accelerator.prepare(DataLoader(forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True)))

    Batches are moved to the process's device. `load_state` resumes within an epoch; `skip_first_batches` after it is not
    needed, and hides the end of an epoch from gradient accumulation.

    Args:
        loader: Loader with a single device.
    """

    _is_accelerate_prepared = True
    use_stateful_dataloader = True
    _drop_last = True

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        self.gradient_state = GradientState()

    def __iter__(self) -> Iterator[Any]:
        self.begin()
        try:
            for batch in super().__iter__():
                self.end_of_dataloader = self.dataset.is_last()
                yield send_to_device(batch, PartialState().device, non_blocking=True)
        finally:
            self.end()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` run `epoch`."""
        self.sampler.set_epoch(epoch)
