"""Composer's checkpoints on stores."""

import os

import pytest
from bucket_server import bucket_server
from jobs import EPOCHS, SAMPLES, SAVED, STEPS, check, run

composer = pytest.importorskip("composer", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
from composer.core import State  # noqa: E402
from composer.utils import ObjectStoreTransientError  # noqa: E402

import forebay as fb  # noqa: E402
from forebay import checkpoint  # noqa: E402
from forebay.integrations.composer import CheckpointSaver, ObjectStore  # noqa: E402
from forebay.integrations.torch import DataLoader  # noqa: E402
from forebay.streaming import StreamingDataLoader, StreamingDataset  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Model(composer.ComposerModel):
    """Records the samples of each step."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.trained = []

    def forward(self, batch):
        self.trained.append(batch["x"].tolist())
        return self.layer(batch["x"].float()[:, None] / 84)

    def loss(self, outputs, batch):
        return outputs.square().mean()


@pytest.fixture
def fit(make):
    """Function that trains, and returns the model."""

    def fit(duration, *saves, train=None, **arguments):
        model = Model()
        quiet = {"device": "cpu", "progress_bar": False, "run_name": "run"}
        trainer = composer.Trainer(
            model=model,
            train_dataloader=DataLoader(make()) if train is None else train,
            max_duration=duration,
            callbacks=saves,
            **quiet | arguments,
        )
        try:
            trainer.fit()
        finally:
            trainer.close()
        return model

    return fit


def test_a_job_that_was_killed_resumes_from_a_store(bucket_environment, tmp_path, monkeypatch):
    url = f"s3://bucket/{os.path.basename(tmp_path)}"
    monkeypatch.setenv("SAVES", url)
    check(run("composer_store_job.py", tmp_path))
    assert [each.step for each in checkpoint.steps(f"{url}/run")] == [*range(SAVED, EPOCHS * STEPS, SAVED), EPOCHS * STEPS]


@pytest.mark.parametrize("wait", [True, False], ids=["waiting", "behind"])
def test_a_run_resumes_from_its_newest_checkpoint(run_url, fit, order, wait):
    folder = f"{run_url}/{{run_name}}"
    first = fit("6ba", CheckpointSaver(folder, save_interval="4ba", wait=wait), autoresume=True)
    assert first.trained == order[:6]
    # Composer saves at the end of training as well.
    assert [each.step for each in checkpoint.steps(run_url)] == [4, 6]
    last = checkpoint.latest(run_url)
    assert (last.url, last.metadata) == (f"{run_url}/run/ep0-ba6", {"run_name": "run", "epoch": 0})
    resumed = fit("9ba", CheckpointSaver(folder, save_interval="4ba", wait=wait), autoresume=True)
    assert resumed.trained == order[6:9]
    assert [each.step for each in checkpoint.steps(run_url)] == [4, 6, 8, 9]


def test_a_commit_has_the_state_of_the_loader(run_url, fit, make, order):
    fit("4ba", CheckpointSaver(run_url, save_interval="4ba"))
    loader = make()
    loader.load_state_dict(checkpoint.latest(run_url).data)
    assert next(iter(loader))["x"].tolist() == order[4]


@pytest.mark.parametrize("name", ["run/ep0-ba4", "run/latest"])
def test_a_path_is_loaded_from_a_store(run_url, fit, order, name):
    fit("4ba", CheckpointSaver(f"{run_url}/run", save_interval="4ba"))
    # Composer removes the scheme and the bucket.
    base, prefix = ("s3://bucket", run_url) if run_url.startswith("s3:") else (run_url, "")
    resumed = fit("6ba", load_path=f"{prefix}/{name}", load_object_store=ObjectStore(base))
    assert resumed.trained == order[4:6]


def test_the_checkpoint_before_one_that_was_not_finished_is_resumed(run_url, fit, order):
    fit("6ba", CheckpointSaver(run_url, save_interval="2ba"))
    fb.remove_files([f"{checkpoint.latest(run_url).url}/commit.json"])
    with pytest.raises(fb.NotFoundError, match="is not a checkpoint"):
        ObjectStore(run_url).get_object_size("ep0-ba6")
    resumed = fit("6ba", CheckpointSaver(run_url, save_interval="2ba"), autoresume=True)
    assert resumed.trained == order[4:6]
    assert [each.step for each in checkpoint.steps(run_url)] == [2, 4, 6]


def test_damage_is_an_error_before_anything_is_loaded(run_url, fit, tmp_path):
    fit("2ba", CheckpointSaver(run_url, save_interval="2ba"))
    (name,) = checkpoint.latest(run_url).parts
    url = f"{run_url}/ep0-ba2/{name}"
    with fb.open(url) as file:
        content = bytearray(file.read())
    content[len(content) // 2] ^= 1
    with fb.open(url, "wb") as file:
        file.write(content)
    with pytest.raises(fb.ChecksumError):
        fit("4ba", CheckpointSaver(run_url), autoresume=True)
    with pytest.raises(fb.ChecksumError):
        ObjectStore(run_url).download_object("latest", tmp_path / "copy.pt")
    assert not list(tmp_path.glob("copy*"))


def test_the_oldest_checkpoints_are_removed(run_url, fit):
    fit("6ba", CheckpointSaver(run_url, save_interval="2ba", keep=2))
    assert [each.step for each in checkpoint.steps(run_url)] == [4, 6]
    assert {file.url.rpartition("/")[0] for file in fb.list_files(f"{run_url}/")} == {f"{run_url}/ep0-ba{step}" for step in (4, 6)}


def test_a_run_after_the_last_checkpoint_fails_at_its_start(run_url, fit, order):
    fit("4ba", CheckpointSaver(run_url, save_interval="4ba"))
    with pytest.raises(fb.ConfigError, match="ep0-ba4 is ahead of this run, which starts after batch 0"):
        fit("6ba", CheckpointSaver(run_url, save_interval="4ba"))
    again = fit("4ba", CheckpointSaver(run_url, save_interval="2ba", overwrite=True))
    assert again.trained == order[:4]
    assert [each.step for each in checkpoint.steps(run_url)] == [2, 4]


def test_weights_alone_and_keys_that_are_left_out(run_url, fit):
    trained = fit("2ba", CheckpointSaver(f"{run_url}/weights", weights_only=True), CheckpointSaver(run_url, ignore_keys=["rng"]))
    weights = checkpoint.latest(f"{run_url}/weights").load(weights_only=False)
    assert set(weights) == {"state"} and set(weights["state"]) == {"model", "integrations", "metadata"}
    assert "rng" not in checkpoint.Checkpoint.open(f"{run_url}/ep0-ba2").load(weights_only=False)
    loaded, load = Model(), {"load_path": "weights/ep0-ba2", "load_weights_only": True}
    composer.Trainer(model=loaded, device="cpu", load_object_store=ObjectStore(run_url), **load).close()
    assert torch.equal(loaded.layer.weight, trained.layer.weight)


def test_the_copy_that_a_run_resumes_from_is_removed(run_url, fit):
    fit("2ba", CheckpointSaver(run_url))
    saves = CheckpointSaver(run_url)
    fit("4ba", saves, autoresume=True)
    assert os.listdir(saves.folder) == []


def test_a_folder_that_cannot_be_written_fails_before_the_first_step(fit, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(fb.Error):
        fit("2ba", CheckpointSaver(tmp_path / "file" / "run"))


def test_shards_of_fsdp_are_refused(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(State, "fsdp_sharded_state_dict_enabled", property(lambda state: True))
    with pytest.raises(fb.ConfigError, match='set state_dict_type="full"'):
        fit("2ba", CheckpointSaver(tmp_path / "run"))


def test_files_as_they_are(run_url, tmp_path):
    store, source, copy = ObjectStore(run_url), tmp_path / "source", tmp_path / "new" / "copy"
    source.write_bytes(bytes(range(256)) * 40000)
    calls = []
    store.upload_object("a/file", source, lambda done, size: calls.append((done, size)))
    size = source.stat().st_size
    assert calls == [(0, size), (8 << 20, size), (size, size)]
    assert (store.get_uri("a/file"), store.get_object_size("a/file")) == (f"{run_url}/a/file", size)
    store.download_object("a/file", copy)
    assert copy.read_bytes() == source.read_bytes()
    with pytest.raises(FileExistsError):
        store.download_object("a/file", copy)
    store.upload_object("a/file", __file__)
    store.download_object("a/file", copy, overwrite=True)
    assert copy.read_text() == open(__file__).read()
    store.upload_object("b", __file__)
    assert (store.list_objects(), store.list_objects("a/"), store.list_objects("c")) == (["a/file", "b"], ["a/file"], [])
    for name in ("a", "a/none", "none", "a/latest"):
        with pytest.raises(FileNotFoundError):
            store.get_object_size(name)
        with pytest.raises(FileNotFoundError):
            store.download_object(name, tmp_path / "none")
    assert sorted(os.listdir(tmp_path / "new")) == ["copy"]
    with pytest.raises(fb.ConfigError, match="ExtraArgs"):
        store.upload_object("b", __file__, ExtraArgs={})


def test_a_server_that_is_gone_is_an_error_to_try_again(bucket_environment, monkeypatch):
    with bucket_server() as server:
        endpoint = server.endpoint
    store = ObjectStore("s3://bucket", fb.StoreOptions(endpoint=endpoint, retry=1))
    with pytest.raises(ObjectStoreTransientError):
        store.get_object_size("file")


def numbers_of(rows):
    return {"x": torch.tensor([row["number"] for row in rows])}


def test_a_data_set_of_the_drop_in_resumes(run_url, fit, data, tmp_path):
    def resume(name, duration):
        dataset = StreamingDataset(remote=str(data / "data"), local=str(tmp_path / name), batch_size=12, shuffle=True)
        train = StreamingDataLoader(dataset, batch_size=12, collate_fn=numbers_of)
        return fit(duration, CheckpointSaver(run_url, save_interval="4ba"), train=train, autoresume=True).trained

    first = resume("first", "6ba")
    assert checkpoint.latest(run_url).data["sample_in_epoch"] == 72
    assert sorted(sum(first + resume("second", "7ba"), [])) == list(range(SAMPLES))


class Numbers(torch.utils.data.Dataset):
    """Data set with a state that is no JSON."""

    def __len__(self):
        return 4

    def __getitem__(self, number):
        return {"x": torch.tensor(number)}

    def state_dict(self, *_):
        return {0: torch.zeros(2)}


def test_a_loader_of_a_foreign_library_is_saved_without_a_state_in_the_commit(run_url, fit):
    fit("1ep", CheckpointSaver(run_url), train=torch.utils.data.DataLoader(Numbers(), 2))
    last = checkpoint.latest(run_url)
    assert last.data is None
    assert set(last.load(weights_only=False)["state"]["dataset_state"]["train"]) == {0}
