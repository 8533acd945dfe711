"""`forebay.verify`: damage is found in folders and behind URLs, and a cache is repaired from its remote."""

import os
import subprocess
import sys

import pytest

import forebay as fb
from forebay.verify import Report, verify

SHARD = "shard.00001.mds"


@pytest.fixture
def data(tmp_path):
    """A folder of several shards."""
    folder = tmp_path / "data"
    with fb.MDSWriter(out=folder, columns={"number": "int"}, hashes=["sha1", "xxh64"], size_limit=1 << 9) as writer:
        for number in range(200):
            writer.write({"number": number})
    return folder


@pytest.fixture
def cache(data, tmp_path):
    """A folder that a loader has filled from `data`."""
    with fb.Loader(remote=f"file://{data}", local=tmp_path / "cache", batch_size=10) as loader:
        for _ in loader:
            pass
    return tmp_path / "cache"


def flip(path, at=400):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def shard_bytes(folder):
    return sum(file.stat().st_size for file in folder.iterdir() if file.name != "index.json")


def run(*arguments):
    command = [sys.executable, "-m", "forebay", "verify", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_an_intact_folder(data):
    calls = []
    report = verify(data, threads=1, progress=lambda report, shards: calls.append((report.shards, shards)))
    shards = len(os.listdir(data)) - 1
    assert report == Report(shards=shards, bytes=shard_bytes(data)) and report.is_intact
    assert calls == [(done, shards) for done in range(1, shards + 1)]


def test_damage_is_listed_and_the_folder_stays_as_it_is(data):
    flip(data / SHARD)
    os.remove(data / "shard.00002.mds")
    report = verify(data)
    assert list(report.damaged) == [SHARD] and report.damaged[SHARD].startswith("its sha1 is ")
    assert (report.absent, report.is_intact) == (1, False)
    done = run(data)
    assert done.returncode == 1 and f"{SHARD}: its sha1 is" in done.stdout and "1 shards are missing" in done.stderr
    assert "shard.00002.mds: it is missing\n" in done.stdout
    assert verify(data) == report


def test_a_cache_is_repaired_and_completed(data, cache):
    flip(cache / SHARD)
    os.remove(cache / "shard.00002.mds")
    report = verify(cache, remote=data)
    assert (list(report.damaged), report.absent, report.repaired) == ([SHARD], 1, 0)
    report = verify(cache, remote=data, repair=True)
    assert (report.damaged, report.absent, report.repaired, report.is_intact) == ({}, 1, 1, True)
    report = verify(cache, remote=data, complete=True)
    assert (report.absent, report.repaired, report.bytes) == (0, 1, shard_bytes(data))
    assert (cache / SHARD).read_bytes() == (data / SHARD).read_bytes()


def test_damage_in_the_remote_too_is_reported_with_both_reasons(data, cache):
    flip(data / SHARD)
    flip(cache / SHARD)
    os.remove(cache / "shard.00002.mds")
    flip(data / "shard.00002.mds")
    report = verify(cache, remote=data, repair=True, complete=True)
    reason = report.damaged[SHARD]
    assert reason.startswith("its sha1 is ") and "cannot be repaired: " in reason and not report.is_intact
    assert "it is absent and cannot be fetched" in report.damaged["shard 2"]


def test_the_command(data, cache):
    done = run(data)
    shards = len(os.listdir(data)) - 1
    assert (done.returncode, done.stdout) == (
        0,
        f"{shards} of {shards} shards are there, {shard_bytes(data)} bytes were compared\n",
    )
    assert done.stderr == ""
    flip(cache / SHARD)
    done = run(cache, "--remote", data)
    assert done.returncode == 1
    done = run(cache, "--remote", data, "--repair")
    assert done.returncode == 0 and "1 shards were fetched" in done.stdout
    done = run(data / "none")
    assert done.returncode == 2 and done.stderr.startswith("error: ")


def test_wrong_arguments_name_the_fix(data):
    with pytest.raises(fb.ConfigError, match="pass remote"):
        verify(data, repair=True)
    with pytest.raises(fb.ConfigError, match="URL"):
        verify("https://localhost:1/set", remote=data)
    with pytest.raises(fb.ConfigError, match="source is"):
        verify(3)
    with pytest.raises(fb.NotFoundError, match="index.json"):
        verify(data / "none")


def test_files_of_lines_are_whole_as_they_are(tmp_path):
    # The samples are a part of each file: the first line of a CSV file has the names.
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("x,y\n" + "".join(f"{row},text {row}\n" for row in range(9)))
        (tmp_path / f"{number}.jsonl").write_text("".join(f'{{"x": {row}}}\n' for row in range(9)))
    assert verify(str(tmp_path / "*.csv")).is_intact
    assert verify(str(tmp_path / "*.jsonl")).is_intact
