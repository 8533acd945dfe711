"""A cache folder that cannot be written: files that are read where they are need none."""

import io
import json
import logging
import os
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import pytest
from megatron_files import write as write_documents

import forebay as fb

SAMPLES = 6


def write_tars(folder):
    os.makedirs(folder)
    for number in range(2):
        with tarfile.open(f"{folder}/{number}.tar", "w") as tar:
            for sample in range(3):
                info = tarfile.TarInfo(f"{number}{sample}.cls")
                info.size = 1
                tar.addfile(info, io.BytesIO(b"%d" % (3 * number + sample)))


def write_pictures(folder):
    from PIL import Image

    for number in range(SAMPLES):
        os.makedirs(f"{folder}/{number}")
        Image.new("L", (2, 2), number).save(f"{folder}/{number}/0.png")


def write_manifest(folder):
    os.makedirs(folder)
    rows = [{"file": f"{number}.bin", "n": number} for number in range(SAMPLES)]
    for row in rows:
        with open(f"{folder}/{row['file']}", "wb") as file:
            file.write(b"x")
    with open(f"{folder}/list.jsonl", "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_mds(folder):
    with fb.MDSWriter(out=folder, columns={"n": "int"}) as writer:
        for number in range(SAMPLES):
            writer.write({"n": number})


def write_tokens(folder):
    os.makedirs(folder)
    write_documents(f"{folder}/text", [[number] for number in range(SAMPLES)])


SOURCES = {
    "mds": (write_mds, {"fields": {"n": fb.Scalar("n")}}),
    "tars": (write_tars, {"fields": {"n": fb.Scalar("cls")}}),
    "pictures": (write_pictures, {"fields": {"n": fb.Scalar("label")}}),
    "manifest": (write_manifest, {"manifest": "list.jsonl", "fields": {"n": fb.Scalar("n")}}),
    "tokens": (write_tokens, {"fields": {"n": fb.Tokens("tokens", length=1)}}),
}


def address(folder, name):
    return f"{folder}/text.bin" if name == "tokens" else folder


def numbers(remote, options):
    options = dict(options)
    remote = {"streams": [fb.Stream(remote=remote, manifest=options.pop("manifest"))]} if "manifest" in options else {"remote": remote}
    with fb.Loader(**remote, batch_size=2, framework="numpy", order=fb.Order(num_canonical_nodes=1), **options) as loader:
        return sorted(int(np.asarray(n).ravel()[0]) for batch in loader for n in batch["n"])


def warnings_of_cache(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING and "cache" in record.getMessage()]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("cache", ["file/cache", "/proc/cache", "file"])
def test_files_of_this_machine_are_read_without_a_cache(tmp_path, monkeypatch, caplog, name, cache):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / cache))
    write, options = SOURCES[name]
    write(str(tmp_path / "data"))
    caplog.set_level(logging.WARNING, "forebay")
    for epoch in range(1, 3):
        assert numbers(address(str(tmp_path / "data"), name), options) == list(range(SAMPLES))
        said = warnings_of_cache(caplog)
        # Data sets with an index of their own need no second one.
        assert len(said) == (0 if name == "mds" else epoch), said
        assert all("cannot be written" in line and "set XDG_CACHE_HOME" in line and "every start" in line for line in said)


def test_one_warning_is_enough_for_many_streams_and_a_filter(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for name in "ab":
        write_tars(str(tmp_path / name))
    caplog.set_level(logging.WARNING, "forebay")
    streams = [fb.Stream(remote=str(tmp_path / name), select=fb.Select(filter="cls > 2")) for name in "ab"]
    with fb.Loader(streams=streams, batch_size=2, framework="numpy", fields={"n": fb.Scalar("cls")}) as loader:
        assert sorted(n for batch in loader for n in batch["n"]) == [3, 3, 4, 4, 5, 5]
        assert len(warnings_of_cache(caplog)) == 1
        assert any("cannot be written" in note for note in loader.stats()["notes"])


def test_data_that_must_be_copied_name_the_two_ways_out(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with fb.MDSWriter(out=str(tmp_path / "data"), columns={"n": "int"}, compression="zstd") as writer:
        writer.write({"n": 1})
    with pytest.raises(fb.Error, match="the cache directory cannot be made: set `local`, or XDG_CACHE_HOME, to a folder"):
        numbers(str(tmp_path / "data"), SOURCES["mds"][1])


CHILD = """
import logging, os, sys
import test_no_cache as t
logging.basicConfig(level=logging.WARNING)
name, folder = sys.argv[1:]
os.setgid(54_321), os.setuid(54_321)
print(t.numbers(t.address(folder, name), t.SOURCES[name][1]))
"""


def run_without_home(folder, name, **environment):
    """Reads as a user without a home, nor an entry in the list of users, as containers have them."""
    env = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_CACHE_HOME")}
    env |= {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])} | environment
    return subprocess.run([sys.executable, "-c", CHILD, name, folder], env=env, capture_output=True, text=True)


@pytest.fixture
def readable():
    """Folder that all users can read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a different user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield folder


@pytest.mark.parametrize("environment", [{}, {"HOME": "/root"}, {"HOME": "/"}, {"HOME": ""}], ids=str)
def test_a_user_without_a_home_reads_files_without_a_copy(readable, environment):
    write_tars(f"{readable}/data")
    done = run_without_home(f"{readable}/data", "tars", **environment)
    assert done.stdout.strip() == str(list(range(SAMPLES))), done.stderr
    said = [line for line in done.stderr.splitlines() if "cache" in line]
    assert len(said) == 1 and "XDG_CACHE_HOME" in said[0], done.stderr


def test_copies_without_a_home_need_local(readable):
    with fb.MDSWriter(out=f"{readable}/data", columns={"n": "int"}, compression="zstd") as writer:
        writer.write({"n": 1})
    done = run_without_home(f"{readable}/data", "mds")
    assert "there is no home directory to cache in: set `local` or XDG_CACHE_HOME" in done.stderr
