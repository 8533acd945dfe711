"""A loader for `fit`, `evaluate` and `predict` of Keras 3, with any of its backends.

    train = Loader(..., framework=keras.config.backend())
    batches = Batches(train, "x", "y")
    model.fit(batches, epochs=10, callbacks=[BackupAndRestore(batches, "backup", save_freq=100)])

`Batches` is a data adapter, which Keras accepts instead of data. A `PyDataset` would not do: Keras asks it for batches in
any order, and more often than it trains on them.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from .._arguments import shown
from ..errors import ConfigError
from .._loader import Loader
from ._checks import one_device, refuse

__all__ = ["BackupAndRestore", "Batches"]


_OF_FIT = {
    "class_weight": (
        'pass Batches(loader, "x", "y", "weight") with an output that has the weight of each row, such as by the loader\'s '
        'transform=lambda batch: {**batch, "weight": class_weights[batch["y"]]}'
    ),
    "sample_weight": 'name the output with the weights: Batches(loader, "x", "y", "weight")',
    "y": 'name the output with the targets: Batches(loader, "x", "y")',
}
"""Arguments of `fit` and `evaluate` that Keras does not pass to a data adapter, and the settings that have their effect."""


class _EndOfEpoch(int):
    """Value of the model's `stop_training` that ends an epoch and not the training. It equals True, and is a different object from
    the True that callbacks set, which ends the training."""


_END_OF_EPOCH = _EndOfEpoch(True)


def _check_outputs(parts: list[Any], outputs: list[str]) -> None:
    """Raises ConfigError unless `parts` name outputs; without known `outputs` the first batch shows it."""
    if not parts:
        raise ConfigError(
            'Keras takes inputs and targets: name these outputs of the loader, such as Batches(loader, "x", "y")'
            f"{f' (it has {_listed(outputs)})' if outputs else ''}, or give the loader a transform that returns a tuple of both"
        )
    names = [name for part in parts for name in ([part] if isinstance(part, str) or not isinstance(part, Sequence) else part)]
    if outputs and not all(name in outputs for name in names):
        raise _no_output(parts, f"have {_listed(outputs)}")


def _no_output(parts: list[Any], batches: str) -> ConfigError:
    """Returns the error of a name that is no output; `batches` describes the loader's batches."""
    wanted = ", ".join(map(shown, parts))
    return ConfigError(f"Batches names the outputs {wanted}, but the loader's batches {batches}: name the keys of the loader's fields")


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(map(repr, names))


@dataclass
class _Start:
    """Start of a pass."""

    epoch: Any
    """Iterator of the loader's epoch."""
    taken: list[tuple[Any, Any]]
    """Batches that were taken from it, with the states after them."""


class Batches(DataAdapter):
    """The batches of a loader as Keras takes them: inputs, targets and weights.

    Pass it as `x`, or as `validation_data`. Each epoch of Keras is the next epoch of the loader, and so is the first one of
    a second `fit`. `len` is the batches of a whole epoch. The fastest `framework` of the loader is Keras's backend; "numpy"
    works with all.

    Args:
        loader: The loader, for one device.
        inputs: Output that is the model's input, or a list of outputs, which become a dict of inputs. None: the batches
            are as Keras wants them already, by the loader's `transform`.
        targets: Output with the labels, or a list of outputs. None: the batches have none, as for `predict`.
        weights: Output with the weight of each sample.
        repeat: Continue with the next epoch where one ends: for `steps_per_epoch`, if that is not the epoch's length.
        **others: Nothing. Batch size, threads and the like are the loader's.

    Raises:
        ConfigError: This is no loader, or one with several devices; there are no names, and the loader has no `transform`; or
            there are more arguments. If the loader has no output of a name, and a `transform` or no `fields`, the first batch
            raises it.
    """

    def __init__(
        self,
        loader: Loader,
        inputs: str | Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
        weights: str | None = None,
        repeat: bool = False,
        **others: Any,
    ) -> None:
        one_device("Batches", loader)
        refuse("Batches", others)
        parts = [names for names in (inputs, targets, weights) if names is not None]
        if parts != [inputs, targets, weights][: len(parts)]:
            raise ConfigError("Keras's batches are inputs, targets and weights: targets need inputs, and weights need both")
        if loader.adapter.is_plain:
            _check_outputs(parts, loader.adapter.outputs)
        self._loader = loader
        self._parts = parts
        self._repeat = repeat
        # Start of the next pass, if batches of it were taken already.
        self._begun: _Start | None = None
        # Keras has begun a pass, has not ended it, and may have built the model with all batches of it so far.
        self._may_build = False
        # `num_batches` was read, and no pass has begun since: Keras's iterator has been made or is being reset.
        self._is_reset = False
        # Keras's iterator was reset after the model was built: the passes are trained on.
        self._is_training = False
        # The pass before was an epoch of the loader, and the next one continues it.
        self._continues = False
        # A callback has been made for these batches, so each has the state after it.
        self.has_states = False
        # States after the batches of this pass that were not trained on yet, in a `fit` with that callback.
        self.states: deque[dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return f"Batches({_listed([self._loader, *self._parts])})"

    def __len__(self) -> int:
        """Batches of a whole epoch of the loader."""
        return len(self._loader)

    @property
    def num_batches(self) -> int | None:
        """Batches of a whole epoch; None with `repeat`.

        Raises:
            ConfigError: `fit` has targets or weights as arguments, which Keras does not pass to a data adapter.
        """
        # Keras's iterator reads this as it is made, and has the arguments of `fit`.
        arguments = sys._getframe(1).f_locals
        for name, instead in _OF_FIT.items():
            if arguments.get(name) is not None:
                raise ConfigError(f"Keras ignores {name}= next to Batches: leave it out, and {instead}")
        self._is_reset, self._is_training, self._continues = True, False, False
        # A callback sets it again as training begins. One of a `fit` that was interrupted may be absent from this one.
        self.states = None
        return None if self._repeat else len(self._loader)

    @property
    def batch_size(self) -> int:
        """Rows of a full batch."""
        return self._loader.batch_size

    @property
    def has_partial_batch(self) -> bool | None:
        """False if all batches are full, else None."""
        return False if self._loader.adapter.has_full_batches else None

    @property
    def partial_batch_size(self) -> int | None:
        """Unknown."""
        return None

    def get_numpy_iterator(self) -> Iterator[Any]:
        """Returns an epoch as numpy arrays."""
        return self._map(keras.ops.convert_to_numpy)

    def get_jax_iterator(self) -> Iterator[Any]:
        """Returns an epoch as arrays of numpy or JAX."""
        import jax

        def array(value: Any) -> Any:
            return value if isinstance(value, jax.Array) else keras.ops.convert_to_numpy(value)

        # Keras takes one batch ahead, to copy it to the device.
        return self._map(array, ahead=int(jax.default_backend() != "cpu" and keras.distribution.distribution() is None))

    def get_torch_dataloader(self) -> Iterator[Any]:
        """Returns an epoch as tensors on Keras's device."""
        return self._map(keras.ops.convert_to_tensor)

    def get_tf_dataset(self) -> Any:
        """Returns epochs as a `tf.data.Dataset`, one for each iteration."""
        import tensorflow as tf

        from .tensorflow import view

        # The pass delivers this batch again.
        if self._begun is None or self._begun.epoch.is_abandoned:
            self._begun = self._begin()
        # One element is taken ahead, so that it is converted during the step before. With `repeat` none is taken ahead of an
        # epoch, which a `fit` that ends with the one before would use up.
        batches = view(self._pass, self._arranged(self._begun.taken[0][0])).prefetch(1)
        options = tf.data.Options()
        # There is nothing to tune, and the end of an epoch would wait 0.3 s for the thread that tunes.
        options.autotune.enabled = False
        batches = batches.with_options(options)
        return batches.repeat() if self._repeat else batches

    def on_epoch_begin(self) -> None:
        """Begins a pass."""
        self._is_reset = False

    def on_epoch_end(self) -> None:
        """Ends a pass. Keras calls this also after it has built the model, for which it takes the first batch of a pass."""
        self._may_build = False
        if self._is_reset:
            self._is_reset, self._is_training = False, True

    def _map(self, convert: Any, ahead: int = 0) -> Iterator[Any]:
        """Returns a pass; Keras takes `ahead` of its batches before it trains on the one before."""
        if self._may_build:
            # Keras asks for the next pass before it ends one that it has trained on, if that had `num_batches`.
            self._begun, self._may_build = None, False
        steps = self._pass(0 if self._is_training else 1 + ahead, ahead)
        return (keras.tree.map_structure(convert, batch) for batch in steps)

    def _arranged(self, batch: Any) -> Any:
        """Returns the outputs of a batch in Keras's form."""
        if not self._parts:
            return batch
        try:
            return tuple(batch[names] if isinstance(names, str) else {name: batch[name] for name in names} for names in self._parts)
        except (KeyError, TypeError, IndexError):
            has = f"have {_listed(batch)}" if isinstance(batch, Mapping) else f"are not a dict but a {type(batch).__name__}"
            raise _no_output(self._parts, has) from None

    def _pass(self, shown: int = 0, ahead: int | None = None) -> Iterator[Any]:
        """One pass of Keras over the data: an epoch, or without an end.

        Keras may build a model with the first batch of a pass, and then begins a second pass, which has to start with the
        same batch.

        Args:
            shown: Batches that Keras takes to build a model. 0: it does not build one with this pass.
            ahead: Batches that Keras takes before it trains on the one before. None: this pass ends with the epoch, also
                with `repeat`, and the next one continues.
        """
        continues, self._continues = self._continues, False
        if self.states is not None and not continues:
            self.states.clear()
        if self._begun is not None and self._begun.epoch.is_abandoned:
            # A new state was loaded since.
            self._begun = None
        start = self._begun or self._begin()
        # A pass that is not known to be trained on may be dropped at its first batch, if that is not the only one.
        kept = 0 if self._is_training or continues else shown or int(len(self._loader) > 1)
        self._begun = start if kept else None
        self._may_build = shown > 0
        number = 0
        try:
            for number, (batch, state) in enumerate(self._steps(start, ahead), 1):
                if number == kept + 1:
                    self._use_up(start)
                if self.states is not None:
                    self.states.append(state or self._loader.state_dict())
                yield self._arranged(batch)
        except Exception:
            # Keras may keep the error, and its traceback has the iterator.
            self._use_up(start)
            start.epoch.close()
            raise
        self._continues = self._repeat
        if not shown or number < len(self._loader):
            self._use_up(start)

    def _use_up(self, start: _Start) -> None:
        """Makes the next pass begin a different epoch than `start`."""
        # TensorFlow's thread may be late: the next pass may have begun.
        if self._begun is start:
            self._begun = None
        self._may_build = False
        start.taken.clear()

    def _steps(self, start: _Start, ahead: int | None) -> Iterator[tuple[Any, Any]]:
        """Yields the batches from `start` on with the states after them."""
        yield from list(start.taken)
        while True:
            for batch in start.epoch:
                step = batch, self._state()
                if self._begun is start:
                    start.taken.append(step)
                yield step
            if not self._repeat or ahead is None:
                return
            following = self._begin()
            start.epoch = following.epoch
            if self._begun is start:
                start.taken += following.taken
            elif ahead:
                # A `fit` that ends with the epoch before has taken this batch and has not trained on it.
                self._begun = following
            yield from following.taken
            if self._begun is following:
                self._begun = None

    def _begin(self) -> _Start:
        """Starts the loader's next epoch, with its first batch."""
        # A loader with the end of an epoch as its state has no batch of that epoch.
        start = self._start() or self._start()
        if start is None:
            raise ConfigError("an epoch of the loader has no batch")
        return start

    def _start(self) -> _Start | None:
        """Starts the loader's next epoch, with its first batch. None: it has none."""
        epoch = iter(self._loader)
        try:
            for batch in epoch:
                return _Start(epoch, [(batch, self._state())])
        except Exception:
            # Keras may keep the error, and its traceback has the iterator.
            epoch.close()
            raise
        return None

    def _state(self) -> dict[str, Any] | None:
        return self._loader.state_dict() if self.has_states else None

    def _resume(self, state: dict[str, Any]) -> int | None:
        """Continues after `state`, and returns the number of the next batch. None: `state` is the end of an epoch."""
        self._loader.load_state_dict(state)
        first = self._loader.first_batch
        self._begun = self._start()
        return None if self._begun is None else first


class BackupAndRestore(keras.callbacks.BackupAndRestore):
    """Keras's callback of this name, which also saves and restores the position in the data.

    A job that starts again with the same `backup_dir` continues in the middle of the epoch: with the weights of the last
    backup and with the batch that follows it. That epoch has only the remaining steps, which Keras numbers from 0.

    Args:
        batches: The training data that `fit` gets.
        backup_dir: Folder of the backup.
        save_freq: Batches between backups, or "epoch".
        **kwargs: Further arguments of Keras's callback.
    """

    def __init__(self, batches: Batches, backup_dir: str | os.PathLike[str], save_freq: int | str = "epoch", **kwargs: Any) -> None:
        super().__init__(os.fspath(backup_dir), save_freq, **kwargs)
        self._batches = batches
        batches.has_states = True
        self._file = os.path.join(self.backup_dir, "loader.json")
        # Positions of the last two backups by the number of the optimizer's steps. Keras writes the weights in a separate file,
        # so a job that ends between both files finds the position that belongs to the weights.
        self._positions: dict[str, Any] = {}
        self._position: dict[str, Any] | None = None
        self._steps_seen = 0
        self._is_epoch_end = False
        # Steps of the resumed epoch before the backup.
        self._steps_before = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Restores the last backup, if there is one."""
        super().on_train_begin(logs)
        self._batches.states = deque()
        self._steps_seen = self._steps_before = 0
        steps = self.params["steps"]
        if not self._batches._repeat and steps != len(self._batches):
            raise ConfigError(
                f"steps_per_epoch is {steps}, but the loader's epoch has {len(self._batches)} batches, so a backup within it could not be "
                "resumed: pass Batches(..., repeat=True)"
            )
        if not os.path.exists(self._file):
            return
        with open(self._file) as file:
            self._positions = json.load(file)
        found = self._positions.get(self._steps())
        if found is None:
            raise ConfigError(
                f"{self._file} has no position for weights of {self._steps()} steps: it belongs to a different backup, remove the folder"
            )
        first = self._batches._resume(found["state"])
        is_complete = first is None
        self._current_epoch, done = found["epoch"], found.get("step", 0)
        if self._batches._repeat:
            # The steps decide instead of the loader's epochs. Without their number an epoch of Keras has no end.
            is_complete = steps is not None and done >= steps
        elif first is not None and (first < done or not self._batches._loader.adapter.may_lack_batches):
            # With a different batch size as many samples are a different number of batches.
            done = first
        if is_complete:
            self._current_epoch, done = self._current_epoch + 1, 0
        self._steps_before = done if steps is not None else 0
        self.model._initial_epoch = self._current_epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Saves a backup after every `save_freq` batches."""
        states = self._batches.states
        if not states:
            raise ConfigError("fit trains on different data than this callback has: pass the same Batches to both")
        # Keras numbers the batches of an epoch from 0, and calls once for several with `steps_per_execution`; the
        # last ones may be beyond the end.
        for _ in range(min(batch + 1 - self._steps_seen, len(states))):
            self._position = states.popleft()
        self._steps_seen = batch + 1
        super().on_train_batch_end(batch, logs)
        if self._steps_before and self._steps_before + batch + 1 >= self.params["steps"] and not self.model.stop_training:
            # Keras ends the epoch, which has fewer batches than it expects, and `on_epoch_end` lets the training continue.
            self.model.stop_training = _END_OF_EPOCH

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves a backup with `save_freq="epoch"`."""
        self._steps_seen = self._steps_before = 0
        # A callback may have stopped the training since.
        if self.model.stop_training is _END_OF_EPOCH:
            self.model.stop_training = False
        self._is_epoch_end = True
        super().on_epoch_end(epoch, logs)
        self._is_epoch_end = False

    def on_train_end(self, logs: Any = None) -> None:
        """Removes the backup, unless `delete_checkpoint` is false."""
        self._batches.states = None
        super().on_train_end(logs)

    def _steps(self) -> str:
        return str(int(keras.ops.convert_to_numpy(self.model.optimizer.iterations)))

    def _save_model(self) -> None:
        # At an epoch's end Keras has counted it already.
        epoch = self._current_epoch - (self._is_epoch_end and not self._batches._repeat)
        last = list(self._positions.items())[-1:]
        position = {"epoch": epoch, "step": self._steps_before + self._steps_seen, "state": self._position}
        self._positions = dict(last) | {self._steps(): position}
        os.makedirs(self.backup_dir, exist_ok=True)
        with open(f"{self._file}.new", "w") as file:
            json.dump(self._positions, file)
        os.replace(file.name, self._file)
        super()._save_model()
