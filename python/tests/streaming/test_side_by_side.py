"""Downloads through downloader classes, and shards that programs prepare: several at a time, and their files after a
failure."""

import fcntl
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from number_sets import write

from forebay.streaming import Stream, StreamingDataset
from forebay.streaming.base import _locks
from forebay.streaming.base.storage import download

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote", 300)


def meeting(count):
    """A downloader that holds fetches of shards until `count` of them are in flight."""
    barrier, users = threading.Barrier(count), []

    class Meeting(download.CloudDownloader):
        @staticmethod
        def _client_identifier():
            return "meeting"

        def clean_up(self):
            pass

        def _download_file_impl(self, remote, local, timeout):
            if remote.endswith(".mds"):
                users.append(self)
                barrier.wait(600)
            shutil.copy(remote.removeprefix("meeting://"), local)

    return Meeting, users


def test_files_of_one_downloader_class_are_fetched_in_parallel(remote, tmp_path):
    _, users = meeting(4)
    dataset = StreamingDataset(remote=f"meeting://{remote}", local=str(tmp_path / "local"), batch_size=4)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(dataset.prepare_shard, range(4)))
        assert len({id(user) for user in users}) == 4, "no thread releases a connection that a second one uses"
        list(pool.map(dataset.prepare_shard, range(4, 8)))
    assert len(users) == 8 and len({id(user) for user in users}) == 4, "connections are used again"


def test_a_custom_downloader_is_called_unchanged_by_several_threads(remote, tmp_path):
    """As in the reference, the thread that prepares shards and the threads that read call it."""
    kind, users = meeting(3)
    stream, given = Stream(remote=f"meeting://{remote}", local=str(tmp_path / "local")), kind()
    stream._downloader = given
    dataset = StreamingDataset(streams=[stream], batch_size=4)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(dataset.prepare_shard, range(3)))
    assert users == [given] * 3


def test_a_download_beyond_the_size_in_the_index_is_rejected_while_it_runs(remote, tmp_path):
    ended, calls = threading.Event(), []

    class Endless(download.CloudDownloader):
        @staticmethod
        def _client_identifier():
            return "endless"

        def clean_up(self):
            pass

        def _download_file_impl(self, remote, local, timeout):
            if not remote.endswith(".mds"):
                shutil.copy(remote.removeprefix("endless://"), local)
                return
            calls.append(remote)
            try:
                with open(local, "wb") as file:
                    while True:
                        file.truncate(os.fstat(file.fileno()).st_size + (16 << 20))
                        # The limit of the test, not a wait: it is never set.
                        assert not ended.wait(0.01)
            finally:
                ended.set()

    dataset = StreamingDataset(remote=f"endless://{remote}", local=str(tmp_path / "local"), batch_size=4)
    bytes_ = os.path.getsize(os.path.join(remote, "shard.00000.mds"))
    with pytest.raises(OSError, match=rf"bytes have arrived already, and {bytes_} were expected.*shard\.00000\.mds"):
        dataset[0]
    assert ended.wait(600), "its thread was asked to stop"
    assert len(calls) == 1, "it is not tried again"


JOB = """
import os, shutil, signal, sys
from forebay.streaming import StreamingDataset
from forebay.streaming.base.storage.download import CloudDownloader

class Shelf(CloudDownloader):
    @staticmethod
    def _client_identifier():
        return "shelf"

    def clean_up(self):
        pass

    def _download_file_impl(self, remote, local, timeout):
        if remote.endswith(".mds") and sys.argv[3] != "go":
            with open(local, "wb") as file:
                file.write(b"half of it")
            print("half", flush=True)
            if sys.argv[3] == "interrupt":
                os.kill(os.getpid(), signal.SIGINT)
            os.read(0, 1)
        shutil.copy(remote.removeprefix("shelf://"), local)

dataset = StreamingDataset(remote=f"shelf://{sys.argv[1]}", local=sys.argv[2], batch_size=4, predownload=0)
print(len(list(dataset)), flush=True)
"""


@pytest.fixture
def job(remote, tmp_path):
    """Starts a process that downloads into its own folder for temporary files: "go" completes, anything else stops
    in the middle."""
    (tmp_path / "temporary").mkdir()

    def start(what, local="local"):
        return subprocess.Popen(
            [sys.executable, "-c", JOB, remote, str(tmp_path / local), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        )

    return start


def test_the_next_download_removes_the_files_of_a_killed_process(job, tmp_path):
    def halves():
        return list((tmp_path / "temporary").glob("**/shard.*"))

    killed, other = job("stop"), job("stop", "second")
    assert killed.stdout.readline() == other.stdout.readline() == "half\n"
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=600)
    assert len(halves()) == 2
    output, errors = job("go").communicate(timeout=600)
    assert output == "300\n", errors
    assert len(halves()) == 1, "the file of a living process stays"
    output, errors = other.communicate("x", timeout=600)
    assert output.endswith("300\n"), errors
    assert os.listdir(tmp_path / "temporary") == []


def test_ctrl_c_during_a_download_ends_the_process_and_removes_its_files(job, tmp_path):
    interrupted = job("interrupt")
    # Its end does not end the wait: no thread writes to it.
    assert interrupted.wait(600) not in (0, None)
    with interrupted:
        assert "KeyboardInterrupt" in interrupted.stderr.read()
    assert os.listdir(tmp_path / "temporary") == []
    assert os.listdir(tmp_path / "local") == ["index.json"]


class Meeting(Stream):
    """Prepares shards only together, as many as `barrier` waits for."""

    barrier = None

    def prepare_shard(self, shard):
        raw, _ = shard.file_pairs[0]
        self.barrier.wait(600)
        shutil.copy(os.path.join(self.remote, raw.basename), os.path.join(self.local, raw.basename))
        return raw.bytes


def prepared_by_threads(dataset):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(dataset.prepare_shard, range(2)))


def prepared_by_processes(dataset):
    children = [FORK.Process(target=dataset.prepare_shard, args=(number,)) for number in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0


@pytest.mark.parametrize("prepare", [prepared_by_threads, prepared_by_processes])
def test_shards_that_an_override_prepares_are_prepared_in_parallel(remote, tmp_path, monkeypatch, prepare):
    monkeypatch.setattr(Meeting, "barrier", FORK.Barrier(2))
    stream = Meeting(remote=remote, local=str(tmp_path / "local"))
    prepare(StreamingDataset(streams=[stream], batch_size=4))
    assert sorted(os.listdir(tmp_path / "local")) == ["index.json", "shard.00000.mds", "shard.00001.mds"]


@pytest.mark.parametrize("cache_limit", [None, "1mb"])
def test_a_shard_is_prepared_by_one_thread_and_not_during_an_eviction(remote, tmp_path, cache_limit):
    seen = {}

    class Looking(Meeting):
        def prepare_shard(self, shard):
            for number in range(2):
                with _locks.locked(self.local, f"shard.{number:05}.mds", blocking=False) as is_free:
                    seen[number] = is_free
            # A lock that a second thread waits for stays locked after a check.
            self.barrier = threading.Barrier(1)
            return super().prepare_shard(shard)

    stream = Looking(remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4, cache_limit=cache_limit)
    assert dataset[0] == {"number": 0}
    assert seen == {0: False, 1: cache_limit is None}


def test_shards_are_locked_by_name_if_the_index_is_missing_or_read_only(remote, tmp_path, monkeypatch):
    open_file = os.open

    def refuse(path, flags, *arguments, **named):
        if flags & os.O_RDWR:
            raise PermissionError(path)
        return open_file(path, flags, *arguments, **named)

    monkeypatch.setattr(os, "open", refuse)
    for folder in (remote, str(tmp_path / "new")):
        with _locks.locked(folder, "one", blocking=True) as is_ours:
            assert is_ours
            for name in ("one", "second", None):
                with _locks.locked(folder, name, blocking=False) as is_free:
                    assert not is_free
        with _locks.locked(folder, "one", blocking=False) as is_free:
            assert is_free


def test_the_lock_of_a_folder_excludes_the_locks_of_its_shards(remote):
    with _locks.locked(remote, "one", blocking=True):
        for name, expected in (("one", False), ("second", True), (None, False)):
            with _locks.locked(remote, name, blocking=False) as is_free:
                assert is_free == expected
    with _locks.locked(remote, None, blocking=True):
        for name in ("one", None):
            with _locks.locked(remote, name, blocking=False) as is_free:
                assert not is_free
    folder = os.open(remote, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(folder)
