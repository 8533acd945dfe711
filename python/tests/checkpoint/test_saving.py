"""Checkpoints of one process, in a folder and in a bucket."""

import collections
import json
import signal
import sys
import threading

import numpy as np
import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import saving
from forebay.checkpoint.folder import Folder
from forebay.checkpoint.formats import FORMATS
from forebay.checkpoint.group import Alone
from forebay.checkpoint.saving import Saving

torch = pytest.importorskip("torch")


def state(seed=0, length=5000):
    weights = torch.arange(length, dtype=torch.float32) + seed
    return {"model": {"weight": weights, "view": weights[10:20]}, "epoch": seed}


def equal(a, b):
    return torch.equal(a["model"]["weight"], b["model"]["weight"]) and a["epoch"] == b["epoch"]


def write(url, text):
    with fb.open(url, "wb") as file:
        file.write(text)


def read(url):
    with fb.open(url) as file:
        return file.read()


def test_a_checkpoint_loads_as_it_was_saved(run_url):
    facts = {"loss": 0.5, "name": "run"}
    saved = checkpoint.save(state(3), f"{run_url}/step-10", step=10, data={"epoch": 1}, metadata=facts)
    assert equal(checkpoint.load(f"{run_url}/step-10"), state(3))
    found = checkpoint.Checkpoint.open(f"{run_url}/step-10")
    assert (found.step, found.data, found.metadata, found.time) == (10, {"epoch": 1}, facts, saved.time)
    assert list(found.parts) == ["rank-00000.pt"] and found.size == saved.size > 20000
    loaded = found.load()["model"]
    assert loaded["view"].untyped_storage().data_ptr() == loaded["weight"].untyped_storage().data_ptr()


def test_parts_of_several_blocks_load(run_url):
    big = state(length=5 << 20)
    saved = checkpoint.save(big, f"{run_url}/big")
    assert len(saved.parts["rank-00000.pt"].digests) == 3
    assert equal(saved.load(), big)


def test_a_loader_gives_its_state(run_url, pictures):
    loader = fb.Loader(local=str(pictures), batch_size=8, fields={"y": fb.Scalar("class")}, shuffle=True, framework="numpy")
    rows = iter(loader)
    first = [list(next(rows)["y"]) for _ in range(3)]
    saved = checkpoint.save({}, f"{run_url}/1", data=loader)
    rest = [list(batch["y"]) for batch in rows]
    loader.load_state_dict(saved.data)
    assert [list(batch["y"]) for batch in loader] == rest and first
    both = checkpoint.save({}, f"{run_url}/2", data={"train": loader, "val": {"epoch": 3}}).data
    assert sorted(both) == ["train", "val"] and both["train"] == loader.state_dict()


def test_steps_are_listed_from_the_oldest_to_the_newest(run_url):
    assert checkpoint.steps(run_url) == [] and checkpoint.latest(run_url) is None
    for step in (3, 20, 100):
        checkpoint.save(state(step), f"{run_url}/step-{step}", step=step)
    assert [found.step for found in checkpoint.steps(run_url)] == [3, 20, 100]
    assert equal(checkpoint.latest(run_url).load(), state(100))
    assert checkpoint.latest(f"{run_url}/step-20").step == 20


def test_only_the_newest_stay(run_url):
    for step in range(4):
        checkpoint.save(state(step), f"{run_url}/step-{step}", step=step, keep=2)
        assert [found.step for found in checkpoint.steps(run_url)] == [step - 1, step][-step - 1 :]
    left = {file.url.removeprefix(f"{run_url}/") for file in fb.list_files(f"{run_url}/")}
    assert left == {f"step-{step}/{name}" for step in (2, 3) for name in ("begun.json", "commit.json", "rank-00000.pt")}
    assert checkpoint.retain(run_url, 1) == [f"{run_url}/step-2"]
    checkpoint.remove(f"{run_url}/step-3")
    checkpoint.remove(f"{run_url}/step-3")
    assert list(fb.list_files(f"{run_url}/")) == []


def test_foreign_files_stay(run_url):
    checkpoint.save(state(), f"{run_url}/a/step-1")
    write(f"{run_url}/a/notes.txt", b"mine")
    checkpoint.save(state(), f"{run_url}/a/step-2", keep=1)
    assert [file.url.removeprefix(f"{run_url}/a/") for file in fb.list_files(f"{run_url}/a/", masks="*.txt")] == ["notes.txt"]


def test_a_checkpoint_is_replaced_only_if_that_is_asked_for(run_url):
    url = f"{run_url}/last"
    checkpoint.save(state(1), url)
    with pytest.raises(fb.ConfigError, match="is a checkpoint already: .*overwrite=True"):
        checkpoint.save(state(2), url)
    assert equal(checkpoint.load(url), state(1))
    checkpoint.save(state(2), url, overwrite=True)
    assert equal(checkpoint.load(url), state(2))


def test_a_folder_without_a_commit_is_no_checkpoint(run_url):
    url = f"{run_url}/step-1"
    checkpoint.save(state(1), url, step=1)
    checkpoint.save(state(2), f"{run_url}/step-2", step=2)
    fb.remove_files([f"{run_url}/step-2/commit.json"])
    with pytest.raises(fb.NotFoundError, match="no commit.json, so there is none, or saving it was not finished"):
        checkpoint.load(f"{run_url}/step-2")
    assert checkpoint.latest(run_url).url == url
    assert checkpoint.remove_incomplete(run_url, age=10**9) == []
    assert checkpoint.remove_incomplete(run_url, age=0) == [f"{run_url}/step-2"]
    assert equal(checkpoint.latest(run_url).load(), state(1))


def test_damage_is_found_before_torch_sees_it(run_url):
    url = f"{run_url}/step-1"
    saved = checkpoint.save(state(length=5 << 20), url)
    part = f"{url}/rank-00000.pt"
    content = bytearray(read(part))
    content[9 << 20] ^= 1
    write(part, bytes(content))
    digest = saved.parts["rank-00000.pt"].digests[1]
    with pytest.raises(fb.ChecksumError, match=f"damaged in its bytes 8388608 to 16777216, which have .* instead of {digest}"):
        saved.load()
    write(part, bytes(content[:-1]))
    with pytest.raises(fb.ChecksumError, match=f"has {len(content) - 1} bytes instead of {len(content)}"):
        saved.load()
    fb.remove_files([part])
    with pytest.raises(fb.NotFoundError, match="is missing, although the checkpoint's commit names it: load a different step"):
        saved.load()


@pytest.mark.parametrize("damage", ["commit", "part", "length"])
def test_a_run_with_damaged_checkpoints_alone_does_not_begin_again(run_url, damage):
    for step in (1, 2):
        checkpoint.save(state(step), f"{run_url}/step-{step}", step=step)

    def spoil(step):
        part = f"{run_url}/step-{step}/rank-00000.pt"
        if damage == "part":
            fb.remove_files([part])
        elif damage == "length":
            write(part, read(part)[:-1])
        else:
            write(f"{run_url}/step-{step}/commit.json", b"{}")

    spoil(2)
    assert checkpoint.latest(run_url).step == 1
    spoil(1)
    with pytest.raises(fb.ChecksumError, match='none of the 2 checkpoints .* is whole, .*damaged="skip"'):
        checkpoint.latest(run_url)
    assert checkpoint.latest(run_url, damaged="skip") is None and checkpoint.steps(run_url) == []
    with pytest.raises(fb.ConfigError, match="damaged"):
        checkpoint.latest(run_url, damaged="ignore")


def test_a_folder_in_which_no_save_was_finished_has_no_latest_checkpoint(run_url):
    checkpoint.save(state(1), f"{run_url}/step-1", step=1)
    fb.remove_files([f"{run_url}/step-1/commit.json"])
    assert checkpoint.latest(run_url) is None


def test_metadata_comes_back_as_it_was_and_the_commit_is_json(run_url):
    facts = {
        "loss": float("nan"),
        "best": [float("inf"), (1, (2.5, -float("inf")), {"a": ()})],
        "shape": (3, 4),
        "numbers": [np.float32(0.5), np.int64(7), np.float64("nan"), torch.tensor(2)],
    }
    saved = checkpoint.save(state(), f"{run_url}/1", step=1, metadata=facts, data={"pair": (1, 2)})

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    json.loads(read(f"{run_url}/1/commit.json"), parse_constant=refuse)
    expected = {**facts, "numbers": [0.5, 7, float("nan"), 2]}
    for found in (saved, checkpoint.latest(run_url)):
        assert repr(found.metadata) == repr(expected) and found.data == {"pair": (1, 2)}
    top = checkpoint.save(state(), f"{run_url}/2", metadata=(1, float("nan")))
    assert repr(top.metadata) == repr(checkpoint.latest(run_url).metadata) == "(1, nan)"


def test_metadata_that_is_no_json_names_its_path(tmp_path):
    cycle = []
    cycle.append(cycle)
    for metadata, message in [
        ({"a": [1, {2}]}, r"metadata\['a'\]\[1\] has to be JSON, and set is not"),
        ({"a": {3: 1}}, r"metadata\['a'\] has to be JSON, where keys are text, and it has the key 3"),
        (cycle, "at most 100 levels"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            checkpoint.save(state(), tmp_path / "x", metadata=metadata)


def test_a_damaged_commit_is_an_error(run_url):
    url = f"{run_url}/step-1"
    checkpoint.save(state(), url, step=1)
    text = read(f"{url}/commit.json")
    for damaged, kind, message in [
        (text.replace(b'"step": 1', b'"step": 2'), fb.ChecksumError, "commit.json is damaged"),
        (text.replace(b'"version": 1', b'"version": 2'), fb.UnsupportedError, "version 2 .* reads version 1"),
        (text[:100], fb.FormatError, "is not a commit of a checkpoint"),
        (b"[]", fb.FormatError, "is not a commit of a checkpoint"),
        (b'{"format": "other"}', fb.FormatError, "the format is 'other'"),
    ]:
        write(f"{url}/commit.json", damaged)
        with pytest.raises(kind, match=message):
            checkpoint.load(url)


def test_a_checkpoint_of_a_newer_version_is_left_alone(run_url, caplog, capsys):
    from forebay.__main__ import main

    for step in (1, 2):
        checkpoint.save(state(step), f"{run_url}/step-{step}", step=step)
    newer = read(f"{run_url}/step-1/commit.json").replace(b'"version": 1', b'"version": 2')
    write(f"{run_url}/step-1/commit.json", newer)
    saved = checkpoint.save(state(3), f"{run_url}/step-3", step=3, keep=1)
    assert equal(saved.load(), state(3)) and f"{run_url}/step-1 is not counted and not removed" in caplog.text
    left = {file.url.removeprefix(f"{run_url}/").partition("/")[0] for file in fb.list_files(f"{run_url}/")}
    assert left == {"step-1", "step-3"} and read(f"{run_url}/step-1/commit.json") == newer
    assert checkpoint.retain(run_url, 1) == []
    assert main(["checkpoint", run_url]) == 1 and "version 2 of the format" in capsys.readouterr().out
    # No older one is loaded.
    with pytest.raises(fb.UnsupportedError, match="version 2 .* reads version 1"):
        checkpoint.latest(run_url)


def test_older_checkpoints_that_cannot_be_read_do_not_fail_a_save(run_url, caplog, monkeypatch):
    from forebay.checkpoint import retention

    def denied(*_, **__):
        raise fb.AccessError("denied")

    checkpoint.save(state(1), f"{run_url}/step-1")
    with monkeypatch.context() as patched:
        patched.setattr(retention, "load_files", denied)
        checkpoint.save(state(2), f"{run_url}/step-2", keep=1)
    assert "are not removed, since they cannot be read: denied" in caplog.text
    assert len(checkpoint.steps(run_url)) == 2 and equal(checkpoint.load(f"{run_url}/step-2"), state(2))


def test_keep_counts_only_the_checkpoints_next_to_it(run_url):
    checkpoint.save(state(1), f"{run_url}/another-run/step-1")
    checkpoint.save(state(2), f"{run_url}/step-2")
    checkpoint.save(state(3), f"{run_url}/step-3", keep=1)
    left = {found.url.removeprefix(f"{run_url}/") for found in checkpoint.steps(run_url)}
    assert left == {"another-run/step-1", "step-3"}


def test_retain_leaves_different_runs_alone(run_url):
    for run in ("a", "b"):
        for step in (1, 2):
            checkpoint.save(state(step), f"{run_url}/{run}/step-{step}", step=step)
    assert checkpoint.retain(run_url, 1) == []
    assert checkpoint.retain(f"{run_url}/a", 1) == [f"{run_url}/a/step-1"]
    left = {found.url.removeprefix(f"{run_url}/") for found in checkpoint.steps(run_url)}
    assert left == {"a/step-2", "b/step-1", "b/step-2"}


@pytest.mark.parametrize("url", ["", "/", "//", "file://", "s3://", "s3:///"])
def test_an_address_that_names_no_folder_is_an_error_and_not_an_absent_checkpoint(url):
    for call in (
        checkpoint.latest,
        checkpoint.steps,
        checkpoint.load,
        checkpoint.remove,
        checkpoint.remove_incomplete,
        lambda url: checkpoint.retain(url, 1),
        lambda url: checkpoint.save(state(), url),
    ):
        with pytest.raises(fb.ConfigError, match="has to be the path of a folder"):
            call(url)


@pytest.mark.parametrize("was_saved", [False, True])
def test_of_two_jobs_that_save_to_one_folder_the_last_to_begin_has_a_whole_checkpoint(run_url, was_saved):
    url = f"{run_url}/last"
    if was_saved:
        checkpoint.save(state(0), url)
    first, second = (
        saving.Writer(Folder(url, overwrite=True), Alone(), state(number), True, FORMATS["torch"]) for number in (1, 2)
    )
    starts = [writer.folder.begin() for writer in (first, second)]
    parts = [writer._write(start) for writer, start in ((second, starts[1]), (first, starts[0]))]
    with pytest.raises(fb.StateError, match="a second save to .*/last has begun"):
        first.folder.commit(parts[1:])
    second.folder.commit(parts[:1])
    assert equal(checkpoint.load(url), state(2))


def test_a_checkpoint_without_a_token_loads_and_is_replaced(run_url):
    url = f"{run_url}/last"
    checkpoint.save(state(1), url)
    # As versions before wrote it.
    write(f"{url}/begun.json", b'{"format": "forebay checkpoint", "version": 1}')
    assert equal(checkpoint.latest(run_url).load(), state(1))
    checkpoint.save(state(2), url, overwrite=True)
    assert equal(checkpoint.load(url), state(2))
    fb.remove_files([f"{url}/commit.json"])
    write(f"{url}/begun.json", b'{"format": "forebay checkpoint", "version": 1}')
    checkpoint.save(state(3), url)
    assert equal(checkpoint.load(url), state(3))


def test_a_refused_save_leaves_nothing_and_does_not_disturb_a_running_one(run_url):
    url = f"{run_url}/last"
    checkpoint.save(state(1), url)
    saves = saving.Writer(Folder(url, overwrite=True), Alone(), state(2), True, FORMATS["torch"])
    start = saves.folder.begin()
    with pytest.raises(fb.ConfigError, match="is a checkpoint already"):
        checkpoint.save(state(3), url)
    saves.folder.commit([saves._write(start)])
    assert equal(checkpoint.load(url), state(2)) and len(list(fb.list_files(f"{url}/"))) == 3


def test_files_of_a_save_that_was_killed_at_its_start_are_removed(run_url):
    write(f"{run_url}/1/begun-{'0' * 32}.json", b"{}")
    assert checkpoint.steps(run_url) == [] and checkpoint.remove_incomplete(run_url, age=0) == [f"{run_url}/1"]
    assert list(fb.list_files(f"{run_url}/")) == []


@pytest.mark.parametrize(
    "change",
    [{"notes": {"metadata": [[["a"], "nan"]]}}, {"notes": [1]}, {"time": "2026-01-01T00:00:00"}, {"time": "now"}, {"step": "1"}, {"parts": [{"name": "../a"}]}, {"block_bytes": 0}],
)
def test_a_commit_that_a_foreign_program_has_changed_is_an_error(run_url, change):
    from forebay.checkpoint import commit

    checkpoint.save(state(1), f"{run_url}/1", step=1)
    body = json.loads(read(f"{run_url}/1/commit.json")) | change
    body["digest"] = commit._digest({name: value for name, value in body.items() if name != "digest"})
    write(f"{run_url}/1/commit.json", json.dumps(body).encode())
    with pytest.raises(fb.FormatError, match="is not a commit of a checkpoint"):
        checkpoint.load(f"{run_url}/1")


def test_a_commit_that_was_written_although_the_answer_was_lost_is_recognised(run_url, monkeypatch):
    from forebay.checkpoint import commit

    opened = commit.opened
    monkeypatch.setattr(commit, "opened", lambda store: Refusing(opened(store), is_written=True))
    monkeypatch.setattr(commit, "replace", None)
    for number in range(2):
        checkpoint.save(state(number), f"{run_url}/1", overwrite=True)
        assert equal(checkpoint.load(f"{run_url}/1"), state(number))


def test_a_store_that_refuses_the_version_that_it_names_is_written_to_in_any_case(run_url, monkeypatch):
    from forebay.checkpoint import commit

    opened = commit.opened
    monkeypatch.setattr(commit, "opened", lambda store: Refusing(opened(store), is_written=False))
    for number in range(2):
        checkpoint.save(state(number), f"{run_url}/1", overwrite=True)
        assert equal(checkpoint.load(f"{run_url}/1"), state(number))


class Refusing:
    """Stores that refuse all conditional writes. If `is_written`, they write the objects before."""

    def __init__(self, stores, is_written):
        self._stores, self._is_written = stores, is_written

    def put_if(self, *arguments):
        if self._is_written:
            self._stores.put_if(*arguments)
        return False

    def __getattr__(self, name):
        return getattr(self._stores, name)


@pytest.mark.parametrize(
    ("function", "error"),
    [("remove_files", fb.AccessError), ("remove_files", fb.NetworkError), ("token_of", fb.AccessError)],
)
def test_a_save_needs_no_removals_and_no_right_to_read(run_url, monkeypatch, caplog, function, error):
    from forebay.checkpoint import marks

    def failing(*_, **__):
        raise error("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(marks, function, failing)
        checkpoint.save(state(1), f"{run_url}/1")
    assert equal(checkpoint.latest(run_url).load(), state(1))
    assert ("cannot be removed: no such luck" in caplog.text) == (function == "remove_files")


def test_a_save_fails_if_its_parts_are_removed_meanwhile(run_url):
    writer = saving.Writer(Folder(f"{run_url}/1"), Alone(), state(), True, FORMATS["torch"])
    part = writer._write(writer.folder.begin())
    assert checkpoint.remove_incomplete(run_url, age=0) == [f"{run_url}/1"]
    with pytest.raises(fb.StateError, match="or the folder was removed"):
        writer.folder.commit([part])
    assert checkpoint.steps(run_url) == []


def test_arguments_are_checked(tmp_path):
    for arguments, message in [
        ({"step": -1}, "step"),
        ({"keep": 0}, "keep"),
        ({"data": object()}, "data has to be JSON"),
        ({"metadata": {1: {2}}}, "metadata has to be JSON"),
        ({"format": "onnx"}, "format"),
        ({"overwrite": "yes"}, "overwrite"),
        ({"wait": "no"}, "wait"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            checkpoint.save(state(), tmp_path / "x", **arguments)
    assert not (tmp_path / "x").exists()


def test_an_object_that_cannot_be_pickled_leaves_no_checkpoint(run_url):
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save({"a": threading.Lock()}, f"{run_url}/step-1")
    assert checkpoint.latest(run_url) is None
    checkpoint.save(state(), f"{run_url}/step-1")


def test_safetensors_are_files_of_that_format(run_url):
    library = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.ones(3, 4), "b": torch.arange(5)}
    url = f"{run_url}/step-1"
    checkpoint.save(tensors, url, format="safetensors")
    assert torch.equal(library.load(read(f"{url}/rank-00000.safetensors"))["a"], tensors["a"])
    loaded = checkpoint.load(url, map_location="cpu")
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    with pytest.raises(fb.ConfigError, match="takes a dict of tensors by name"):
        checkpoint.save(state(), f"{run_url}/step-2", format="safetensors")


def test_a_save_behind_training_has_the_state_of_its_call(run_url):
    live = state(1)
    saving = checkpoint.save(live, f"{run_url}/step-1", wait=False)
    live["model"]["weight"].zero_()
    live["epoch"] = 7
    assert equal(saving.wait().load(), state(1)) and saving.is_done
    assert saving.wait().url == f"{run_url}/step-1"


def test_a_save_continues_after_an_interrupt_of_its_wait():
    may_end = threading.Event()
    saving = Saving(lambda: may_end.wait() and "saved")
    main = threading.main_thread().ident
    interrupts = []

    def raise_once(*_):
        interrupts.append(1)
        if len(interrupts) == 1:
            raise KeyboardInterrupt

    def interrupt():
        # A signal just before the wait does not end it, so there are several.
        while not interrupts:
            if is_waiting(sys._current_frames()[main]):
                signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, raise_once)
    sender = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            sender.start()
            saving.wait()
        sender.join()
    finally:
        signal.signal(signal.SIGINT, before)
    # The interpreter waits for the threads that are alive for it.
    alive = [thread.name for thread in threading.enumerate() if thread.is_alive()]
    assert "forebay-checkpoint" in alive and not saving.is_done
    may_end.set()
    assert saving.wait() == "saved" and saving.is_done


def is_waiting(frame):
    """Returns true for a frame of the module threading below `Saving.wait`."""
    is_inner = frame.f_code.co_filename == threading.__file__
    while frame is not None and frame.f_code is not Saving.wait.__code__:
        frame = frame.f_back
    return is_inner and frame is not None


def test_the_next_save_raises_the_error_of_the_one_before(run_url):
    checkpoint.save(state(1), f"{run_url}/step-1")
    failing = checkpoint.save(state(2), f"{run_url}/step-1", wait=False)
    with pytest.raises(fb.ConfigError, match="is a checkpoint already"):
        checkpoint.save(state(3), f"{run_url}/step-3")
    with pytest.raises(fb.ConfigError, match="its error was raised before"):
        failing.wait()
    failing = checkpoint.save(state(2), f"{run_url}/step-1", wait=False)
    with pytest.raises(fb.ConfigError, match="is a checkpoint already"):
        failing.wait()
    checkpoint.save(state(3), f"{run_url}/step-3")


def test_a_snapshot_shares_nothing_with_its_source():
    from forebay.checkpoint.memory import snapshot

    module = torch.nn.Linear(2, 2)
    source = {
        "state": module.state_dict(),
        "parameter": module.weight,
        "pair": (torch.ones(2), [torch.ones(2)]),
        "default": collections.defaultdict(list, a=[torch.ones(1)]),
        "empty": torch.empty(0),
        "sparse": torch.eye(2).to_sparse(),
        "conjugate": torch.tensor([1j]).conj(),
        "other": {1, 2},
    }
    source["again"] = source["pair"]
    copied = snapshot(source)
    with torch.no_grad():
        module.weight.zero_()
        source["pair"][0].zero_()
        source["pair"][1].clear()
        source["default"]["a"][0].zero_()
    assert copied["state"]["weight"].abs().sum() > 0 and type(copied["state"]) is collections.OrderedDict
    assert isinstance(copied["parameter"], torch.nn.Parameter) and copied["parameter"].requires_grad
    assert copied["parameter"].data_ptr() == copied["state"]["weight"].data_ptr()
    assert copied["pair"][0].sum() == 2 and len(copied["pair"][1]) == 1 and copied["again"] is copied["pair"]
    assert copied["default"]["a"][0].item() == 1 and copied["default"]["b"] == []
    assert copied["other"] == {1, 2} and copied["other"] is not source["other"]
    assert copied["sparse"].to_dense().sum() == 2
    assert copied["conjugate"].resolve_conj().item() == -1j


def test_the_command_lists_checkpoints(run_url, capsys):
    from forebay.__main__ import main

    assert main(["checkpoint", run_url]) == 0 and "no checkpoint under" in capsys.readouterr().out
    checkpoint.save(state(), f"{run_url}/step-1", step=1)
    checkpoint.save(state(), f"{run_url}/step-2", step=2)
    assert main(["checkpoint", run_url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"] and all(line.endswith("whole") for line in lines)
    fb.remove_files([f"{run_url}/step-2/rank-00000.pt"])
    assert main(["checkpoint", run_url]) == 1 and "rank-00000.pt is missing" in capsys.readouterr().out
    fb.remove_files([f"{run_url}/step-2/commit.json"])
    assert main(["checkpoint", run_url]) == 1 and "saving was not finished" in capsys.readouterr().out
    assert main(["checkpoint", run_url, "--remove-incomplete", "--age", "0"]) == 0
    assert f"removed {run_url}/step-2" in capsys.readouterr().out


def test_a_commit_is_readable_text(tmp_path):
    checkpoint.save(state(), tmp_path / "step-1", step=1, data={"epoch": 2})
    body = json.loads((tmp_path / "step-1" / "commit.json").read_text())
    assert body["step"] == 1 and body["data"] == {"epoch": 2} and body["parts"][0]["name"] == "rank-00000.pt"


def test_the_start_of_a_part_is_read_again_after_its_end(run_url):
    saved = checkpoint.save(state(length=10 << 20), f"{run_url}/step-1")
    with saved.open_part("rank-00000.pt") as file:
        whole = file.read()
        file.seek(0)
        assert file.read(100) == whole[:100] and len(whole) == file.seek(0, 2) == saved.size
    assert len(saved.parts["rank-00000.pt"].digests) == 6


def test_a_path_may_be_a_url_or_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in (f"file://{tmp_path}/a", "b", "./c/", tmp_path / "d"):
        checkpoint.save(state(1), url)
        with pytest.raises(fb.ConfigError, match="is a checkpoint already"):
            checkpoint.save(state(1), url)
        checkpoint.save(state(2), url, overwrite=True)
        assert equal(checkpoint.load(url), state(2)) and equal(checkpoint.latest(url).load(), state(2))
    assert len(checkpoint.steps(".")) == 4
    checkpoint.remove("b")
    checkpoint.remove(f"file://{tmp_path}/c")
    assert sorted(found.url for found in checkpoint.steps(tmp_path)) == [f"{tmp_path}/a", f"{tmp_path}/d"]


def test_a_replaced_checkpoint_leaves_only_the_new_files(run_url):
    url = f"{run_url}/last"
    for number in range(3):
        checkpoint.save(state(number), url, overwrite=True, wait=number != 1)
    assert equal(checkpoint.load(url), state(2))
    (part,) = checkpoint.latest(run_url).parts
    left = {file.url.removeprefix(f"{url}/") for file in fb.list_files(f"{url}/")}
    assert left == {"begun.json", "commit.json", part} and part.endswith("/rank-00000.pt")


def test_the_checkpoint_that_was_saved_last_is_the_newest_although_a_clock_was_ahead(run_url, monkeypatch):
    from forebay.checkpoint import folder

    class Ahead(folder.datetime.datetime):
        @classmethod
        def now(cls, zone):
            return super().now(zone) + folder.datetime.timedelta(days=1)

    with monkeypatch.context() as patched:
        patched.setattr(folder.datetime, "datetime", Ahead)
        checkpoint.save(state(1), f"{run_url}/step-1", step=1, keep=1)
    checkpoint.save(state(2), f"{run_url}/step-2", step=2, keep=1)
    assert [found.step for found in checkpoint.steps(run_url)] == [2]
