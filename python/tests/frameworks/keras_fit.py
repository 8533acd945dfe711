"""Trains a Keras model and prints the ids of every step as JSON; run by test_keras.py in a process for each backend.

The model has a weight for each id, which every visit lowers by one: the ids of a step are read from the weights.
"""

import itertools
import json
import os
import re
import signal
import sys
import warnings
from unittest import mock

import keras
import numpy as np

import forebay as fb
from forebay.integrations.keras import BackupAndRestore, Batches

EPOCHS, ROWS = 3, 48

_models = itertools.count()


class Record(keras.callbacks.Callback):
    """Ids of each step, by epoch; the program ends after `stop` steps."""

    def __init__(self, stop=None, kill=False):
        super().__init__()
        self.epochs, self.steps, self.stop, self.kill, self.shown = {}, 0, stop, kill, []

    def on_train_begin(self, logs=None):
        self.weights = self.model.get_weights()[0].copy()
        self.shown.append(self.params["steps"])

    def on_epoch_begin(self, epoch, logs=None):
        self.epochs[epoch] = []

    def on_train_batch_end(self, batch, logs=None):
        weights = self.model.get_weights()[0]
        self.epochs[max(self.epochs)].append(np.flatnonzero(weights != self.weights).tolist())
        self.weights = weights.copy()
        self.steps += 1
        if self.steps == self.stop:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt


def network(**kwargs):
    model = keras.Sequential([keras.Input((), dtype="int32"), keras.layers.Embedding(ROWS, 1, embeddings_initializer="zeros")])
    loss = keras.losses.Loss(reduction="sum")
    loss.call = lambda y_true, y_pred: y_pred
    # The first model is compiled, as by default. Dozens of others have a few steps each, and their compilation takes longer.
    jit_compile = False if next(_models) else "auto"
    model.compile(keras.optimizers.SGD(1.0), loss=loss, jit_compile=jit_compile, **kwargs)
    return model


def loader(folder, framework=None, **kwargs):
    fields = {"x": fb.Scalar("class", dtype="int32"), "y": fb.Scalar("class", dtype="float32")}
    kwargs = {"batch_size": 5, "shuffle": True, "fields": fields} | kwargs
    return fb.Loader(local=folder, framework=framework or keras.config.backend(), **kwargs)


def fit(batches, stop=None, kill=False, backup=None, before=(), **kwargs):
    record = Record(stop, kill)
    callbacks = [record] if backup is None else [*before, BackupAndRestore(batches, backup, save_freq=2), record]
    try:
        kwargs = {"epochs": EPOCHS, "verbose": 0} | kwargs
        history = network().fit(batches, callbacks=callbacks, **kwargs).history
    except KeyboardInterrupt:
        history = None
    return record, history


def expected(folder, **kwargs):
    """Ids of each step of a loop over the loader alone."""
    with loader(folder, "numpy", **kwargs) as train:
        return {epoch: [sorted(batch["x"].tolist()) for batch in train] for epoch in range(EPOCHS)}


def check(folder, backup):
    """Runs every check in this process; warnings are errors."""
    plain = expected(folder)
    with loader(folder) as train, loader(folder, shuffle=False) as val:
        record, history = fit(Batches(train, "x", "y"), validation_data=Batches(val, "x", "y"))
        assert record.epochs == plain, "each step has the batch of a plain loop"
        assert record.shown == [10], "the progress bar knows the steps"
        assert len(history["val_loss"]) == EPOCHS and np.isfinite(history["val_loss"]).all()
        # Each of the 48 ids was lowered once in each epoch.
        assert history["val_loss"] != history["loss"]
        assert (train.epoch, val.epoch) == (EPOCHS, EPOCHS)
    with loader(folder) as train:
        record, _ = fit(Batches(train, "x", "y", repeat=True), steps_per_epoch=6, epochs=5)
        assert sum(record.epochs.values(), []) == sum(plain.values(), []), "steps_per_epoch crosses the loader's epochs"
    single = {"batch_size": ROWS}
    for steps, epochs in ((None, EPOCHS), (1, EPOCHS), (EPOCHS, 1)):
        with loader(folder, **single) as train:
            record, _ = fit(Batches(train, "x", "y", repeat=steps is not None), steps_per_epoch=steps, epochs=epochs)
            batches = sum(expected(folder, **single).values(), [])
            assert sum(record.epochs.values(), []) == batches, "epochs of one batch"
    if keras.config.backend() == "jax":
        # On devices that are not CPUs Keras takes a batch ahead, also of the pass that it builds the model with.
        with mock.patch("jax.default_backend", return_value="gpu"):
            for size in (5, ROWS // 2, ROWS):
                with loader(folder, batch_size=size) as train:
                    record, _ = fit(Batches(train, "x", "y"))
                    assert record.epochs == expected(folder, batch_size=size), f"batches of {size}, one ahead"
                    assert train.epoch == EPOCHS
    with loader(folder, **single) as train, loader(folder, **single) as val:
        fit(Batches(train, "x", "y"), validation_data=Batches(val, "x", "y"))
        assert (train.epoch, val.epoch) == (EPOCHS, EPOCHS), "each epoch of one batch is used"
    with loader(folder) as train:
        state = train.state_dict() | {"sample_in_epoch": 45}
        batches = Batches(train, "x", "y")
        assert fit(batches, epochs=2)[0].epochs == {epoch: plain[epoch] for epoch in range(2)}
        # A new state before a second call of fit: Keras warns that the first epoch is short.
        train.load_state_dict(state)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Your input ran out of data")
            assert fit(batches, epochs=2)[0].epochs == {0: plain[0][9:], 1: plain[1]}
    with loader(folder) as train:
        fit(Batches(train, "x", "y"), epochs=1)
        state = train.state_dict()
    with loader(folder) as train:
        train.load_state_dict(state)
        assert fit(Batches(train, "x", "y"), epochs=1)[0].epochs == {0: plain[1]}, "a state at the end of an epoch"
    with loader(folder) as train:
        steps = 1 if keras.config.backend() == "torch" else 4
        batches, model = Batches(train, "x", "y"), network(steps_per_execution=steps)
        model.fit(batches, epochs=1, verbose=0, callbacks=[BackupAndRestore(batches, f"{backup}-execution", save_freq=4)])
        trained = int(keras.ops.convert_to_numpy(model.optimizer.iterations))
        assert trained == 10, "the last execution has fewer steps"
    for size, steps in ((5, 1), (5, 3), (ROWS, 1)):
        with loader(folder, batch_size=size) as train:
            batches, plain_of_size = Batches(train, "x", "y"), expected(folder, batch_size=size)
            for epoch in range(EPOCHS):
                record, _ = fit(batches, steps_per_epoch=steps, epochs=1)
                assert record.epochs == {0: plain_of_size[epoch][:steps]}, "a second fit starts the next epoch"
    followed(folder, plain)
    if keras.config.backend() == "jax":
        with mock.patch("jax.default_backend", return_value="gpu"):
            followed(folder, plain)
    with loader(folder, "numpy", transform=lambda batch: (batch["x"], batch["y"])) as train:
        assert fit(Batches(train))[0].epochs == plain, "arrays of numpy, arranged by a transform"
    with loader(folder, shuffle=False) as test:
        model = network()
        assert model.predict(Batches(test, "x"), verbose=0).shape == (ROWS, 1)
        assert model.evaluate(Batches(test, "x", "y"), verbose=0) == 0
    for stop in (7, 10, 13):
        place = f"{backup}-{stop}"
        with loader(folder) as train:
            fit(Batches(train, "x", "y"), stop, backup=place)
        with loader(folder) as train:
            resumed(plain, fit(Batches(train, "x", "y"), backup=place)[0], after=stop // 2 * 2)
    resized(folder, plain, backup)
    repeated(folder, plain, backup)
    interrupted(folder, plain, backup)
    failed(folder, plain)
    with loader(folder) as train:
        batches = Batches(train, "x", "y")
        assert len(batches) == len(Batches(train, "x", "y", repeat=True)) == 10
        refused(lambda: fit(batches, steps_per_epoch=4, backup=f"{backup}-steps"), "the loader's epoch has 10 batches, so a backup")
        for argument, value in {"class_weight": {0: 1.0}, "sample_weight": np.ones(ROWS), "y": np.ones(ROWS)}.items():
            refused(lambda: fit(batches, **{argument: value}), f"Keras ignores {argument}= next to Batches: leave it out, and ")
        refused(lambda: network().evaluate(batches, sample_weight=np.ones(ROWS)), "Keras ignores sample_weight= next to Batches")
        refused(lambda: Batches(train), r"name these outputs of the loader, such as .* .it has 'x', 'y'.")
        refused(lambda: Batches(train, "x", "y", batch_size=8), r"Batches has no argument batch_size, .* forebay.Loader\(..., batch_size=")
        refused(lambda: Batches(train, "x", "y", workers=8), "did you mean threads")
        refused(lambda: Batches([train], "x", "y"), "takes a forebay.Loader, such as .* but this is a list")
        has = "but the loader's batches have 'x', 'y'"
        refused(lambda: Batches(train, "x", ["y", "label"]), rf"the outputs 'x', \['y', 'label'\], {has}")
        refused(lambda: Batches(train, 0), rf"the outputs 0, {has}")
        assert repr(batches).startswith("Batches(<forebay.Loader, epoch ") and repr(batches).endswith(">, 'x', 'y')")
    with loader(folder, extra=["repeat"]) as train:
        refused(lambda: Batches(train, "x", "label"), f"{has}, 'repeat'")
        assert len(Batches(train, "x", "y", "repeat")) == 10
    with loader(folder, fields=None) as train:
        refused(lambda: fit(Batches(train, "x", ["y", "label"])), r"\['y', 'label'\], but the loader's batches have ")
    with loader(folder, "numpy", transform=lambda batch: (batch["x"], batch["y"])) as train:
        refused(lambda: fit(Batches(train, "x", "y")), "but the loader's batches are not a dict but a tuple")


def followed(folder, plain):
    """Checks that a `fit` with `repeat` is followed by one that starts with the loader's next epoch."""
    every = sum(plain.values(), [])
    for steps, epochs in ((5, 2), (10, 1), (2, 5), (11, 1), (3, 1), (9, 1)):
        with loader(folder) as train:
            batches, model, begun = Batches(train, "x", "y", repeat=True), network(), 0
            while begun < EPOCHS:
                record = Record()
                model.fit(batches, steps_per_epoch=steps, epochs=epochs, callbacks=[record], verbose=0)
                found = sum(record.epochs.values(), [])
                if begun * 10 + len(found) <= len(every):
                    assert found == every[begun * 10 :][: steps * epochs], (steps, epochs, begun)
                begun += -(-steps * epochs // 10)


class Sees(keras.callbacks.Callback):
    """Values of `stop_training` at the end of each batch and epoch."""

    def __init__(self):
        super().__init__()
        self.values = []

    def on_train_batch_end(self, batch, logs=None):
        self.values.append(self.model.stop_training)

    def on_epoch_end(self, epoch, logs=None):
        self.values.append(self.model.stop_training)


def interrupted(folder, plain, backup):
    """Checks the files that a resumed `fit` leaves behind when it is interrupted, and the values that further callbacks see."""
    for repeats in (False, True):
        place, arguments = f"{backup}-interrupted-{repeats}", {"steps_per_epoch": 10} if repeats else {}
        filters = list(warnings.filters)
        for stop in (7, 1):
            with loader(folder) as train:
                fit(Batches(train, "x", "y", repeat=repeats), stop, backup=place, **arguments)
            assert warnings.filters == filters
        with loader(folder) as train:
            batches, sees = Batches(train, "x", "y", repeat=repeats), Sees()
            callbacks = [BackupAndRestore(batches, place, save_freq=2), sees]
            network().fit(batches, epochs=2, callbacks=callbacks, verbose=0, **arguments)
            # The resumed epoch has four batches.
            assert sees.values == [False] * 3 + [True, False] + [False] * 11
            assert json.loads(json.dumps(int(sees.values[3]))) == 1
        with loader(folder) as train:
            batches = Batches(train, "x", "y", repeat=repeats)
            fit(batches, 2, backup=f"{place}-states", **arguments)
            record, _ = fit(batches, **arguments)
            assert record.epochs[0] == plain[1] and not batches.states, "states without a callback"


def failed(folder, plain):
    """Checks that an error of the transform ends the loader's threads, and that a second `fit` continues."""

    def fails(batch):
        if fails.errors and sorted(np.asarray(batch["x"]).tolist()) == plain[0][number]:
            fails.errors.pop()
            raise RuntimeError("once")
        return batch

    for number in (0, 1, 5):
        fails.errors = [True]
        with loader(folder, "numpy", transform=fails) as train:
            batches, kept = Batches(train, "x", "y"), None
            try:
                fit(batches)
            except Exception as error:
                kept = error
            assert "once" in str(kept)
            assert [engine.runs() for engine in train._engines] == [False]
            assert train.state_dict()["sample_in_epoch"] == 5 * number
            assert sum(fit(batches, epochs=1)[0].epochs.values(), []) in (plain[0], plain[1])


def resized(folder, plain, backup):
    """Checks that a backup within an epoch resumes with a different batch size: the rest of the epoch is trained on once."""
    for size, stop, repeats in [(12, 7, False), (2, 7, False), (48, 9, False), (12, 13, False), (12, 7, True)]:
        place = f"{backup}-resized-{size}-{stop}-{repeats}"
        with loader(folder) as train:
            fit(Batches(train, "x", "y", repeat=repeats), stop, backup=place, **({"steps_per_epoch": 10} if repeats else {}))
        done = stop // 2 * 2
        epoch = done // 10
        with loader(folder, batch_size=size) as train:
            steps = {"steps_per_epoch": -(-ROWS // size) + 8} if repeats else {}
            record, _ = fit(Batches(train, "x", "y", repeat=repeats), backup=place, **steps)
        rest = sum(plain[epoch][done % 10 :], [])
        if repeats:
            # Steps end an epoch, and the data continues.
            ids = sum(sum(record.epochs.values(), []), [])
            assert sorted(ids[: len(rest)]) == sorted(rest), (size, stop)
            continue
        assert list(record.epochs) == list(range(epoch, EPOCHS)), (size, stop)
        assert sorted(sum(record.epochs[epoch], [])) == sorted(rest), (size, stop, record.epochs)
        for later in range(epoch + 1, EPOCHS):
            assert sorted(sum(record.epochs[later], [])) == list(range(ROWS)), (size, stop)


class EndsTraining(keras.callbacks.Callback):
    """Stops the training at the end of an epoch."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def on_epoch_end(self, epoch, logs=None):
        if epoch == self.last:
            self.model.stop_training = True


def repeated(folder, plain, backup):
    """Checks epochs of Keras that are not the loader's: a resumed one has its remaining steps."""
    every = sum(plain.values(), [])
    for stop, last in ((3, 4), (4, 4), (9, 4), (10, 4), (14, 4), (15, 2), (15, 4)):
        done, place = stop // 2 * 2, f"{backup}-repeat-{stop}-{last}"
        arguments = {"steps_per_epoch": 6, "epochs": 5, "backup": place}
        with loader(folder) as train:
            fit(Batches(train, "x", "y", repeat=True), stop, **arguments)
        with loader(folder) as train:
            record, history = fit(Batches(train, "x", "y", repeat=True), before=[EndsTraining(last)], **arguments)
            assert sum(record.epochs.values(), []) == every[done : 6 * (last + 1)], (stop, last, record.epochs)
            lengths = {epoch: len(steps) for epoch, steps in record.epochs.items()}
            assert lengths == {epoch: 6 - done % 6 if epoch == done // 6 else 6 for epoch in range(done // 6, last + 1)}
            assert len(history["loss"]) == len(lengths)


def refused(call, message):
    """Checks that `call` raises a ConfigError."""
    try:
        call()
    except fb.ConfigError as error:
        assert re.search(message, str(error)), error
    else:
        raise AssertionError(f"no error: {message}")


def of_tensorflow(folder):
    """Checks that a `tf.data.Dataset` of a loader has a known number of batches, also after an epoch that is resumed."""
    from forebay.integrations.tensorflow import dataset

    def steps(state=None):
        with loader(folder, transform=lambda batch: (batch["x"], batch["y"])) as train:
            if state is not None:
                train.load_state_dict(state)
            batches, record = dataset(train), Record()
            assert len(batches) == int(batches.cardinality()) == len(train) == 10
            network().fit(batches, epochs=EPOCHS, verbose=0, shuffle=False, callbacks=[record])
            assert train.epoch == EPOCHS
            return list(record.epochs.values())

    plain = list(expected(folder).values())
    # A warning would be an error.
    assert steps() == plain
    with loader(folder, transform=lambda batch: (batch["x"], batch["y"])) as first:
        for _ in zip(range(4), first, strict=False):
            pass
        state = first.state_dict()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert steps(state) == [plain[0][4:], *plain[1:]]
    assert sum("ran out of data" in str(warning.message) for warning in caught) == 1


def resumed(plain, record, after):
    """Checks the steps of a job that resumes a backup, which was made after `after` steps."""
    steps = [(epoch, ids) for epoch, batches in record.epochs.items() for ids in batches]
    assert steps == [(epoch, ids) for epoch, batches in plain.items() for ids in batches][after:]


if __name__ == "__main__":
    warnings.simplefilter("error", UserWarning)
    folder, backups, *modes = sys.argv[1:]
    for mode in modes:
        if mode == "check":
            check(folder, f"{backups}/checked")
        if mode == "dataset":
            of_tensorflow(folder)
        with loader(folder) as train:
            if mode == "kill":
                fit(Batches(train, "x", "y"), stop=15, kill=True, backup=f"{backups}/killed")
            if mode == "resume":
                resumed(expected(folder), fit(Batches(train, "x", "y"), backup=f"{backups}/killed")[0], after=14)
    print("done")
