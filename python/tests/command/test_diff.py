"""`forebay diff`: the first step with different samples in two runs, and the reasons."""

import json
import shutil

import pytest

import forebay as fb
from forebay.__main__ import main


@pytest.fixture
def data(tmp_path):
    def write(name, count=96):
        with fb.MDSWriter(out=str(tmp_path / name), columns={"x": "int"}, size_limit=1 << 8) as writer:
            for number in range(count):
                writer.write({"x": number})
        return tmp_path / name

    return write


@pytest.fixture
def diff(tmp_path, capfd):
    """Exit code and results for two runs, each the arguments of a loader."""

    def run(*runs, steps=1000):
        files = []
        for number, (remote, arguments) in enumerate(runs):
            files.append(str(tmp_path / f"run{number}.json"))
            arguments = {"batch_size": 8, "framework": "numpy", "shuffle": True, "seed": 3, **arguments}
            with fb.Loader(remote=str(remote), **arguments) as loader:
                loader.save_run(files[-1])
        capfd.readouterr()
        code = main(["diff", "--json", "--steps", str(steps), *files])
        return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    return run


def test_equal_runs_are_equal_whatever_their_machines_are(data, diff):
    folder = data("set")
    code, results = diff((folder, {}), (folder, {"threads": 1, "engine": fb.Engine(prefetch=5)}))
    assert (code, results) == (0, [{"first_step": None}])


def test_a_seed_differs_from_the_first_step_on(data, diff):
    folder = data("set")
    code, results = diff((folder, {}), (folder, {"seed": 4}))
    assert code == 1
    assert results[:-1] == [{"reason": "seed", "name": "seed", "first": 3, "second": 4}]
    assert results[-1]["first_step"] == 0 and "sample" in results[-1]["first"]


def test_different_data_are_named_and_a_copy_elsewhere_is_none(data, diff):
    one, copy, longer = data("one"), data("copy"), data("longer", 128)
    assert diff((one, {}), (copy, {}))[0] == 0
    code, results = diff((one, {"shuffle": False}), (longer, {"shuffle": False}))
    assert code == 1 and "data.index" in [result.get("name") for result in results]
    assert results[-1]["first_step"] == 12, "the second epoch of the shorter one"


def test_arguments_that_change_no_sample_within_the_steps_are_named(data, diff):
    folder = data("set")
    # Both leave out the same: the number of samples is a multiple of the batch.
    code, results = diff((folder, {}), (folder, {"drop_last": True}), steps=30)
    assert code == 1
    assert results == [{"reason": "arguments", "name": "drop_last", "first": False, "second": True}, {"first_step": None}]


def test_data_that_changed_in_place_are_a_reason_though_the_first_run_cannot_be_opened(data, diff, tmp_path, capfd):
    folder = data("set")
    with fb.Loader(remote=str(folder), batch_size=8, framework="numpy") as loader:
        loader.save_run(str(tmp_path / "before.json"))
    shutil.rmtree(folder)
    data("set", 128)
    with fb.Loader(remote=str(folder), batch_size=8, framework="numpy") as loader:
        loader.save_run(str(tmp_path / "after.json"))
    capfd.readouterr()
    assert main(["diff", "--json", str(tmp_path / "before.json"), str(tmp_path / "after.json")]) == 1
    *reasons, step = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert {reason["reason"] for reason in reasons} == {"data"} and step["first_step"] is None and step["unknown"]
    assert "96 samples" in str(reasons) and "128 samples" in str(reasons)


def test_a_different_crop_is_named_by_its_field_and_operation(data, diff, tmp_path, capfd):
    folder = data("set")
    diff((folder, {}), (folder, {}))
    for number, size in enumerate([32, 40]):
        path = tmp_path / f"run{number}.json"
        run = json.loads(path.read_text())
        fields = [["x", {"kind": "image", "ops": [{"op": "random_resized_crop", "size": [size, size]}]}]]
        path.write_text(json.dumps(run | {"config": run["config"] | {"fields": fields}}))
    assert main(["diff", str(tmp_path / "run0.json"), str(tmp_path / "run1.json")]) == 1
    assert "arguments: fields.x.ops.0.random_resized_crop.size is [32, 32] and [40, 40]\n" in capfd.readouterr().out


def test_parts_of_a_stream_are_arguments_and_its_version_of_forebay_is_a_version(data, diff, tmp_path, capfd):
    folder = data("set")
    half = fb.Select(fraction=(0.0, 0.5))
    _, results = diff((folder, {"select": half}), (folder, {"select": fb.Select(fraction=(0.5, 1.0))}))
    assert "arguments" in {result.get("reason") for result in results}
    run = json.loads((tmp_path / "run0.json").read_text())
    (tmp_path / "old.json").write_text(json.dumps(run | {"forebay": "0.0.1"}))
    assert main(["diff", str(tmp_path / "run0.json"), str(tmp_path / "old.json")]) == 1
    assert "version: forebay is '0.1.0' and '0.0.1'" in capfd.readouterr().out.replace(fb.__version__, "0.1.0")


def test_worlds_with_the_same_samples_on_different_ranks_differ(data, diff):
    folder = data("set")
    two = {"batch_size": 4, "world": fb.World(rank=0, world_size=2, local_rank=0, local_world_size=2)}
    order = {"order": fb.Order(num_canonical_nodes=2)}
    code, results = diff((folder, order), (folder, {**two, **order}))
    reasons = {result["reason"] for result in results if "reason" in result}
    assert code == 1 and "world" in reasons and results[-1]["first_step"] == 0


def test_a_file_that_is_no_run_is_an_error(tmp_path, capfd):
    for text, reason in [("{}", "a document with the keys"), ("[1]", "a document of a different kind"), ("x", "it is not JSON")]:
        (tmp_path / "x.json").write_text(text)
        assert main(["diff", str(tmp_path / "x.json"), str(tmp_path / "x.json")]) == 2
        error = capfd.readouterr().err
        assert "is not the file of a run" in error and reason in error
    assert main(["which", str(tmp_path / "none.json"), "--step", "1"]) == 2
    assert "No such file or directory" in capfd.readouterr().err
