"""Hugging Face's Trainer on loaders."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from accelerate.utils import find_batch_size
from transformers.trainer_callback import ExportableState

from ..errors import ConfigError
from .._loader import Loader
from .accelerate import DataLoader

__all__ = ["LoaderTrainer", "Trainer"]

_PLACEHOLDER = "forebay_loader"
"""Column of a data set of one row in place of a loader."""

_CALLBACK = "LoaderPosition"
"""Name of the callback in the file of the Trainer's state."""


_CORRECTS_EPOCHS = hasattr(transformers.Trainer, "_init_training_state")
"""`LoaderTrainer` can correct the epoch that Trainer resumes in: Transformers 5 has a method for that."""


class LoaderTrainer:
    """Part of a Trainer that accepts a loader as `train_dataset`, `eval_dataset` or test data set.

    For subclasses of `Trainer`: `class MyTrainer(LoaderTrainer, trl.SFTTrainer): ...`. Trainers of TRL, which accept only data sets of
    `datasets`, get a loader as the named argument `train_dataset` or `eval_dataset`, and do not prepare its batches.

    The loader's batches are passed to the model as they are: `fields` has the names of the model's arguments. Its batch size
    replaces `per_device_train_batch_size`, and `per_device_eval_batch_size` during an evaluation. Checkpoints have its state, and `resume_from_checkpoint` resumes it within an
    epoch, on a different number of processes too.

    Raises:
        ConfigError: A data set is a DataLoader, one Loader is for both training and evaluation, or the arguments ask for
            `auto_find_batch_size`.
    """

    _rows_seen = 0
    _sample_rows = 1
    _replaced: Mapping[int, Loader] = {}
    """Loaders of an evaluation, by the `id` of the data set in place of each."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        loaders = _take_loaders(self, args, kwargs)
        super().__init__(*args, **kwargs)
        for name, loader in loaders.items():
            setattr(self, name, loader)
        _refuse_data_loader("train_dataset", self.train_dataset)
        several = self.eval_dataset.values() if isinstance(self.eval_dataset, dict) else [self.eval_dataset]
        for data in several:
            _refuse_data_loader("eval_dataset", data)
            if isinstance(data, Loader) and data is self.train_dataset:
                raise ConfigError("train_dataset and eval_dataset are one Loader, and an evaluation would end its epoch: make a second one")
        if isinstance(self.train_dataset, Loader):
            if self.args.auto_find_batch_size:
                raise ConfigError(
                    "auto_find_batch_size=True has no effect on a Loader, which makes batches of its own batch_size: leave it out, "
                    "and pass forebay.Loader(..., batch_size=)"
                )
            self.args.per_device_train_batch_size = self.train_dataset.batch_size
            self._train_batch_size = self.args.train_batch_size
            # Trainer may make a callback again, without arguments.
            self.add_callback(type(_CALLBACK, (_Position,), {"loader": self.train_dataset}))

    def _prepare_dataset(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        # TRL's preparation, which is not needed for a loader's batches.
        return dataset if isinstance(dataset, Loader) or _is_placeholder(dataset) else super()._prepare_dataset(dataset, *args, **kwargs)

    def get_train_dataloader(self) -> Any:
        loaded = self._loaded(self.train_dataset)
        return super().get_train_dataloader() if loaded is None else loaded

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        eval_dataset = self._replaced.get(id(eval_dataset), eval_dataset)
        loaded = self._loaded(self._evaluated(eval_dataset))
        return super().get_eval_dataloader(eval_dataset) if loaded is None else loaded

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        loaded = self._loaded(test_dataset)
        return super().get_test_dataloader(test_dataset) if loaded is None else loaded

    def set_initial_training_values(self, args: Any, *arguments: Any, **named: Any) -> tuple[Any, ...]:
        # Transformers 4 has an argument more than 5.
        epochs, *others = super().set_initial_training_values(args, *arguments, **named)
        if args.max_steps > 0 and isinstance(self.train_dataset, Loader):
            adapter = self.train_dataset.adapter
            if adapter.may_lack_batches or adapter.epochs_differ:
                # As for a data set without a length: an epoch may have fewer steps than `len`, so `max_steps` decides.
                epochs = sys.maxsize
        return epochs, *others

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        # Trainer counts epochs by their steps. Where skipped samples may empty batches, an epoch may have fewer.
        epoch, step = super()._init_training_state(*args, **kwargs)
        loader, position = self.train_dataset, _position(self.state)
        if position is None or not isinstance(loader, Loader) or self.args.ignore_data_skip:
            return epoch, step
        if loader.adapter.epochs_differ:
            return _resumed(loader, position)
        if loader.adapter.may_lack_batches:
            epoch, step = divmod(round(self.state.epoch * len(loader)), len(loader))
            if position["epoch"] > epoch:
                # The last batch was found to be the last one before it was delivered.
                epoch, step = position["epoch"], 0
        return epoch, step

    def evaluate(self, eval_dataset: Any = None, *args: Any, **kwargs: Any) -> Any:
        with self._batch_size_of(self._evaluated(eval_dataset)), self._in_place_of(eval_dataset) as data:
            return super().evaluate(data, *args, **kwargs)

    def predict(self, test_dataset: Any, *args: Any, **kwargs: Any) -> Any:
        with self._batch_size_of(test_dataset):
            return super().predict(test_dataset, *args, **kwargs)

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        self._rows_seen = 0
        output = super().evaluation_loop(dataloader, *args, **kwargs)
        if not isinstance(dataloader, DataLoader):
            return output
        # Trainer counts the last batch as a full one. All ranks have as many rows.
        return output._replace(num_samples=self._rows_seen // self._sample_rows * self.args.world_size)

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self._rows_seen += find_batch_size(inputs) or 0
        return super().prediction_step(model, inputs, *args, **kwargs)

    def _evaluated(self, data: Any) -> Any:
        """Returns the data set that `evaluate` means: None is the Trainer's own, and a text the name of one of several."""
        data = self.eval_dataset if data is None else data
        return self.eval_dataset[data] if isinstance(data, str) else self._replaced.get(id(data), data)

    @contextmanager
    def _in_place_of(self, data: Any) -> Iterator[Any]:
        """Returns `data` for `evaluate` of a trainer of TRL, with data sets of one row in place of loaders."""
        if not (_is_of_trl(self) and _has_loader(data)):
            yield data
            return
        loaders = data if isinstance(data, dict) else {"": data}
        stand_ins = {name: _one_row(each) for name, each in loaders.items()}
        self._replaced = {id(stand_ins[name]): each for name, each in loaders.items() if isinstance(each, Loader)}
        try:
            yield stand_ins if isinstance(data, dict) else stand_ins[""]
        finally:
            self._replaced = {}

    @contextmanager
    def _batch_size_of(self, data: Any) -> Iterator[None]:
        """Sets the arguments' batch size to the batch size of a loader: Trainer computes the steps per second from it."""
        size = self.args.per_device_eval_batch_size
        try:
            if isinstance(data, Loader):
                self.args.per_device_eval_batch_size = data.batch_size
                self._sample_rows = data.adapter.sample_rows
            yield
        finally:
            self.args.per_device_eval_batch_size = size
            self._sample_rows = 1

    def _loaded(self, data: Any) -> DataLoader | None:
        _refuse_data_loader("a data set", data)
        return self.accelerator.prepare(DataLoader(data)) if isinstance(data, Loader) else None


class Trainer(LoaderTrainer, transformers.Trainer):
    """`transformers.Trainer` that accepts a `forebay.Loader` as data set."""


def _take_loaders(trainer: LoaderTrainer, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Replaces loaders among the named arguments of a trainer of TRL by data sets of one row, and returns them by name.

    TRL's trainers refuse what is no data set of `datasets`, and read its first row.
    """
    if not _is_of_trl(trainer):
        return {}
    loaders = {name: data for name in ("train_dataset", "eval_dataset") if _has_loader(data := kwargs.get(name))}
    if loaders:
        config = kwargs.get("args", args[1] if len(args) > 1 else None)
        if config is None:
            raise ConfigError("TRL would prepare the data of a Loader itself: pass args=, such as an SFTConfig, which can switch that off")
        if getattr(config, "precompute_ref_log_probs", False):
            raise ConfigError(
                "precompute_ref_log_probs=True keeps a number for each row of a data set, which a Loader does not have: leave it out, and "
                "each step calls the reference model"
            )
        kwargs.update({name: _one_row(data) for name, data in loaders.items()})
        if hasattr(config, "dataset_kwargs"):
            config.dataset_kwargs = {**(config.dataset_kwargs or {}), "skip_prepare_dataset": True}
    return loaders


def _is_of_trl(trainer: LoaderTrainer) -> bool:
    return any(base.__module__.split(".")[0] == "trl" for base in type(trainer).__mro__)


def _has_loader(data: Any) -> bool:
    return isinstance(data, Loader) or (isinstance(data, dict) and any(map(_has_loader, data.values())))


def _one_row(data: Any) -> Any:
    """Returns `data` with a data set of one row in place of each loader: tokenised, with labels, as TRL prepares it."""
    from datasets import Dataset

    if isinstance(data, dict):
        return {name: _one_row(each) for name, each in data.items()}
    return Dataset.from_dict({"input_ids": [[0]], "labels": [[0]], _PLACEHOLDER: [True]}) if isinstance(data, Loader) else data


def _is_placeholder(data: Any) -> bool:
    """True for a data set of one row in place of a loader."""
    return _PLACEHOLDER in (getattr(data, "column_names", None) or ())


def _resumed(loader: Loader, position: dict[str, Any]) -> tuple[int, int]:
    """Loads `position` into a loader with epochs of different lengths. Returns the epoch that Trainer resumes, and the batch in it.

    Trainer takes as many batches of each epoch as the first one that it has seen, or all of a shorter one.
    """
    batches = len(loader)
    loader.load_state_dict(position)
    epoch, batch = loader.epoch, loader.first_batch
    if batch < min(batches, len(loader)):
        return epoch, batch
    if batch < len(loader):
        loader.set_epoch(epoch + 1)
    return epoch + 1, 0


def _refuse_data_loader(name: str, data: Any) -> None:
    """Raises ConfigError if `data` is a DataLoader, as Trainer would make one of it."""
    if isinstance(data, torch.utils.data.DataLoader):
        raise ConfigError(f"{name} is a DataLoader, but Trainer makes the DataLoader itself: pass the forebay.Loader or the data set instead")


class _Position(transformers.TrainerCallback, ExportableState):
    """Loader's state in the file of the Trainer's state."""

    loader: Loader

    def state(self) -> dict[str, Any]:
        sizes = {"samples_per_step": self.loader.adapter.samples_per_step}
        return {"args": {}, "attributes": {"position": self.loader.state_dict()} | sizes}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        position = _position(state)
        if position is None or args.ignore_data_skip:
            return
        if _CORRECTS_EPOCHS and self.loader.adapter.epochs_differ:
            # It has been loaded.
            self._check_size(state)
        else:
            self.loader.load_state_dict(position)
            self._check_number(args, state)

    def _check_size(self, state: Any) -> None:
        """Raises ConfigError if a step has a different number of packs than in the checkpoint."""
        size, now = self._size(state), self.loader.adapter.samples_per_step
        if size != now:
            raise ConfigError(
                f"a step has {now} packs on all processes, and {size} in the checkpoint, so Trainer would count different steps: resume with the "
                "global batch size of the checkpoint, or start the epoch again with ignore_data_skip=True"
            )

    def _size(self, state: Any) -> int:
        """Returns the samples of a step in the checkpoint."""
        saved: int = state.stateful_callbacks[_CALLBACK]["attributes"].get("samples_per_step", self.loader.adapter.samples_per_step)
        return saved

    def _check_number(self, args: Any, state: Any) -> None:
        """Raises ConfigError if Trainer does not resume at the loaded batch: it counts steps of the whole training, not samples."""
        loader = self.loader
        length = len(loader)
        epoch, steps = divmod(state.global_step, -(-length // args.gradient_accumulation_steps))
        trainer_s = epoch, steps * args.gradient_accumulation_steps
        at_end = loader.first_batch == length
        resumed_at = (loader.epoch + 1, 0) if at_end else (loader.epoch, loader.first_batch)
        size = self._size(state)
        if size == loader.adapter.samples_per_step and trainer_s == resumed_at:
            return
        if size == loader.adapter.samples_per_step and loader.adapter.may_lack_batches:
            # Trainer does not count batches that skipped samples have emptied.
            if _CORRECTS_EPOCHS:
                return
            raise ConfigError(
                'Skip(errors=...) has left out whole batches, which Transformers 4 counts as batches to come, so it cannot resume this '
                "checkpoint: install Transformers 5, or start the epoch again with ignore_data_skip=True"
            )
        raise ConfigError(
            f"Trainer resumes at batch {trainer_s[1]} of epoch {trainer_s[0]}, because it counts steps, but the loaded state is at "
            f"batch {resumed_at[1]} of epoch {resumed_at[0]}, and samples between them would be left out or trained on again: resume with the global "
            "batch size and the gradient_accumulation_steps of the checkpoint, or start the epoch again with ignore_data_skip=True"
        )


def _position(state: Any) -> dict[str, Any] | None:
    """Returns the loader's state in the state of a Trainer that resumes a checkpoint."""
    saved = state.stateful_callbacks.get(_CALLBACK)
    return saved["attributes"]["position"] if state.global_step and saved else None
