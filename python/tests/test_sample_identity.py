"""Samples by their identity: in batches, by the number of a step, replayed, and left out."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import SAMPLES, jpeg

import forebay as fb
from forebay.__main__ import main
from forebay._samples import in_any_folder

torch = pytest.importorskip("torch")

MIXED = {"shuffle": True, "order": fb.Order(num_canonical_nodes=2), "seed": 11}
CROPS = {**NUMBER, "x": fb.Image("image", fb.RandomResizedCrop(16), fb.RandomHorizontalFlip())}


def starts(folder):
    """First number of each shard."""
    with open(f"{folder}/index.json") as file:
        sizes = [shard["samples"] for shard in json.load(file)["shards"]]
    return np.cumsum([0, *sizes])


@pytest.mark.parametrize(
    "arguments", [{}, MIXED, {**MIXED, "select": fb.Select(subset="5:150")}], ids=["stored", "shuffled", "subset"]
)
def test_every_row_has_its_stream_shard_and_index(pictures, arguments):
    first = starts(pictures)
    assert len(first) > 4
    with ordered(pictures, extra=["sample_ids"], **arguments) as loader:
        for batch in loader:
            ids = batch["sample_ids"]
            assert ids.dtype == torch.int64 and tuple(ids.shape) == (len(batch["number"]), 3)
            stream, shard, index = ids.T.numpy()
            assert not stream.any()
            assert (first[shard] + index).tolist() == batch["number"].tolist()


def test_ids_name_the_stream_and_come_with_any_framework_and_with_repeats(pictures):
    streams = [fb.Stream(local=pictures, choose=30), fb.Stream(local=pictures, select=fb.Select(subset="0:7"))]
    options = {"extra": ["sample_ids", "repeat"], "framework": "numpy", "batch_size": 4}
    batches = []
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        with fb.Loader(streams=streams, fields=NUMBER, **options, world=world, **MIXED) as loader:
            batches += list(loader)
    first = starts(pictures)
    ids, found, repeats = (np.concatenate([b[name] for b in batches]) for name in ("sample_ids", "number", "repeat"))
    assert set(ids[:, 0]) == {0, 1} and ids.dtype == np.int64 and repeats.dtype == bool and repeats.sum() == 1
    assert (first[ids[:, 1]] + ids[:, 2] == found).all()
    assert (found[ids[:, 0] == 1] < 7).all()


def test_skipped_samples_have_no_id(tmp_path):
    columns = {"image": "jpeg", "number": "int"}
    with fb.MDSWriter(out=tmp_path / "set", columns=columns) as writer:
        for number in range(32):
            writer.write({"image": b"\xff\xd8" if number % 5 == 2 else jpeg(number), "number": number})
    fields = {"n": fb.Scalar("number"), "x": fb.Image("image", fb.Resize((8, 8)))}
    options = {"extra": ["sample_ids"], "skip": fb.Skip(errors=32), "batch_size": 8, "fields": fields}
    with fb.Loader(local=tmp_path / "set", **options) as loader:
        for batch in loader:
            assert batch["sample_ids"][:, 2].tolist() == batch["n"].tolist()
            assert all(number % 5 != 2 for number in batch["n"].tolist())


def test_a_field_of_that_name_is_rejected(pictures):
    with pytest.raises(fb.ConfigError, match="`extra` adds an output called `sample_ids`: rename the field"):
        fb.Loader(local=pictures, batch_size=4, extra=["sample_ids"], fields={"sample_ids": fb.Scalar("number")})


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_is_named_without_reading_it(pictures, tmp_path, ranks):
    loaders = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        loaders.append(
            ordered(pictures, extra=["sample_ids"], select=fb.Select(subset="3:180"), batch_size=16 // ranks, world=world, **MIXED)
        )
    for rank, loader in enumerate(loaders):
        for epoch in range(2):
            for batch, outputs in enumerate(loader):
                samples = loader.samples_of(epoch * len(loader) + batch)
                assert samples == loader.samples_of(batch, epoch=epoch)
                assert [sample.number for sample in samples] == outputs["number"].tolist()
                assert [[s.stream, s.shard, s.index] for s in samples] == outputs["sample_ids"].tolist()
                assert {sample.rank for sample in samples} == {rank}
    last = loaders[0].samples_of(len(loaders[0]) - 1)
    assert last[0].file.endswith(".mds") and [sample.row for sample in last] == list(range(len(last)))
    with pytest.raises(fb.ConfigError, match="there is no such batch"):
        loaders[0].samples_of(len(loaders[0]), epoch=0)
    for loader in loaders:
        loader.close()


def test_the_file_of_a_run_names_the_samples_of_all_ranks(pictures, tmp_path, capfd):
    run = tmp_path / "run.json"
    delivered = []
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        with ordered(pictures, batch_size=8, world=world, **MIXED) as loader:
            if rank == 1:
                loader.save_run(run)
            delivered.append([numbers(loader) for _ in range(2)])
            steps = len(loader)
    for epoch, batch in ((0, 0), (0, 5), (1, steps - 1)):
        assert main(["which", str(run), "--step", str(epoch * steps + batch), "--json"]) == 0
        samples = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        for rank in range(2):
            found = [sample["number"] for sample in samples if sample["rank"] == rank]
            assert found == delivered[rank][epoch][batch]
    assert main(["which", str(run), "--step", "3", "--epoch", "1", "--rank", "1"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == f"step {steps + 3}: batch 3 of epoch 1, 8 samples"
    assert lines[1].startswith("rank 1 row 0: shard.") and f"number {delivered[1][1][3][0]})" in lines[1]
    alone = subprocess.run(
        [sys.executable, "-m", "forebay", "which", str(run), "--step", "0"], capture_output=True, text=True, timeout=600
    )
    assert alone.returncode == 0 and alone.stdout.startswith("step 0: batch 0 of epoch 0, 16 samples")


def test_the_paths_of_a_run_do_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for remote, whole in [
        ("train", f"{tmp_path}/train"),
        ("./a.tar::b.tar", f"{tmp_path}/a.tar::{tmp_path}/b.tar"),
        ("http://[::1]:9000/train", "http://[::1]:9000/train"),
        ("s3://b/a::b/train", "s3://b/a::b/train"),
        ("/data/run::1/train", "/data/run::1/train"),
    ]:
        config = in_any_folder({"streams": [{"remote": remote, "local": "run::1"}], "engine": {"ca_file": "/c::a"}})
        assert config == {"streams": [{"remote": whole, "local": f"{tmp_path}/run::1"}], "engine": {"ca_file": "/c::a"}}


def test_each_stream_of_a_run_has_its_own_address(pictures, tmp_path, capfd):
    run, places = tmp_path / "run.json", [tmp_path / "a", tmp_path / "b"]
    for place in places:
        shutil.copytree(pictures, place)
    streams = [fb.Stream(remote=str(place), local=str(tmp_path / f"local-{place.name}")) for place in places]
    with fb.Loader(streams=streams, batch_size=8, fields={"n": fb.Scalar("number")}) as loader:
        loader.save_run(run)
    assert main(["which", str(run), "--step", "3", "--json"]) == 0
    expected = capfd.readouterr().out
    moved = [str(place.rename(tmp_path / f"moved-{place.name}")) for place in places]
    assert main(["which", str(run), "--step", "3", "--remote", moved[0]]) == 2
    assert "the run has 2 streams, and there are 1 addresses: write --remote once for each stream" in capfd.readouterr().err
    assert main(["which", str(run), "--step", "3", "--json", "--remote", moved[0], "--remote", moved[1]]) == 0
    assert capfd.readouterr().out == expected


def test_a_run_of_different_data_or_a_foreign_file_is_an_error(pictures, tmp_path, capfd):
    run = tmp_path / "run.json"
    with ordered(pictures, batch_size=8, select=fb.Select(subset="0:50")) as loader:
        loader.save_run(run)
    document = json.loads(run.read_text())
    document["config"]["streams"][0]["select"]["subset"] = "50:100"
    run.write_text(json.dumps(document))
    assert main(["which", str(run), "--step", "0"]) == 2
    assert "selection was subset" in capfd.readouterr().err
    flat = '{"config": {"streams": [], "world": {"world_size": 1}, "ca_file": null}, "state": {}}'
    for text in ("", "[]", "{}", '{"config": {"streams": [3], "world": {}}, "state": {}}', flat, "\0"):
        run.write_text(text)
        assert main(["which", str(run), "--step", "0"]) == 2
        assert "is not the file of a run" in capfd.readouterr().err
    assert main(["which", str(tmp_path / "absent.json"), "--step", "0"]) == 2


def test_the_file_of_a_run_has_no_secrets(pictures, tmp_path):
    from forebay._samples import save_run

    config = {"streams": [{"remote": "https://me:secret@host/set?token=hidden"}], "world": {"world_size": 1, "rank": 0}}
    save_run(tmp_path / "run.json", config, {}, {})
    text = (tmp_path / "run.json").read_text()
    assert "secret" not in text and "hidden" not in text and "host/set" in text


def test_a_step_is_replayed_with_its_crops_while_the_loader_continues(pictures):
    options = {"fields": CROPS, "batch_size": 16, "local": pictures, **MIXED}
    with fb.Loader(**options) as loader:
        first, second = [list(loader) for _ in range(2)]
        running = iter(loader)
        taken = [next(running)["number"].tolist()]
        for epoch, batches in enumerate((first, second)):
            for batch in (0, 7, len(batches) - 1):
                again = loader.replay(epoch * len(loader) + batch)
                assert again.keys() == batches[batch].keys()
                assert all(torch.equal(again[name], batches[batch][name]) for name in again)
        taken += [batch["number"].tolist() for batch in running]
    with fb.Loader(**options) as loader:
        loader.set_epoch(2)
        assert taken == numbers(loader)


def test_steps_are_left_out_on_all_ranks_and_checkpoints_keep_them(pictures):
    def leaving_out(steps):
        return {**MIXED, "order": fb.Order(num_canonical_nodes=2, skip_steps=steps)}

    def epochs(count=1, state=None, ranks=2, rank=0, skip_steps=None):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with ordered(pictures, batch_size=16 // ranks, world=world, **leaving_out(skip_steps)) as loader:
            if state is not None:
                loader.load_state_dict(state)
            return [numbers(loader) for _ in range(count)], loader.state_dict()

    for rank in range(2):
        whole, _ = epochs(2, rank=rank)
        steps = len(whole[0])
        poisoned = [0, 4, 5, steps - 1, steps + 2]
        found, state = epochs(2, rank=rank, skip_steps=poisoned)
        assert found[0] == [batch for number, batch in enumerate(whole[0]) if number not in (0, 4, 5, steps - 1)]
        assert found[1] == [batch for number, batch in enumerate(whole[1]) if number != 2]
        assert state["forebay"]["skipped"] == {"steps": poisoned, "rows": 16}

    # A checkpoint within the epoch, on one rank, without the argument.
    with ordered(pictures, batch_size=16, **leaving_out([2, 3, 6])) as loader:
        batches = iter(loader)
        taken = [next(batches)["number"].tolist() for _ in range(3)]
        state = json.loads(json.dumps(loader.state_dict()))
        # The two steps before the third batch count.
        assert state["sample_in_epoch"] == 5 * 16
    plain = epochs(1, ranks=1)[0][0]
    assert taken == [plain[0], plain[1], plain[4]]
    (rest,), again = epochs(1, state=state, ranks=1)
    assert rest == [plain[5], *plain[7:]]
    assert again["forebay"]["skipped"]["steps"] == [2, 3, 6]
    # With a different size of steps, the numbers mean different samples.
    with ordered(pictures, batch_size=8, **MIXED) as loader:
        with pytest.raises(fb.StateError, match="leaves out steps of 16 samples by skip_steps, and a step has 8 here"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)


def test_a_step_that_is_left_out_is_neither_fetched_nor_decoded_and_can_be_replayed(pictures, tmp_path):
    with ordered(pictures, batch_size=20, order=fb.Order(skip_steps=range(1, 10))) as loader:
        assert numbers(loader) == [list(range(20))]
        assert loader.stats()["counters"]["steps_left_out"] == 9
        assert loader.stats()["stages"]["decode"]["items"] == 20
        assert loader.replay(4)["number"].tolist() == list(range(80, 100))
        assert len(loader) == SAMPLES // 20
    with ordered(pictures, batch_size=20, order=fb.Order(skip_steps=range(10))) as loader:
        assert numbers(loader) == [] and len(numbers(loader)) == 10
    for wrong in ([-1], ["x"], 5):
        with pytest.raises(fb.ConfigError, match="skip_steps"):
            ordered(pictures, order=fb.Order(skip_steps=wrong))
