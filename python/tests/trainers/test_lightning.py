"""A loader as the data loader of Lightning's Trainer, in one process."""

import inspect
import types
import warnings

import pytest
from jobs import SAMPLES, STEPS

lightning = pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, TQDMProgressBar  # noqa: E402
from lightning.pytorch.utilities import CombinedLoader  # noqa: E402

from forebay import ConfigError  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


# Lightning 2.6 has this argument, and loads objects that are not tensors with it alone.
TRUSTED = {"weights_only": False} if "weights_only" in inspect.signature(lightning.Trainer.fit).parameters else {}


class Module(lightning.LightningModule):
    """Records the samples of each step."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained, self.validated, self.tested, self.predicted = [], [], [], []
        self.numbers = []

    def training_step(self, batch, number):
        self.trained.append(batch["x"].tolist())
        self.numbers.append(number)
        return self.layer(batch["x"].float()[:, None]).mean()

    def validation_step(self, batch, number):
        self.validated += batch["x"].tolist()
        self.log("loss", 1.0, batch_size=len(batch["x"]))

    def test_step(self, batch, number):
        self.tested += batch["x"].tolist()

    def predict_step(self, batch, number):
        self.predicted += batch["x"].tolist()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


@pytest.fixture
def trainer(tmp_path):
    """Function that makes a Trainer."""

    def make(**arguments):
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
        if any(isinstance(callback, ModelCheckpoint) for callback in arguments.get("callbacks", ())):
            quiet["enable_checkpointing"] = True
        if any(isinstance(callback, TQDMProgressBar) for callback in arguments.get("callbacks", ())):
            quiet["enable_progress_bar"] = True
        return lightning.Trainer(**{"accelerator": "cpu", "default_root_dir": tmp_path} | quiet | arguments)

    return make


def test_epochs_and_validation(make, order, trainer):
    module = Module()
    trainer(max_epochs=2, val_check_interval=3).fit(module, make(), make(shuffle=False))
    assert module.trained == order[: 2 * STEPS]
    # The sanity check takes two batches, and each of the four validations all of them.
    assert module.validated == list(range(24)) + 4 * list(range(SAMPLES))


def test_validate_test_and_predict_take_every_sample_each_time(make, trainer):
    module, loader, used = Module(), make(shuffle=False), trainer()
    for _ in range(2):
        used.validate(module, loader, verbose=False)
        used.test(module, loader, verbose=False)
        used.predict(module, loader)
    assert module.validated == module.tested == module.predicted == 2 * list(range(SAMPLES))


@pytest.mark.parametrize(("steps", "accumulated", "batches"), [(9, 1, 9), (2, 3, 6), (4, 3, STEPS + 3)])
def test_steps_end_the_training(make, order, trainer, steps, accumulated, batches):
    """Lightning makes a step with the last batch of an epoch, whatever the number of batches."""
    module = Module()
    trainer(max_epochs=-1, max_steps=steps, accumulate_grad_batches=accumulated).fit(module, make())
    assert module.trained == order[:batches]


def test_a_limit_of_batches_leaves_out_the_rest_of_each_epoch(make, order, trainer):
    module = Module()
    trainer(max_epochs=2, limit_train_batches=2).fit(module, make())
    assert module.trained == order[:2] + order[STEPS : STEPS + 2]


@pytest.mark.parametrize("batches", [2, 0.3])
def test_overfitting_repeats_the_same_batches_in_every_epoch(make, order, trainer, tmp_path, batches):
    module, saves = Module(), ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
    trainer(max_epochs=3, overfit_batches=batches, callbacks=[saves]).fit(module, make(), make())
    assert module.trained == 3 * order[:2]
    # The sanity check has two batches too.
    assert module.validated == 4 * sum(order[:2], [])
    for step in range(1, 6):
        module = Module()
        saved = {"ckpt_path": tmp_path / f"step={step}.ckpt"} | TRUSTED
        trainer(max_epochs=3, overfit_batches=batches).fit(module, make(), make(), **saved)
        assert module.trained == (3 * order[:2])[step:], step


def test_an_early_stop(make, order, trainer):
    module = Module()
    trainer(max_epochs=9, callbacks=[EarlyStopping("loss", patience=1)]).fit(module, make(), make())
    assert module.trained == order[: 2 * STEPS]


@pytest.mark.parametrize("every", [{"every_n_epochs": 1, "save_on_train_epoch_end": True}, {"every_n_train_steps": STEPS}])
@pytest.mark.parametrize("validates", [False, True])
def test_a_checkpoint_at_the_end_of_an_epoch_resumes_with_the_next(make, order, trainer, tmp_path, every, validates):
    val = [make(shuffle=False)] if validates else []
    saves = ModelCheckpoint(tmp_path, "first", save_top_k=-1, **every)
    trainer(max_epochs=1, callbacks=[saves]).fit(Module(), make(), *val)
    module = Module()
    trainer(max_epochs=3).fit(module, make(), *val, ckpt_path=tmp_path / "first.ckpt", **TRUSTED)
    assert module.trained == order[STEPS : 3 * STEPS]


@pytest.mark.parametrize("validates", [False, True])
def test_a_checkpoint_within_an_epoch_continues_the_numbers_of_batches(make, order, trainer, tmp_path, validates):
    val = [make(shuffle=False)] if validates else []
    saves = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=2)
    trainer(max_epochs=2, callbacks=[saves]).fit(Module(), make(), *val)
    for step in (2, 4, 8, 12):
        module = Module()
        trainer(max_epochs=2).fit(module, make(), *val, ckpt_path=tmp_path / f"step={step}.ckpt", **TRUSTED)
        assert module.trained == order[step : 2 * STEPS]
        assert module.numbers == [number % STEPS for number in range(step, 2 * STEPS)]


def test_a_progress_bar_counts_to_the_end_of_the_epoch(make, trainer, tmp_path):
    class Bar(TQDMProgressBar):
        def on_train_epoch_end(self, *arguments):
            counts.append(self.train_progress_bar.n)
            super().on_train_epoch_end(*arguments)

    counts = []
    saves = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=4, save_top_k=-1)
    trainer(max_epochs=1, callbacks=[Bar(), saves]).fit(Module(), make())
    trainer(max_epochs=1, callbacks=[Bar()]).fit(Module(), make(), ckpt_path=tmp_path / "step=4.ckpt", **TRUSTED)
    assert counts == [STEPS, STEPS]


def test_deepspeed_s_strategy_finds_the_batch_size(make):
    """DeepSpeed itself is not installed."""
    from lightning.pytorch.strategies import DeepSpeedStrategy

    source = types.SimpleNamespace(is_defined=lambda: True, dataloader=make)
    loop = types.SimpleNamespace(_data_source=source)
    strategy = types.SimpleNamespace(lightning_module=types.SimpleNamespace(trainer=types.SimpleNamespace(fit_loop=loop)))
    assert DeepSpeedStrategy._auto_select_batch_size(strategy) == 12


def test_a_loader_of_a_hook_that_is_made_again_gets_the_epoch(make, order, trainer):
    class Hooked(Module):
        def train_dataloader(self):
            return make()

    module = Hooked()
    trainer(max_epochs=3, reload_dataloaders_every_n_epochs=1).fit(module)
    assert module.trained == order[: 3 * STEPS]


def test_a_loader_that_is_made_too_early_names_the_hook(make, monkeypatch):
    """Lightning starts the remaining processes of a job itself, and makes the process group in each."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(ConfigError, match=r"in Lightning in train_dataloader\(\) of the module or data module"):
        make()
    monkeypatch.undo()
    loader = make()
    monkeypatch.setattr("forebay._world._group", lambda: ((0, 2, None, None), "torch.distributed"))
    with pytest.raises(ConfigError, match=r"in Lightning in train_dataloader\(\) of the module or data module, or pass rank"):
        iter(loader)


class Pairs(Module):
    """Records the samples of each step of two loaders."""

    def training_step(self, batch, number):
        self.trained.append([part and part["x"].tolist() for part in (batch["a"], batch["b"])])
        return self.layer(torch.ones(1, 1)).mean()


@pytest.mark.parametrize("sizes", [(12, 28), (28, 12), (12, 84), (12, 12)])
@pytest.mark.parametrize("mode", ["max_size_cycle", "max_size", "min_size"])
def test_several_loaders_resume_within_an_epoch(make, trainer, tmp_path, mode, sizes):
    def fit(resumed=None):
        folder = tmp_path / str(resumed)
        saves = ModelCheckpoint(folder, "{step}", save_top_k=-1, every_n_train_steps=1)
        module, loaders = Pairs(), {name: make(batch_size=size) for name, size in zip("ab", sizes)}
        saved = resumed and tmp_path / str(None) / f"step={resumed}.ckpt"
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "the loaded state")
            trainer(max_epochs=3, callbacks=[saves]).fit(module, CombinedLoader(loaders, mode), ckpt_path=saved, **TRUSTED)
        return module.trained, folder

    whole, _ = fit()
    steps = len(whole) // 3
    assert steps == (min if mode == "min_size" else max)(-(-SAMPLES // size) for size in sizes)
    for step in range(1, 2 * steps + 2):
        trained, folder = fit(step)
        assert trained == whole[step:], f"after step {step}"
        # A checkpoint of the resumed job equals the checkpoint of the undisturbed one.
        for later in range(step + 1, 2 * steps + 2):
            states = [
                torch.load(place / f"step={later}.ckpt", weights_only=False)["loops"]["fit_loop"]["state_dict"]["combined_loader"]
                for place in (tmp_path / str(None), folder)
            ]
            assert states[0] == states[1], f"step {later} after a resume at step {step}"
