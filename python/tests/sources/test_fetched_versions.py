"""Processes that share a cache read one version of each object, where the index has no hashes that show the right one."""

import os
import subprocess
import sys

import pytest

import forebay as fb

ROWS = 3
SHARD = "shard.00000.mds"

READ = """
import sys
import forebay as fb
remote, local = sys.argv[1:]
with fb.Loader(remote=remote, local=local, batch_size=1, framework="numpy") as loader:
    print("open", flush=True)
    for _ in sys.stdin:
        try:
            print("read", [batch["x"][0].decode() for batch in loader], flush=True)
        except fb.StaleError as error:
            print("StaleError", error, flush=True)
"""


def write(folder, text):
    """A data set of one shard, which differs by its contents alone."""
    with fb.MDSWriter(out=folder, columns={"x": "bytes"}) as writer:
        for _ in range(ROWS):
            writer.write({"x": text})
    return folder


class Process:
    """Loader in a separate process, which reads an epoch for each line that it gets."""

    def __init__(self, remote, local):
        env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", READ, str(remote), str(local)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)
        assert self.process.stdout.readline() == "open\n"

    def epoch(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0


@pytest.fixture
def place(tmp_path):
    """Remote, cache, and a function that replaces the shard in the remote and removes it from the cache."""
    remote, local = write(tmp_path / "remote", b"one"), tmp_path / "local"
    try:
        os.setxattr(remote, "user.forebay.test", b"1")
    except OSError as error:
        pytest.skip(f"the file system has no attributes: {error}")
    replacement = write(tmp_path / "replacement", b"two") / SHARD
    assert (remote / "index.json").read_bytes() == (tmp_path / "replacement/index.json").read_bytes()

    def replace():
        os.replace(replacement, remote / SHARD)
        os.remove(local / SHARD)

    return remote, local, replace


def test_a_process_reads_no_second_version_that_a_different_process_has_fetched(place):
    remote, local, replace = place
    first = Process(remote, local)
    assert first.epoch() == f"read {['one'] * ROWS}"
    replace()
    second = Process(remote, local)
    assert second.epoch() == f"read {['two'] * ROWS}"
    found = first.epoch()
    assert found.startswith("StaleError") and "replaced or changed" in found and SHARD in found, found
    first.end()
    second.end()


def test_a_process_fetches_no_second_version_of_a_shard_that_a_different_process_has_fetched_for_it(place):
    remote, local, replace = place
    # Opened before the shard is published, so that its version is known to be of this job.
    second = Process(remote, local)
    first = Process(remote, local)
    assert [first.epoch(), second.epoch()] == [f"read {['one'] * ROWS}"] * 2
    replace()
    for process in (first, second):
        found = process.epoch()
        assert found.startswith("StaleError") and "replaced or changed" in found and SHARD in found, found
        process.end()


def test_a_shard_of_an_earlier_job_may_be_fetched_again(place):
    remote, local, replace = place
    earlier = Process(remote, local)
    assert earlier.epoch() == f"read {['one'] * ROWS}"
    earlier.end()
    old = 1_000_000_000
    os.utime(local / SHARD, (old, old))
    later = Process(remote, local)
    assert later.epoch() == f"read {['one'] * ROWS}"
    replace()
    assert later.epoch() == f"read {['two'] * ROWS}"
    later.end()


def test_tags_of_different_remotes_are_not_compared(place, tmp_path):
    remote, local, _ = place
    first = Process(remote, local)
    assert first.epoch() == f"read {['one'] * ROWS}"
    first.end()
    second = Process(write(tmp_path / "copy", b"one"), local)
    assert second.epoch() == f"read {['one'] * ROWS}"
    os.remove(local / SHARD)
    assert second.epoch() == f"read {['one'] * ROWS}"
    second.end()
