"""Lightning's checkpoints on stores."""

import threading

import pytest

lightning = pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.plugins.io import AsyncCheckpointIO  # noqa: E402

import forebay as fb  # noqa: E402
from forebay import checkpoint  # noqa: E402
from forebay.checkpoint import saving  # noqa: E402
from forebay.integrations.lightning import CheckpointIO  # noqa: E402
from forebay.s3torch.lightning import S3LightningCheckpoint  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Module(lightning.LightningModule):
    """Records the samples of each step."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained = []

    def training_step(self, batch, number):
        self.trained.append(batch["x"].tolist())
        return self.layer(batch["x"].float()[:, None] / 84).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def trainer(run_url, plugin, keep=-1, **arguments):
    saves = ModelCheckpoint(filename="{step}", every_n_train_steps=2, save_top_k=keep, monitor="step", mode="max")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(default_root_dir=run_url, plugins=[plugin], callbacks=[saves], **quiet | arguments)


@pytest.mark.parametrize("wrap", [lambda plugin: plugin, AsyncCheckpointIO], ids=["waiting", "behind"])
def test_a_run_resumes_from_its_newest_checkpoint(run_url, make, order, wrap):
    module = Module()
    trainer(run_url, wrap(CheckpointIO()), max_steps=6).fit(module, make())
    last = checkpoint.latest(run_url)
    assert [each.step for each in checkpoint.steps(run_url)] == [2, 4, 6]
    assert (last.url, last.metadata) == (f"{run_url}/checkpoints/step=6.ckpt", {"epoch": 0})
    resumed = Module()
    trainer(run_url, CheckpointIO(), max_steps=9).fit(resumed, make(), ckpt_path=f"{run_url}/checkpoints/step=4.ckpt")
    assert module.trained + resumed.trained[2:] == order[:9]
    assert resumed.trained[:2] == module.trained[4:]


def test_the_oldest_checkpoints_are_removed(run_url, make):
    trainer(run_url, CheckpointIO(), keep=2, max_steps=6).fit(Module(), make())
    assert [each.step for each in checkpoint.steps(run_url)] == [4, 6]
    left = {file.url.rpartition("/")[0] for file in fb.list_files(f"{run_url}/")}
    assert left == {f"{run_url}/checkpoints/step={step}.ckpt" for step in (4, 6)}


@pytest.fixture
def gate(monkeypatch):
    """Event that every save waits for before its commit. A save of step 13 fails there."""
    gate, run = threading.Event(), saving.Writer.run

    def waiting(self):
        assert gate.wait(600)
        if self.folder.step == 13:
            raise fb.FullError("no room")
        return run(self)

    monkeypatch.setattr(saving.Writer, "run", waiting)
    return gate


def test_a_removal_waits_for_a_newer_checkpoint(run_url, gate):
    plugin = AsyncCheckpointIO(CheckpointIO())
    save = lambda step: plugin.save_checkpoint({"global_step": step, "epoch": 0}, f"{run_url}/{step}")  # noqa: E731
    gate.set()
    save(2)
    plugin.teardown()
    gate.clear()
    save(4)
    save(6)
    plugin.remove_checkpoint(f"{run_url}/2")
    # Its own save has not ended.
    plugin.remove_checkpoint(f"{run_url}/4")
    assert [each.step for each in checkpoint.steps(run_url)] == [2]
    gate.set()
    plugin.teardown()
    assert [each.step for each in checkpoint.steps(run_url)] == [6]
    gate.clear()
    save(13)
    plugin.remove_checkpoint(f"{run_url}/6")
    gate.set()
    with pytest.raises(fb.FullError):
        plugin.teardown()
    assert [each.step for each in checkpoint.steps(run_url)] == [6]


def test_a_removal_after_a_resume_waits_only_for_the_newest(run_url, gate):
    gate.set()
    for step in (1, 2):
        CheckpointIO().save_checkpoint({"global_step": step, "epoch": 0}, f"{run_url}/{step}")
    plugin = CheckpointIO()
    for step in (1, 2):
        plugin.remove_checkpoint(f"{run_url}/{step}")
    assert [each.step for each in checkpoint.steps(run_url)] == [2]
    plugin.save_checkpoint({"global_step": 3, "epoch": 0}, f"{run_url}/3")
    assert [each.step for each in checkpoint.steps(run_url)] == [3]


def test_a_checkpoint_that_was_not_finished_is_refused(run_url, make):
    trainer(run_url, CheckpointIO(), max_steps=2).fit(Module(), make())
    url = checkpoint.latest(run_url).url
    fb.remove_files([f"{url}/commit.json"])
    with pytest.raises(fb.NotFoundError, match="is not a checkpoint"):
        trainer(run_url, CheckpointIO(), max_steps=4).fit(Module(), make(), ckpt_path=url)


def test_a_file_takes_the_names_of_s3torchconnector(bucket, bucket_environment, make, order):
    run_url = "s3://bucket/objects"
    trainer(run_url, CheckpointIO(), max_steps=0)  # It makes fsspec list the bucket.
    plugin = S3LightningCheckpoint("us-east-1", endpoint=bucket.endpoint)
    trainer(run_url, plugin, max_steps=4).fit(Module(), make())
    assert sorted(file.url for file in fb.list_files(f"{run_url}/")) == [f"{run_url}/checkpoints/step={n}.ckpt" for n in (2, 4)]
    resumed = Module()
    trainer(run_url, plugin, max_steps=6).fit(resumed, make(), ckpt_path=f"{run_url}/checkpoints/step=2.ckpt")
    assert resumed.trained == order[2:6]
    with pytest.raises(TypeError):
        plugin.remove_checkpoint(run_url.encode())
