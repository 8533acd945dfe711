"""Maps in processes: the same results, objects that cannot be pickled, processes that die, and no process after the end."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from loaders import NUMBER
from map_functions import (
    LocalError,
    NeverLoads,
    conjugates,
    dies_once,
    draws,
    fails_for_fives,
    kills_itself,
    never_returns,
    raises_an_error_that_cannot_be_pickled,
    returns_a_value_that_cannot_be_loaded,
    returns_a_value_that_cannot_be_pickled,
    torch_rows,
    with_picture,
)
from map_loops import PICTURE, SHUFFLED, STORED, assert_equal, in_a_loop, mapped

import forebay as fb


@pytest.mark.parametrize("workers", [1, 2])
def test_results_equal_a_plain_loop_in_order(pictures, workers):
    with mapped(pictures, workers=workers, kind="processes") as loader:
        assert_equal(list(loader), in_a_loop(pictures))
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
    with mapped(pictures, workers=1, kind="processes") as loader:
        loader.load_state_dict(state)
        assert_equal(list(loader), in_a_loop(pictures, epochs=2)[14:])


def test_pictures_go_there_and_back(pictures):
    fields = {**PICTURE, "large": fb.Image("image", fb.Resize((200, 200)), dtype="float32"), "name": fb.Text("name")}
    with mapped(pictures, with_picture, workers=1, kind="processes", fields=fields) as loader:
        assert_equal(list(loader), in_a_loop(pictures, with_picture, fields=fields))


def test_tensors_go_there_and_back(pictures):
    torch = pytest.importorskip("torch")
    fields = {**NUMBER, "x": fb.Image("image", fb.Resize((20, 20)), dtype="bfloat16")}
    options = {"fields": fields, "batch_size": 64, "framework": "torch"}
    with mapped(pictures, torch_rows, workers=1, kind="processes", **options) as loader, mapped(pictures, torch_rows, **options) as threads:
        for batch, expected in zip(loader, threads):
            assert batch["half"].dtype == torch.bfloat16 and list(batch) == list(expected)
            assert all(torch.equal(batch[name], expected[name]) for name in batch)


def test_an_error_of_a_process_has_its_traceback_and_samples_are_left_out(pictures):
    with mapped(pictures, fails_for_fives, workers=1, kind="processes", **STORED) as loader:
        with pytest.raises(fb.MapError, match="fails_for_fives failed for a sample: ValueError: the number 3 is bad") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, ValueError)
        assert "map_functions.py" in str(caught.value.__cause__.__cause__)
        assert caught.value.context["sample in shard"] == "3"
    with mapped(pictures, fails_for_fives, workers=1, kind="processes", skip=fb.Skip(errors=40)) as loader:
        found = [int(number) for batch in loader for number in batch["number"]]
        assert sorted(found) == [number for number in range(200) if number % 5 != 3]


@pytest.mark.parametrize(
    "function, message",
    [
        (raises_an_error_that_cannot_be_pickled, "LocalError: this and that"),
        (returns_a_value_that_cannot_be_pickled, "its output lock cannot be sent from a process, because it cannot be pickled"),
    ],
)
def test_an_object_that_cannot_be_pickled_is_an_error_of_the_sample(pictures, function, message):
    with mapped(pictures, function, workers=1, kind="processes", **STORED) as loader:
        with pytest.raises(fb.MapError, match=message) as caught:
            list(loader)
        assert not isinstance(caught.value.__cause__, LocalError)
        assert caught.value.context["row"] == "0"


def test_a_result_that_this_process_cannot_load_is_an_error_of_the_sample(pictures):
    options = {"workers": 1, "kind": "processes", **STORED}
    with mapped(pictures, returns_a_value_that_cannot_be_loaded, **options) as loader:
        with pytest.raises(fb.MapError, match="its result cannot be loaded from a process: OSError: not in this process") as caught:
            list(loader)
        assert caught.value.context["sample in shard"] == "5"
    with mapped(pictures, returns_a_value_that_cannot_be_loaded, skip=fb.Skip(errors=1), **options) as loader:
        assert [n for batch in loader for n in batch["number"].tolist()] == [n for n in range(200) if n != 5]
        assert len(loader._maker.mapper.workers._callers) == 1, "the process is still there"


def test_tensors_that_torch_changes_when_they_are_read(pictures):
    torch = pytest.importorskip("torch")
    with mapped(pictures, conjugates, workers=1, kind="processes", framework="torch", batch_size=4, **STORED) as loader:
        batch = next(iter(loader))
    assert torch.equal(batch["value"][3], torch.full((300,), 3 - 2j)) and (batch["negative"] == -2).all()


def test_a_function_that_cannot_be_pickled_needs_cloudpickle(pictures, monkeypatch):
    pytest.importorskip("cloudpickle")
    local = 7

    def function(sample, rng):
        return {"number": sample["number"] + local}

    with mapped(pictures, function, workers=1, kind="processes", **STORED) as loader:
        assert next(iter(loader))["number"].tolist() == list(range(7, 23))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(fb.ConfigError, match="function to its processes, but it cannot be pickled .*: define it at the top of a module, install"):
        mapped(pictures, function, kind="processes")


def test_a_function_that_a_process_cannot_load_is_a_config_error(pictures, monkeypatch):
    class Elsewhere:
        def __reduce__(self):
            return (__import__, ("no_such_module_of_forebay",))

        def __call__(self, sample, rng):
            return sample

    with mapped(pictures, Elsewhere(), workers=1, kind="processes") as loader:
        with pytest.raises(fb.ConfigError, match="a process cannot load .*no_such_module_of_forebay"):
            list(loader)


def test_a_process_that_is_killed_is_an_error_and_does_not_hang(pictures):
    with mapped(pictures, kills_itself, workers=2, kind="processes", **STORED) as loader:
        batches = iter(loader)
        assert next(batches)["number"].tolist() == list(range(16))
        state = loader.state_dict()
        for _ in range(2):
            with pytest.raises(fb.MapError, match="a process that ran kills_itself was killed by SIGKILL"):
                next(batches)
            assert loader.state_dict() == state


def test_a_new_process_replaces_one_that_died(pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_TEST_MARK", str(tmp_path / "mark"))
    with mapped(pictures, dies_once, workers=1, kind="processes", **STORED) as loader:
        batches = iter(loader)
        found = [next(batches)["number"]]
        with pytest.raises(fb.MapError, match="has ended with exit code 3"):
            next(batches)
        found += [batch["number"] for batch in batches]
    assert np.concatenate(found).tolist() == list(range(200))


def processes_of(mark):
    return [int(path.suffix[1:]) for path in pathlib.Path(mark).parent.glob(f"{pathlib.Path(mark).name}.*")]


def is_alive(process):
    try:
        # A zombie has ended, and only its parent can remove it.
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def wait_until(condition):
    """Waits for a change that a second process makes, at most a minute."""
    end = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_close_ends_processes_in_the_middle_of_a_call(pictures, tmp_path, monkeypatch):
    mark = str(tmp_path / "mark")
    monkeypatch.setenv("FOREBAY_TEST_MARK", mark)
    loader = mapped(pictures, never_returns, workers=2, kind="processes", engine=fb.Engine(stall_timeout=0.5))
    with pytest.raises(fb.StalledError):
        batches = iter(loader)
        while True:
            try:
                next(batches)
            except fb.StalledError:
                if len(processes_of(mark)) == 2:
                    raise
    started = processes_of(mark)
    loader.close()
    assert len(started) == 2 and not any(map(is_alive, started))


def test_close_ends_a_process_that_is_starting(pictures, tmp_path, monkeypatch, caplog):
    mark = str(tmp_path / "mark")
    monkeypatch.setenv("FOREBAY_TEST_MARK", mark)
    loader = mapped(pictures, NeverLoads(), workers=1, kind="processes", engine=fb.Engine(stall_timeout=0.5))
    batches = iter(loader)
    while not processes_of(mark):
        with pytest.raises(fb.StalledError):
            next(batches)
    threads = loader._maker.mapper.workers._threads
    loader.close()
    assert not any(map(is_alive, processes_of(mark))) and not any(thread.is_alive() for thread in threads)
    assert "after close" not in caplog.text


PARENT = """
import sys
import forebay as fb
from map_functions import never_returns

if __name__ == "__main__":
    with fb.Loader(local=sys.argv[1], batch_size=16, framework="numpy", map=fb.Map(never_returns, workers=2, kind="processes")) as loader:
        next(iter(loader))
"""


@pytest.mark.parametrize("killer", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_their_parent(pictures, tmp_path, killer):
    mark = str(tmp_path / "mark")
    script = tmp_path / "train.py"
    script.write_text(PARENT)
    environment = {**os.environ, "FOREBAY_TEST_MARK": mark}
    environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(pathlib.Path(__file__).parent)])
    with subprocess.Popen([sys.executable, str(script), pictures], env=environment, stderr=subprocess.PIPE) as parent:
        wait_until(lambda: len(processes_of(mark)) == 2 or parent.poll() is not None)
        assert parent.poll() is None
        parent.send_signal(killer)
        errors = parent.communicate(timeout=600)[1]
    assert parent.returncode != 0 and (killer is signal.SIGKILL or b"KeyboardInterrupt" in errors)
    started = processes_of(mark)
    assert len(started) == 2
    wait_until(lambda: not any(map(is_alive, started)))


UNGUARDED = """
import sys
import forebay as fb
from map_functions import draws

loader = fb.Loader(local=sys.argv[1], batch_size=16, fields={"number": fb.Scalar("number")}, framework="numpy",
                   map=fb.Map(draws, workers=1, kind="processes"))
next(iter(loader))
"""


def test_a_script_without_a_guard_gets_a_message_about_it(pictures, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(UNGUARDED)
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(pathlib.Path(__file__).parent)])
    ran = subprocess.run(
        [sys.executable, str(script), pictures], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 1
    assert "forebay.errors.ConfigError: map: a process for draws has ended with exit code 1 before it was ready" in ran.stderr
    assert 'if __name__ == "__main__":' in ran.stderr


def test_memory_that_grows_keeps_the_bytes_that_were_read():
    import multiprocessing

    from forebay._mapping.shared import Channel, Segment

    ours, theirs = multiprocessing.Pipe()
    to, back = Segment(), Segment()
    here, there = Channel(ours, to, back), Channel(theirs, Segment(os.dup(back.descriptor)), Segment(os.dup(to.descriptor)))
    kept = []
    for size in (10, 5000, 1 << 20, 3):
        value = {"a": np.arange(size), "b": [b"x" * min(size, 100), "text"], "c": np.arange(size * 2).reshape(2, size).T}
        here.send(value)
        kept.append(there.receive(copies=True))
        assert np.array_equal(kept[-1]["a"], value["a"]) and np.array_equal(kept[-1]["c"], value["c"])
        assert kept[-1]["a"].flags.writeable and kept[-1]["b"] == value["b"]
        there.send(np.full(size, 7))
        assert here.receive(copies=False).tolist() == [7] * size
    assert kept[1]["a"].tolist() == list(range(5000))
    frozen = np.arange(5000)
    frozen.flags.writeable = False
    here.send(frozen)
    assert not there.receive(copies=False).flags.writeable
    there.close()
    with pytest.raises((EOFError, OSError)):
        here.receive(copies=True)
    here.close()


def test_seeds_are_part_of_a_processs_generators(pictures):
    with mapped(pictures, draws, workers=1, kind="processes", **{**SHUFFLED, "order": fb.Order(num_canonical_nodes=2, augment_seed=6)}) as loader:
        other = next(iter(loader))
    assert other["unit"].tolist() != [row["unit"] for row in in_a_loop(pictures)[0]]
