"""Composer's Trainer with a loader, in one process."""

import pytest
from jobs import SAMPLES, STEPS

composer = pytest.importorskip("composer", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402

import forebay as fb  # noqa: E402
from forebay.integrations.torch import DataLoader  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(composer.ComposerModel):
    """Records the samples of each step of training and of evaluation."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained, self.evaluated = [], []

    def forward(self, batch):
        self.trained.append(batch["x"].tolist())
        return self.layer(batch["x"].float()[:, None])

    def eval_forward(self, batch, outputs=None):
        self.evaluated += batch["x"].tolist()
        return batch["x"]

    def loss(self, outputs, batch):
        return outputs.square().mean()


def fit(train, duration, **arguments):
    model = Model()
    trainer = composer.Trainer(model=model, train_dataloader=train, max_duration=duration, device="cpu", progress_bar=False, **arguments)
    trainer.fit()
    trainer.close()
    return model


def test_epochs_and_evaluation(make, order):
    model = fit(DataLoader(make()), "2ep", eval_dataloader=DataLoader(make(shuffle=False)), eval_interval="1ep")
    assert model.trained == order[: 2 * STEPS]
    assert model.evaluated == 2 * list(range(SAMPLES))


def test_batches_end_the_training_and_microbatches_split_one(make, order):
    model = fit(DataLoader(make()), "9ba", device_train_microbatch_size=6)
    assert [first + second for first, second in zip(model.trained[::2], model.trained[1::2])] == order[:9]


@pytest.mark.parametrize("step", [4, STEPS, STEPS + 2])
@pytest.mark.parametrize("unit", ["ba", "ep"])
def test_a_checkpoint_resumes_with_the_next_batch(make, order, tmp_path, step, unit):
    interval = f"{step}ba" if unit == "ba" else "1ep"
    saves = {"save_folder": str(tmp_path), "save_filename": "{batch}.pt", "save_interval": interval}
    fit(DataLoader(make()), "2ep", **saves)
    saved = step if unit == "ba" else STEPS
    model = fit(DataLoader(make()), "2ep", load_path=str(tmp_path / f"{saved}.pt"))
    assert model.trained == order[saved : 2 * STEPS]


def test_a_bare_loader_is_replayed_up_to_the_batch_of_a_checkpoint(make, order, tmp_path):
    """Composer saves the state of a torch DataLoader's data set alone. Without it, it takes the batches again."""
    fit(make(), "2ep", save_folder=str(tmp_path), save_filename="{batch}.pt", save_interval=f"{STEPS + 2}ba")
    model = fit(make(), "2ep", load_path=str(tmp_path / f"{STEPS + 2}.pt"))
    assert model.trained == order[STEPS + 2 : 2 * STEPS]


@pytest.mark.parametrize("step", [2, 4, 6, 8])
@pytest.mark.parametrize("bare", [False, True])
def test_a_limit_of_batches_in_each_epoch_holds_after_a_resume(make, order, tmp_path, bare, step):
    """Composer counts a limit from where a data set with a state resumes, so the loader has to have the limit."""
    limit = {"train_subset_num_batches": 4} if bare else {}

    def train():
        return make() if bare else DataLoader(make(order=fb.Order(epoch_size=4 * 12)))

    saves = {"save_folder": str(tmp_path), "save_filename": "{batch}.pt", "save_interval": f"{step}ba"}
    whole = fit(train(), "3ep", **limit, **saves).trained
    if bare:
        assert whole == [batch for epoch in range(3) for batch in order[epoch * STEPS :][:4]]
    assert len(whole) == 12
    assert fit(train(), "3ep", load_path=str(tmp_path / f"{step}.pt"), **limit).trained == whole[step:]
