"""Hugging Face's Trainer on loaders."""

from __future__ import annotations

from typing import Any

import transformers
from transformers.trainer_callback import ExportableState

from ..loader import Loader
from .accelerate import DataLoader

__all__ = ["LoaderTrainer", "Trainer"]


class LoaderTrainer:
    """Part of a Trainer that accepts a loader as `train_dataset`, `eval_dataset` or test data set.

    For other Trainers than `Trainer`: `class MyTrainer(LoaderTrainer, trl.SFTTrainer): ...`.

    The loader's batches are passed to the model as they are: `fields` has the names of the model's arguments. Its batch size
    replaces `per_device_train_batch_size`. Checkpoints have its state, and `resume_from_checkpoint` resumes it within an
    epoch, on another number of processes too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if isinstance(self.train_dataset, Loader):
            self.args.per_device_train_batch_size = self.train_dataset.batch_size
            self._train_batch_size = self.args.train_batch_size
            # Trainer may make a callback again, without arguments.
            self.add_callback(type("LoaderPosition", (_Position,), {"loader": self.train_dataset}))

    def get_train_dataloader(self) -> Any:
        loaded = self._loaded(self.train_dataset)
        return super().get_train_dataloader() if loaded is None else loaded

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        data = self.eval_dataset[data] if isinstance(data, str) else data
        loaded = self._loaded(data)
        return super().get_eval_dataloader(eval_dataset) if loaded is None else loaded

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        loaded = self._loaded(test_dataset)
        return super().get_test_dataloader(test_dataset) if loaded is None else loaded

    def _loaded(self, data: Any) -> DataLoader | None:
        return self.accelerator.prepare(DataLoader(data)) if isinstance(data, Loader) else None


class Trainer(LoaderTrainer, transformers.Trainer):
    """`transformers.Trainer` that accepts a `forebay.Loader` as data set."""


class _Position(transformers.TrainerCallback, ExportableState):
    """Loader's state in the file of the Trainer's state."""

    loader: Loader

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"position": self.loader.state_dict()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        saved = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step and saved and not args.ignore_data_skip:
            self.loader.load_state_dict(saved["attributes"]["position"])
