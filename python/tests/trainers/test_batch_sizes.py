"""Checkpoints within an epoch that resume with a different batch size: every sample of the epoch is trained on once.

The position is a sample's. A trainer that counts batches needs the new number of its next batch, or refuses.
"""

import itertools
import logging

import pytest

import forebay as fb

lightning = pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
import transformers  # noqa: E402
from accelerate import Accelerator, skip_first_batches  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.utilities import CombinedLoader  # noqa: E402

from forebay.integrations import accelerate  # noqa: E402
from forebay.integrations.torch import DataLoader  # noqa: E402
from forebay.integrations.transformers import Trainer  # noqa: E402

try:
    import composer
except ModuleNotFoundError:
    composer = None  # python/scripts/versions.sh has the remaining libraries alone.

pytestmark = pytest.mark.filterwarnings("ignore")

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

SAMPLES, EPOCHS = 170, 2

SIZES = {8: (16, 12, 8, 7, 500), 16: (8,)}
"""Batch sizes of the job that saves, and of those that resume its checkpoints."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with a data set. Not all its batches are full."""
    folder = tmp_path_factory.mktemp("sizes") / "data"
    with fb.MDSWriter(out=folder, columns={"number": "int"}, size_limit=1 << 9) as writer:
        for number in range(SAMPLES):
            writer.write({"number": number})
    return folder


@pytest.fixture
def make(folder):
    """Function that makes a loader; all of them are closed after the test."""
    loaders = []

    def make(batch_size, **arguments):
        arguments = {
            "shuffle": True,
            "threads": 1,
            "engine": fb.Engine(memory="64mb"),
            "fields": {"x": fb.Scalar("number")},
        } | arguments
        loaders.append(fb.Loader(local=folder, batch_size=batch_size, **arguments))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


def bare(loader, folder, resumed=None):
    """A loop over the loader, which saves after each batch, or resumes after batch `resumed`."""
    return _loop(loader, loader, folder, resumed)


def torch_adapter(loader, folder, resumed=None):
    return _loop(DataLoader(loader), loader, folder, resumed)


def fabric(loader, folder, resumed=None):
    runs = lightning.Fabric(accelerator="cpu", devices=1)
    return _loop(runs.setup_dataloaders(DataLoader(loader)), loader, folder, resumed)


def _loop(batches, loader, folder, resumed):
    if resumed:
        loader.load_state_dict(torch.load(folder / str(resumed)))
    trained = []
    for _ in range(loader.epoch, EPOCHS):
        for batch in batches:
            trained.append(batch["x"].tolist())
            if not resumed:
                torch.save(loader.state_dict(), folder / str(len(trained)))
    return trained


def accelerate_adapter(loader, folder, resumed=None):
    accelerator = Accelerator(cpu=True)
    batches = accelerator.prepare(accelerate.DataLoader(loader))
    if resumed:
        accelerator.load_state(folder / str(resumed))
    trained = []
    for epoch in range(batches.epoch, EPOCHS):
        batches.set_epoch(epoch)
        for batch in batches:
            trained.append(batch["x"].tolist())
            if not resumed:
                accelerator.save_state(folder / str(len(trained)))
    return trained


class Module(lightning.LightningModule):
    """Records the samples of each step."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained, self.numbers, self.validated, self.stepped = [], [], [], []

    def training_step(self, batch, number):
        self.trained.append(batch["x"].tolist())
        self.numbers.append(number)
        return self.layer(batch["x"].float()[:, None]).mean()

    def validation_step(self, batch, number):
        self.validated.append(batch["x"].tolist())

    def on_before_optimizer_step(self, optimizer):
        self.stepped.append(len(self.trained))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def fit(loader, folder, resumed=None, *val, kind=None, **arguments):
    """Lightning's Trainer; the module."""
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": folder}
    saves = [] if resumed else [ModelCheckpoint(folder, "{step}", every_n_train_steps=1, save_top_k=-1)]
    arguments = {"max_epochs": EPOCHS, "callbacks": saves, "enable_checkpointing": not resumed} | arguments
    module = (kind or Module)()
    saved = folder / f"step={resumed}.ckpt" if resumed else None
    lightning.Trainer(accelerator="cpu", **quiet | arguments).fit(module, loader, *val, ckpt_path=saved)
    return module


def lightning_trainer(loader, folder, resumed=None):
    return fit(loader, folder, resumed).trained


def lightning_adapter(loader, folder, resumed=None):
    return fit(DataLoader(loader), folder, resumed).trained


def composer_trainer(loader, folder, resumed=None):
    class Model(composer.ComposerModel):
        """Records the samples of each step."""

        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.trained = []

        def forward(self, batch):
            self.trained.append(batch["x"].tolist())
            return self.layer(batch["x"].float()[:, None])

        def loss(self, outputs, batch):
            return outputs.square().mean()

    model = Model()
    places = {"load_path": str(folder / f"{resumed}.pt")} if resumed else {"save_folder": str(folder), "save_interval": "1ba"}
    arguments = {"device": "cpu", "progress_bar": False, "max_duration": f"{EPOCHS}ep", "save_filename": "{batch}.pt"}
    trainer = composer.Trainer(model=model, train_dataloader=DataLoader(loader), **arguments, **places)
    trainer.fit()
    trainer.close()
    return model.trained


ADAPTERS = [bare, torch_adapter, fabric, accelerate_adapter, lightning_trainer, lightning_adapter] + [composer_trainer] * bool(composer)
LIGHTNING = lightning_trainer, lightning_adapter


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.__name__)
def test_every_sample_is_trained_on_once(make, tmp_path, adapter, drop_last):
    for saved, sizes in SIZES.items():
        folder = tmp_path / str(saved)
        folder.mkdir()
        first = adapter(make(saved, drop_last=drop_last), folder)
        in_epoch = len(first) // EPOCHS
        # Within an epoch, after its last batch, and in the next one.
        for size, step in itertools.product(sizes, (1, in_epoch // 2, in_epoch, in_epoch + in_epoch // 2)):
            with make(size, drop_last=drop_last) as loader:
                trained, case = adapter(loader, folder, step), (saved, size, step)
            is_over = step == in_epoch and adapter in LIGHTNING
            assert trained == after(make, saved, size, step, drop_last, is_over), case
            if not drop_last:
                assert sorted(sum(first[:step] + trained, [])) == sorted(EPOCHS * list(range(SAMPLES))), case


def after(make, saved, size, step, drop_last, is_over):
    """The batches of a loop over the loader that resumes after `step` batches, which may be the end of an epoch."""
    with make(saved, drop_last=drop_last) as first, make(size, drop_last=drop_last) as second:
        batches = (batch for _ in range(EPOCHS) for batch in first)
        for _ in range(step):
            next(batches)
        second.load_state_dict(first.state_dict())
        if is_over:
            # Lightning's epoch has ended, although smaller batches would drop less.
            second.set_epoch(1)
        return [batch["x"].tolist() for _ in range(second.epoch, EPOCHS) for batch in second]


def batches_from(make, size, sample, epoch=0):
    """The batches of the rest of an epoch."""
    with make(size) as loader:
        loader.load_state_dict(loader.state_dict() | {"epoch": epoch, "sample_in_epoch": sample})
        return [batch["x"].tolist() for batch in loader]


@pytest.mark.parametrize(("saved", "size", "step", "rest"), [(8, 16, 4, range(2, 10)), (16, 8, 4, range(8, 10)), (16, 8, 8, ())])
def test_a_limit_of_batches_counts_batches_of_the_new_size(make, tmp_path, saved, size, step, rest):
    fit(make(saved), tmp_path, limit_train_batches=10)
    module = fit(make(size), tmp_path, step, limit_train_batches=10)
    assert module.numbers == [*rest, *range(10)]
    whole = batches_from(make, size, saved * step)[: len(rest)] + batches_from(make, size, 0, 1)[:10]
    assert module.trained == whole


@pytest.mark.parametrize("size", [16, 4])
@pytest.mark.parametrize("arguments", [{}, {"max_epochs": -1, "max_steps": 20}, {"accumulate_grad_batches": 3}])
def test_lightning_s_steps_continue_with_the_number_of_the_batch(make, tmp_path, size, arguments):
    accumulated = arguments.get("accumulate_grad_batches", 1)
    fit(make(8), tmp_path, **arguments)
    module = fit(make(size), tmp_path, 4, **arguments)
    sample, in_epoch = 8 * 4 * accumulated, -(-SAMPLES // size)
    first = sample // size
    numbers = [*range(first, in_epoch), *range(in_epoch)]
    expected = batches_from(make, size, sample) + batches_from(make, size, 0, 1)
    if "max_steps" in arguments:
        numbers, expected = numbers[:16], expected[:16]
    assert (module.numbers, module.trained) == (numbers, expected)
    # Gradients are applied after every `accumulated` batches of an epoch, and after its last one.
    steps = [place for place, number in enumerate(numbers, 1) if (number + 1) % accumulated == 0 or number + 1 == in_epoch]
    assert module.stepped == steps


@pytest.mark.parametrize("size", [16, 4])
@pytest.mark.parametrize("at_validation", [False, True])
def test_validations_within_the_epoch_are_whole(make, tmp_path, size, at_validation):
    def train(loader, resumed=None, **arguments):
        return fit(loader, tmp_path, resumed, make(50, shuffle=False), num_sanity_val_steps=0, val_check_interval=5, **arguments)

    saves = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_epochs=1, save_on_train_epoch_end=False)
    assert len(train(make(8), **({"callbacks": [saves]} if at_validation else {})).validated) == EPOCHS * 4 * 4
    for step in (5, 20, 22 + 5):
        module = train(make(size), step)
        assert module.trained == after(make, 8, size, step, False, False), step
        in_epoch = -(-SAMPLES // size)
        epoch, done = divmod(step, 22)
        numbers = [*range(done * 8 // size, in_epoch), *(EPOCHS - 1 - epoch) * list(range(in_epoch))]
        assert module.numbers == numbers, step
        validations = sum(number % 5 == 4 for number in numbers)
        assert sum(module.validated, []) == validations * list(range(SAMPLES)), step


@pytest.mark.parametrize("mode", ["max_size_cycle", "max_size", "min_size"])
def test_several_loaders_of_lightning_continue_at_their_samples(make, tmp_path, mode):
    class Pairs(Module):
        def training_step(self, batch, number):
            self.trained.append([part and part["x"].tolist() for part in (batch["a"], batch["b"])])
            return self.layer(torch.ones(1, 1)).mean()

    def train(sizes, resumed=None):
        loaders = CombinedLoader({name: make(size) for name, size in zip("ab", sizes)}, mode)
        return fit(loaders, tmp_path, resumed, kind=Pairs).trained

    whole = train((8, 16))
    for sizes, step in itertools.product([(16, 32), (4, 8), (16, 8), (8, 16)], (3, 10)):
        trained = whole[:step] + train(sizes, step)
        of_each = [sum((step[part] or [] for step in trained), [])[:SAMPLES] for part in range(2)]
        # With "min_size" the epoch ends with the loader that ends first.
        wanted = any if mode == "min_size" else all
        assert wanted(sorted(found) == list(range(SAMPLES)) for found in of_each), (sizes, step)


class Layer(torch.nn.Module):
    """Model for Hugging Face's Trainer, which records the samples of each step."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained = []

    def forward(self, x):
        self.trained.append(x.tolist())
        return {"loss": self.layer(x.float()[:, None]).square().mean()}


def hugging_face(loader, folder, resumed=None, **arguments):
    arguments = {"use_cpu": True, "report_to": [], "disable_tqdm": True, "num_train_epochs": EPOCHS} | arguments
    saves = {"save_strategy": "no"} if resumed else {"save_strategy": "steps", "save_steps": 11}
    arguments = transformers.TrainingArguments(output_dir=folder, **saves | arguments)
    model = Layer()
    Trainer(model, arguments, train_dataset=loader).train(resume_from_checkpoint=resumed and str(folder / f"checkpoint-{resumed}"))
    return model.trained


@pytest.mark.parametrize("skip", [None, fb.Skip(errors=1)], ids=["raise", "skip"])
def test_hugging_face_s_trainer_refuses_different_batches(make, tmp_path, skip):
    """It ends the training after a number of steps, and finds the epoch by the number of the step."""

    def train(size, resumed=None, **arguments):
        with make(size, skip=skip) as loader:
            return hugging_face(loader, tmp_path, resumed, **arguments)

    whole = train(8)
    for step in (11, 22, 33):
        assert train(8, step) == whole[step:]
        for size in (16, 4):
            with pytest.raises(fb.ConfigError, match="resume with the global batch size and the gradient_accumulation_steps"):
                train(size, step)
    for step in (11, 33) if skip is None else ():
        with pytest.raises(fb.ConfigError, match="resume with the global batch size and the gradient_accumulation_steps"):
            train(8, step, gradient_accumulation_steps=2)
    # As after half of a whole epoch in batches of 16.
    assert len(train(16, 11, ignore_data_skip=True)) == 11


def test_first_batches_are_skipped_from_the_start_or_from_the_same_position(make):
    """A number of batches of a different size is a different position."""
    for sample, number, found in [(0, 2, 32), (32, 2, 32), (40, 2, 40), (8, 1, None), (64, 8, None), (64, 3, None)]:
        with make(16) as loader:
            loader.load_state_dict(loader.state_dict() | {"sample_in_epoch": sample})
            batches = skip_first_batches(Accelerator(cpu=True).prepare(accelerate.DataLoader(loader)), number)
            if found is None:
                with pytest.raises(fb.ConfigError, match="resume with the global batch size"):
                    next(iter(batches))
            else:
                assert [batch["x"].tolist() for batch in batches] == batches_from(make, 16, found)
