"""Hugging Face's Trainer with loaders as data sets, in one process."""

import contextlib
import itertools
from unittest import mock

import numpy as np
import pytest
from jobs import SAMPLES, STEPS

pytest.importorskip("accelerate", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import EarlyStoppingCallback, TrainingArguments  # noqa: E402

import forebay as fb  # noqa: E402
from forebay.integrations.accelerate import DataLoader  # noqa: E402
from forebay.integrations.transformers import Trainer  # noqa: E402

LABELLED = {"x": fb.Scalar("number"), "labels": fb.Scalar("number")}
"""Fields for the evaluation of a loss: Trainer looks for the name `labels`."""


class Model(torch.nn.Module):
    """Records the samples of each step of training and of evaluation."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained, self.evaluated = [], []

    def forward(self, x, labels=None, image=None):
        if self.training:
            self.trained.append(x.tolist())
        else:
            self.evaluated += x.tolist()
        logits = self.layer(x.float()[:, None])
        return {"loss": logits.square().mean(), "logits": logits}


@pytest.fixture
def fit(tmp_path):
    """Function that trains; the model and the Trainer."""

    def fit(train, evaluated=None, resume=None, callbacks=None, model=Model, **arguments):
        arguments = {"output_dir": tmp_path, "use_cpu": True, "report_to": [], "disable_tqdm": True} | arguments
        arguments = {"save_strategy": "no"} | arguments
        model = model()
        trainer = Trainer(model, TrainingArguments(**arguments), train_dataset=train, eval_dataset=evaluated, callbacks=callbacks)
        trainer.train(resume_from_checkpoint=resume and str(tmp_path / f"checkpoint-{resume}"))
        return model, trainer

    return fit


def test_epochs_and_evaluation(make, order, fit):
    model, trainer = fit(make(), make(shuffle=False, fields=LABELLED), num_train_epochs=2, eval_strategy="epoch")
    assert model.trained == order[: 2 * STEPS]
    assert model.evaluated == 2 * list(range(SAMPLES))
    assert trainer.state.global_step == 2 * STEPS and trainer.state.epoch == 2
    assert trainer.args.per_device_train_batch_size == 12
    assert trainer.evaluate({"other": make(fields=LABELLED)}).keys() >= {"eval_other_loss"}
    trainer.predict(make(shuffle=False))
    assert model.evaluated[-SAMPLES:] == list(range(SAMPLES))


def test_rates_of_an_evaluation_count_the_loader_s_batches(make, fit):
    train, val = make(), make(batch_size=10, fields=LABELLED)
    _, trainer = fit(train, {"a": val, "b": make(batch_size=SAMPLES, fields=LABELLED)}, max_steps=1)
    before = trainer.args.per_device_eval_batch_size

    def counts(figures, name):
        runtime, place = figures[f"{name}_runtime"], f"{name}_%s_per_second"
        return [round(figures[place % unit] * runtime) for unit in ("samples", "steps")]

    # A rate is rounded, so a call has to take long enough, in Trainer's clock.
    with mock.patch("time.time", side_effect=itertools.count(step=10.0)):
        figures = trainer.evaluate()
        assert (counts(figures, "eval_a"), counts(figures, "eval_b")) == ([SAMPLES, 9], [SAMPLES, 1])
        assert counts(trainer.evaluate("a"), "eval") == [SAMPLES, 9]
        assert counts(trainer.evaluate(val), "eval") == [SAMPLES, 9]
        assert counts(trainer.predict(val).metrics, "test") == [SAMPLES, 9]
    assert trainer.args.per_device_eval_batch_size == before


def test_steps_end_the_training(make, order, fit):
    model, trainer = fit(make(), max_steps=9)
    assert model.trained == order[:9] and trainer.state.global_step == 9


def test_accumulation_takes_the_rest_of_an_epoch_together(make, order, fit):
    model, trainer = fit(make(), num_train_epochs=2, gradient_accumulation_steps=3)
    assert model.trained == order[: 2 * STEPS] and trainer.state.global_step == 6


def test_an_early_stop(make, order, fit):
    arguments = {"eval_strategy": "epoch", "save_strategy": "epoch", "metric_for_best_model": "loss", "learning_rate": 0.0}
    arguments |= {"num_train_epochs": 9, "load_best_model_at_end": True}
    model, _ = fit(make(), make(fields=LABELLED), callbacks=[EarlyStoppingCallback(1)], **arguments)
    assert model.trained == order[: 2 * STEPS]


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("step", [4, STEPS, STEPS + 2])
def test_a_checkpoint_resumes_with_the_next_batch(make, order, fit, step, restores):
    fit(make(), num_train_epochs=2, save_strategy="steps", save_steps=step)
    arguments = {"num_train_epochs": 2, "restore_callback_states_from_checkpoint": restores}
    model, trainer = fit(make(), resume=step, **arguments)
    assert model.trained == order[step : 2 * STEPS]
    assert trainer.state.epoch == 2
    assert trainer.train_dataset.stats()["stages"]["next"]["items"] == 2 * STEPS - step


@pytest.mark.parametrize("spoilt", [(0,), (1,), (4,), (0, 2, 3)])
def test_a_checkpoint_resumes_where_skipped_samples_have_emptied_batches(make_spoilt, fit, spoilt):
    arguments = {"num_train_epochs": 3, "gradient_accumulation_steps": 1}
    steps = 3 * (5 - len(spoilt))
    model, _ = fit(make_spoilt(spoilt), save_strategy="steps", save_steps=1, **arguments)
    assert len(model.trained) == steps
    for step in range(1, steps):
        with may_be_refused():
            resumed, trainer = fit(make_spoilt(spoilt), resume=step, **arguments)
            assert resumed.trained == model.trained[step:], f"after step {step}"
            assert trainer.state.global_step == steps


@contextlib.contextmanager
def may_be_refused():
    """Accepts that Transformers 4 does not resume where whole batches were left out, and only this failure."""
    try:
        yield
    except fb.ConfigError as error:
        assert transformers.__version__.startswith("4.") and "Transformers 4 counts" in str(error)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_max_steps_are_reached_where_skipped_samples_have_emptied_batches(make_spoilt, fit, accumulation):
    arguments = {"max_steps": 12, "gradient_accumulation_steps": accumulation}
    model, trainer = fit(make_spoilt((0, 2, 3)), save_strategy="steps", save_steps=5, **arguments)
    # Gradients are applied at the end of an epoch. Its two batches are one step of accumulation.
    assert (trainer.state.global_step, len(model.trained)) == (12, 12 * accumulation)
    with may_be_refused():
        resumed, trainer = fit(make_spoilt((0, 2, 3)), resume=5, **arguments)
        assert (trainer.state.global_step, resumed.trained) == (12, model.trained[5 * accumulation :])


class Packed(Model):
    def forward(self, input_ids, segment_ids, positions):
        self.trained.append(input_ids.tolist())
        return {"loss": self.layer(input_ids.float().mean()[None, None]).square().mean()}


@pytest.mark.skipif(transformers.__version__.startswith("4."), reason="Transformers 4 counts the epochs of a checkpoint by its steps alone")
def test_epochs_of_packs_of_different_lengths_are_resumed(fit, tmp_path):
    draws = np.random.default_rng(3)
    with fb.MDSWriter(out=tmp_path / "data", columns={"ids": "ndarray:int64"}) as writer:
        for size in draws.integers(1, 16, 60):
            writer.write({"ids": draws.integers(1, 1000, size)})

    def make(batch_size=4):
        # Epochs of drawn documents have different numbers of tokens.
        options = {"fields": {"input_ids": fb.Tokens("ids")}, "select": fb.Select(weights=np.ones(60)), "batch_size": batch_size}
        return fb.Loader(remote=str(tmp_path / "data"), window=fb.Pack(16, form="segments"), shuffle=True, seed=2, **options)

    with make() as loader:
        lengths = [sum(1 for _ in loader) for _ in range(4)]
    assert len(set(lengths)) > 1
    arguments = {"num_train_epochs": 4, "gradient_accumulation_steps": 1, "model": Packed}
    model, _ = fit(make(), save_strategy="steps", save_steps=1, **arguments)
    # Trainer ends an epoch after as many steps as the first one has.
    ends = np.cumsum([min(length, lengths[0]) for length in lengths])
    for step in sorted({end + near for end in ends[:-1].tolist() for near in (-1, 0, 1)}):
        resumed, trainer = fit(make(), resume=step, **arguments)
        assert resumed.trained == model.trained[step:], f"after step {step}"
        assert trainer.state.global_step == len(model.trained)
    with pytest.raises(fb.ConfigError, match="a step has 2 packs on all processes, and 4 in the checkpoint"):
        fit(make(2), resume=3, **arguments)


def test_a_search_for_the_batch_size_is_refused(make, fit):
    with pytest.raises(fb.ConfigError, match=r"auto_find_batch_size=True .* forebay.Loader\(..., batch_size=\)"):
        fit(make(), auto_find_batch_size=True)
    fit([{"x": number} for number in range(8)], auto_find_batch_size=True, num_train_epochs=1)


def test_a_resume_without_the_data_starts_an_epoch(make, order, fit):
    fit(make(), num_train_epochs=1, save_strategy="steps", save_steps=4)
    model, _ = fit(make(), resume=4, num_train_epochs=1, ignore_data_skip=True)
    assert model.trained == order[: STEPS - 4]


def test_foreign_data_sets_are_trainer_s_own(fit):
    model, _ = fit([{"x": number} for number in range(8)], per_device_train_batch_size=8, num_train_epochs=1)
    assert sorted(model.trained[0]) == list(range(8))


def test_one_loader_for_training_and_evaluation_is_refused(make, fit):
    loader = make()
    for evaluated in (loader, {"a": make(), "b": loader}):
        with pytest.raises(fb.ConfigError, match="train_dataset and eval_dataset are one Loader"):
            fit(loader, evaluated)


def test_a_data_loader_instead_of_a_loader_is_refused(make, fit):
    for wrapped in (torch.utils.data.DataLoader([1]), DataLoader(make())):
        with pytest.raises(fb.ConfigError, match="train_dataset is a DataLoader, .* pass the forebay.Loader"):
            fit(wrapped)
        with pytest.raises(fb.ConfigError, match="eval_dataset is a DataLoader"):
            fit(make(), {"a": make(), "b": wrapped})
        _, trainer = fit(make(), max_steps=1)
        for call in (trainer.evaluate, trainer.predict):
            with pytest.raises(fb.ConfigError, match="a data set is a DataLoader"):
                call(wrapped)


def test_the_plain_trainer_names_the_one_for_loaders(make, tmp_path):
    arguments = TrainingArguments(output_dir=tmp_path, use_cpu=True, report_to=[], disable_tqdm=True)
    with pytest.raises(TypeError, match="forebay.integrations has a Trainer"):
        transformers.Trainer(Model(), arguments, train_dataset=make()).train()
