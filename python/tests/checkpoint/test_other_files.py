"""Folders of checkpoints with more than checkpoints: foreign files, links, temporary files of killed processes."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import commit, folder, formats, group, retention
from forebay.checkpoint.folder import Folder

torch = pytest.importorskip("torch")

OTHERS = {
    "20240101/notes.txt",
    "config.yaml",
    "data/1.bin",
    "data/__0_0.distcp",
    "data/commit-1.json",
    "deep/rank-00000.pt",
    "rank-1.pt",
}


def write(url, text=b"other"):
    with fb.open(url, "wb") as file:
        file.write(text)


def names(url):
    return {file.url.removeprefix(f"{url}/") for file in fb.list_files(f"{url}/")}


def state(number=0):
    return {"weights": torch.full((1000,), float(number))}


def number_of(found):
    return None if found is None else found.load()["weights"].unique().tolist()


@pytest.fixture
def url(run_url):
    """Folder of an experiment, with foreign files."""
    for name in OTHERS:
        write(f"{run_url}/exp/{name}")
    return f"{run_url}/exp"


def test_a_checkpoint_that_is_replaced_leaves_foreign_files(url):
    for number in range(3):
        saved = checkpoint.save(state(number), url, step=number, overwrite=number > 0, wait=number != 1)
        saved = saved.wait() if number == 1 else saved
        assert names(url) == OTHERS | {"begun.json", "commit.json", *saved.parts}
    checkpoint.remove(url)
    assert names(url) == OTHERS


def test_an_unfinished_save_leaves_foreign_files(url):
    checkpoint.save(state(1), url)
    fb.remove_files([f"{url}/commit.json"])
    start = Folder(url).begin()
    assert start and names(url) == OTHERS | {"begun.json"}
    write(f"{url}/{start}rank-00001.safetensors")
    write(f"{url}/{start}a/b__12_3.distcp")
    assert checkpoint.remove_incomplete(url, age=0) == [url]
    assert names(url) == OTHERS


def test_a_removal_to_keep_a_number_leaves_foreign_files(run_url):
    for number in range(3):
        write(f"{run_url}/step-{number}/notes.txt")
        checkpoint.save(state(number), f"{run_url}/step-{number}", step=number, keep=1)
    assert names(f"{run_url}/step-0") == names(f"{run_url}/step-1") == {"notes.txt"}
    assert number_of(checkpoint.latest(run_url)) == [2.0]


def test_a_commit_names_parts_with_the_prefixes_of_a_user(run_url):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    from forebay.checkpoint.distributed import StorageWriter

    url = f"{run_url}/1"
    write(f"{url}/a/mine")
    dcp.save(state(), storage_writer=StorageWriter(url, prefixes=["a/"]))
    assert names(url) == {"a/mine", "a/__0_0.distcp", ".metadata", "begun.json", "commit.json"}
    saved = checkpoint.save(state(), url, overwrite=True)
    assert names(url) == {"a/mine", "begun.json", "commit.json", *saved.parts}
    dcp.save(state(), storage_writer=StorageWriter(url, prefixes=["a/"], overwrite=True))
    checkpoint.remove(url)
    assert names(url) == {"a/mine"}
    dcp.save(state(), storage_writer=StorageWriter(url, prefixes=["a/"]))
    checkpoint.remove(url)
    assert names(url) == {"a/mine"}


@pytest.mark.parametrize("url", ["s3://bucket", "gs://bucket/", "azure://account/box", "hf://datasets/a/b", "sftp://host"])
def test_a_whole_bucket_is_no_checkpoint(url):
    with pytest.raises(fb.ConfigError, match="whole bucket or server: save to a folder in it"):
        checkpoint.save(state(), url, overwrite=True)


@contextlib.contextmanager
def clock(monkeypatch, **difference):
    """Clock of a second machine."""

    class Clock(folder.datetime.datetime):
        @classmethod
        def now(cls, zone):
            return super().now(zone) + folder.datetime.timedelta(**difference)

    with monkeypatch.context() as patched:
        patched.setattr(folder.datetime, "datetime", Clock)
        yield


def test_a_job_that_continues_on_a_machine_with_a_slow_clock_saves_the_newest(run_url, monkeypatch):
    with clock(monkeypatch, minutes=5):
        checkpoint.save(state(1), f"{run_url}/a", step=1)
    # A new process has read no commit yet.
    monkeypatch.setattr(commit, "_newest", {})
    assert number_of(checkpoint.latest(run_url)) == [1.0]
    with clock(monkeypatch, minutes=-5):
        checkpoint.save(state(2), f"{run_url}/b", step=2)
        checkpoint.save(state(3), f"{run_url}/c", step=3)
    assert [found.step for found in checkpoint.steps(run_url)] == [1, 2, 3]
    assert checkpoint.retain(run_url, 1) == [f"{run_url}/a", f"{run_url}/b"]


def test_the_times_of_a_bounded_number_of_folders_are_known(monkeypatch):
    monkeypatch.setattr(commit, "_newest", {})
    time = folder.datetime.datetime.now(folder.datetime.timezone.utc)
    for number in range(2 * commit._NEWEST_MAX):
        assert commit.later(f"run-{number}", time) == time
    assert len(commit._newest) == commit._NEWEST_MAX
    assert commit.later(f"run-{number}", time) > time


def test_an_unfinished_save_in_a_store_without_times_is_removed_by_an_age_of_0(caplog):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    try:
        Folder("memory://box/run/1").begin()
        assert checkpoint.remove_incomplete("memory://box/run") == []
        assert "memory://box/run/1 stays, because its store has no times" in caplog.text
        assert checkpoint.remove_incomplete("memory://box/run", age=0) == ["memory://box/run/1"]
    finally:
        fsspec.filesystem("memory").rm("/box", recursive=True)


def test_a_checkpoint_is_found_behind_links_and_not_removed_through_them(tmp_path):
    run = tmp_path / "real" / "run"
    for number in range(2):
        checkpoint.save(state(number), run / f"step-{number}", step=number)
    checkpoint.save(state(2), tmp_path / "elsewhere", step=2)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = f"{tmp_path}/link/run"
    assert number_of(checkpoint.latest(linked)) == [1.0]
    with pytest.raises(fb.ConfigError, match="is a checkpoint already"):
        checkpoint.save(state(), f"{linked}/step-1")
    (run / "last").symlink_to("step-1")
    (run / "step-2").symlink_to(tmp_path / "elsewhere")
    assert [found.url for found in checkpoint.steps(linked)] == [f"{linked}/step-{number}" for number in range(3)]
    Folder(tmp_path / "begun").begin()
    (run / "step-3").symlink_to(tmp_path / "begun")
    assert checkpoint.remove_incomplete(linked, age=0) == []
    assert checkpoint.retain(linked, 1) == [f"{linked}/step-0"]
    assert [found.step for found in checkpoint.steps(linked)] == [1, 2]


def temporary(path):
    return {name for _, _, names in os.walk(path) for name in names if name.startswith(".forebay-")}


WRITER = """
import sys, time
import forebay as fb
file = fb.open(sys.argv[1], "wb")
# More than one part.
file.write(bytes(40 << 20))
print("written", flush=True)
sys.stdin.read()
"""


def test_the_temporary_file_of_a_killed_writer_is_removed_and_the_file_of_a_live_writer_stays(tmp_path):
    url = tmp_path / "run" / "step-1"
    writers = []
    for name in ("killed", "alive"):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, url / name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        writers.append(writer)
        assert writer.stdout.readline() == "written\n"
        # A second thread of the writer makes it.
        while len(temporary(tmp_path)) < len(writers):
            pass
        if name == "killed":
            dead = temporary(tmp_path)
            writer.send_signal(signal.SIGKILL)
            writer.wait()
    alive = temporary(tmp_path) - dead
    assert len(dead) == len(alive) == 1
    retention.remove_leftovers(str(tmp_path), before=0)
    assert temporary(tmp_path) == dead | alive
    checkpoint.remove_incomplete(tmp_path)
    assert temporary(tmp_path) == dead | alive
    Folder(url).begin()
    assert temporary(tmp_path) == alive
    writers[1].communicate()
    # It ended without close.
    assert temporary(tmp_path) == set()


def test_every_removal_takes_the_temporary_files_of_killed_writers(tmp_path):
    def leave(*places):
        for folder in places:
            os.makedirs(tmp_path / folder, exist_ok=True)
            (tmp_path / folder / ".forebay-locked-0123456789abcdef.tmp").write_bytes(b"dead")

    leave("step-0", "step-1/01234567", "no-mark")
    # One of a writer over a network, which has no lock.
    (tmp_path / ".forebay-0123456789abcdef.tmp").write_bytes(b"alive")
    checkpoint.save(state(), tmp_path / "step-0")
    assert sorted(os.listdir(tmp_path / "step-0")) == ["begun.json", "commit.json", "rank-00000.pt"]
    checkpoint.save(state(), tmp_path / "step-1")
    leave("step-0")
    assert checkpoint.retain(tmp_path, 1) == [f"{tmp_path}/step-0"]
    leave("step-1")
    checkpoint.remove(tmp_path / "step-1")
    assert sorted(os.listdir(tmp_path)) == [".forebay-0123456789abcdef.tmp", "no-mark"]
    assert checkpoint.remove_incomplete(tmp_path, age=0) == []
    assert os.listdir(tmp_path) == [".forebay-0123456789abcdef.tmp"]


def test_a_load_does_not_wait_for_the_remaining_ranks(run_url, monkeypatch):
    # Of two ranks, this one alone loads.
    class Distributed:
        get_rank, get_world_size = staticmethod(lambda: 1), staticmethod(lambda: 2)

    parts = []
    for rank in range(2):
        with formats.PartWriter(f"{run_url}/two", f"rank-{rank:05}.pt") as file:
            formats.FORMATS["torch"].write(state(rank), file)
        parts.append(file.part)
    two = Folder(f"{run_url}/two")
    two.begin()
    two.commit(parts)
    checkpoint.save(state(5), f"{run_url}/one")
    monkeypatch.setattr(group, "torch_distributed", lambda: Distributed)
    monkeypatch.setattr(group, "current", None)
    assert checkpoint.load(f"{run_url}/one")["weights"][0] == 5
    assert checkpoint.load(f"{run_url}/two")["weights"][0] == 1
    monkeypatch.setattr(Distributed, "get_world_size", staticmethod(lambda: 3))
    with pytest.raises(fb.ConfigError, match="has the parts of 2 ranks, and there are 3 now"):
        checkpoint.load(f"{run_url}/two")


@pytest.fixture
def lengths(monkeypatch):
    """Largest lengths that uploads were begun with, by the ends of their names."""
    from forebay.files import opened as files

    found = {}

    class Stores:
        def __init__(self, stores):
            self._stores = stores

        def upload(self, url, length):
            found[url.rpartition("/")[2]] = length
            return self._stores.upload(url, length)

        def __getattr__(self, name):
            return getattr(self._stores, name)

    opened = files.opened
    monkeypatch.setattr(files, "opened", lambda store: Stores(opened(store)))
    return found


def test_the_size_of_a_part_is_known_before_it_is_written(run_url, lengths):
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    from forebay.checkpoint.distributed import StorageWriter

    weights = torch.zeros(3 << 20)
    saved = {"weights": weights, "view": weights[5:], "names": ["a"] * 1000, "large": torch.zeros(1).expand(1 << 20)}
    for format in ("torch", "safetensors"):
        tensors = {name: value for name, value in saved.items() if isinstance(value, torch.Tensor)}
        done = checkpoint.save(saved if format == "torch" else tensors, f"{run_url}/{format}", format=format)
        ((name, part),) = done.parts.items()
        assert part.size <= lengths[name] <= 1.1 * part.size + (2 << 20)
    dcp.save(saved, storage_writer=StorageWriter(f"{run_url}/dcp"))
    part = checkpoint.Checkpoint.open(f"{run_url}/dcp").parts["__0_0.distcp"]
    assert part.size <= lengths["__0_0.distcp"] <= 1.1 * part.size + (2 << 20)
