"""Faults of the reference that this package must not have. Each test first describes the reference."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from number_sets import numbers, write
from rank_processes import FORKS
from torch.utils.data import DataLoader

from forebay.streaming import Stream, StreamingDataLoader, StreamingDataset


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote")


def lose(remote, number):
    os.remove(os.path.join(remote, f"shard.{number:05}.mds"))


def test_a_failed_download_raises_at_once(remote, tmp_path):
    """The reference's epoch ends in silence where the shard is missing; only the next one raises."""
    lose(remote, 2)
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4)
    with pytest.raises(FileNotFoundError, match="shard.00002.mds"):
        numbers(dataset)


def test_ctrl_c_during_a_download_loses_no_sample(remote, tmp_path):
    """The reference's iterator is a generator, which an exception ends: its epoch is over."""
    local = tmp_path / "local"
    local.mkdir()
    shutil.copy(os.path.join(remote, "index.json"), local)
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def interrupt():
            connections.append(server.accept()[0])
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        arguments = {"batch_size": 4, "num_canonical_nodes": 1, "predownload": 0}
        samples = iter(StreamingDataset(remote=url, local=str(local), **arguments))
        with pytest.raises(KeyboardInterrupt):
            next(samples)
        interrupting.join()
        shutil.copytree(remote, local, dirs_exist_ok=True)
        assert numbers(samples) == list(range(117))
        connections.pop().close()


def test_a_sample_is_read_again_after_its_shard_could_not_be_fetched(remote, tmp_path):
    """The reference's iterator is over after an exception."""
    shard = os.path.join(remote, "shard.00000.mds")
    os.rename(shard, shard + ".away")
    arguments = {"batch_size": 4, "num_canonical_nodes": 1, "predownload": 0}
    samples = iter(StreamingDataset(remote=remote, local=str(tmp_path / "local"), **arguments))
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="shard.00000.mds"):
            next(samples)
    os.rename(shard + ".away", shard)
    assert numbers(samples) == list(range(117))


def test_no_worker_waits_for_a_shard_that_one_could_not_fetch(remote, tmp_path):
    """The reference leaves the shard marked as being fetched, and the remaining workers wait for it forever."""
    lose(remote, 0)
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=1, num_canonical_nodes=1)
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="shard.00000.mds"):
            list(DataLoader(dataset, batch_size=1, num_workers=2, timeout=600))


def test_shards_without_a_remote_are_never_evicted(remote, tmp_path):
    """The reference evicts the only copy when a second stream of the data set needs room."""
    only_copy = write(tmp_path / "only copy")
    files = sorted(os.listdir(only_copy))
    streams = [Stream(local=only_copy), Stream(remote=remote, local=str(tmp_path / "local"))]
    # A folder, its index and four shards, in blocks of the disk.
    dataset = StreamingDataset(streams=streams, batch_size=4, cache_limit=8 * 4096)
    assert len(numbers(dataset)) == 234
    assert sorted(os.listdir(only_copy)) == files
    with pytest.raises(ValueError, match="only copy"):
        dataset.evict_shard(0)
    assert sorted(os.listdir(only_copy)) == files


def test_the_compressed_file_of_an_unpacked_shard_is_removed(tmp_path):
    """The reference deletes the raw file when it starts, keeps the compressed one, and unpacks it again."""
    remote, local = write(tmp_path / "remote", compression="zstd"), tmp_path / "local"
    numbers(StreamingDataset(remote=remote, local=str(local), batch_size=4, keep_zip=True))
    assert (local / "shard.00000.mds").exists() and (local / "shard.00000.mds.zstd").exists()
    raw = (local / "shard.00000.mds").stat().st_ino
    assert len(numbers(StreamingDataset(remote=remote, local=str(local), batch_size=4))) == 117
    assert (local / "shard.00000.mds").stat().st_ino == raw
    assert not (local / "shard.00000.mds.zstd").exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_checkpoint_at_the_end_of_an_epoch_resumes_at_the_next(remote, tmp_path, workers):
    """The reference raises "Resuming further into the dataset", where canonical nodes have made the epoch longer."""
    arguments = {"remote": remote, "batch_size": 4, "num_canonical_nodes": 64, "shuffle": True}
    dataset = StreamingDataset(local=str(tmp_path / "a"), **arguments)
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=workers)
    assert sum(len(batch["number"]) for batch in loader) == 128
    state = loader.state_dict()
    following = [batch["number"].tolist() for batch in loader]
    resumed = StreamingDataLoader(
        StreamingDataset(local=str(tmp_path / "b"), **arguments), batch_size=4, num_workers=workers
    )
    resumed.load_state_dict(state)
    assert list(resumed) == []
    assert [batch["number"].tolist() for batch in resumed] == following


@pytest.mark.parametrize("workers", [0, 2])
def test_a_checkpoint_among_the_positions_that_canonical_nodes_add_resumes_there(tmp_path, workers):
    """The reference rejects it, because it is after the number of samples, and loses the rest of the epoch."""
    remote = write(tmp_path / "remote", 90)
    arguments = {"remote": remote, "batch_size": 4, "num_canonical_nodes": 64, "shuffle": True}

    def loader(name):
        dataset = StreamingDataset(local=str(tmp_path / name), **arguments)
        return StreamingDataLoader(dataset, batch_size=4, num_workers=workers)

    whole = [batch["number"].tolist() for batch in loader("whole")]
    assert len(whole) == 32
    stopped = loader("stopped")
    batches = iter(stopped)
    for _ in range(30):
        next(batches)
    state = stopped.state_dict()
    assert state["sample_in_epoch"] == 120
    del batches
    resumed = loader("resumed")
    resumed.load_state_dict(state)
    assert [batch["number"].tolist() for batch in resumed] == whole[30:]
    far = loader("far")
    far.load_state_dict({**state, "sample_in_epoch": 132})
    with pytest.raises(ValueError, match="Resuming further"):
        list(far)


def test_streams_can_be_used_in_a_second_data_set(remote, tmp_path):
    """The reference takes the weights that the first data set has derived for the user's own, and raises."""
    for weights in ({}, {"repeat": 2.0}, {"choose": 30}, {"proportion": 1.0}):
        stream = Stream(remote=remote, local=str(tmp_path / "local"), **weights)
        sizes = [StreamingDataset(streams=[stream], batch_size=4).epoch_size for _ in range(2)]
        assert sizes[0] == sizes[1]
    # Weights that the user sets afterwards count.
    stream = Stream(remote=remote, local=str(tmp_path / "local"))
    StreamingDataset(streams=[stream], batch_size=4)
    stream.choose = 10
    assert StreamingDataset(streams=[stream], batch_size=4).epoch_size == 10


def test_epochs_leak_no_memory(remote, tmp_path):
    """Each of the reference's iterators is kept until the process ends, with its ids: 16 MB an epoch here."""
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4, epoch_size="2M")

    def peak():
        for _ in range(4):
            next(iter(dataset))
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    first = peak()
    assert max(peak() for _ in range(3)) - first < 32 << 10, "KiB"


JOB = """
import sys
from forebay.streaming import StreamingDataset
dataset = StreamingDataset(remote=sys.argv[1], local=sys.argv[2], batch_size=4, num_canonical_nodes=1, predownload=4)
for number, sample in enumerate(dataset):
    print(sample["number"], flush=True)
    if number == 20 and sys.argv[3] == "wait":
        sys.stdin.read()
"""


def job(remote, local, what):
    command = [sys.executable, "-c", JOB, remote, str(local), what]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def shared_memory(pid):
    """The names in shared memory that a process has mapped, or open. Foreign names may come and go: they are the machine's."""
    mapped = {line.split(None, 5)[-1].strip() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()}
    opened = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            opened.add(os.readlink(file))
    return {name for name in mapped | opened if name.startswith("/dev/shm/")}


def test_a_killed_job_does_not_affect_the_next_one(remote, tmp_path):
    """The reference's names in shared memory stay, and the next job raises "Reused local directory"."""
    local = tmp_path / "local"
    with job(remote, local, "wait") as killed:
        assert [int(killed.stdout.readline()) for _ in range(21)] == list(range(21))
        assert shared_memory(killed.pid) == set()
        killed.send_signal(signal.SIGKILL)
    assert all(name == "index.json" or name.endswith(".mds") for name in os.listdir(local))
    output, _ = job(remote, local, "go").communicate(timeout=600)
    assert list(map(int, output.split())) == list(range(117))
    assert set(os.listdir(local)) == set(os.listdir(remote))


def test_two_jobs_may_share_a_folder(remote, tmp_path):
    """The reference rejects the second job."""
    jobs = [job(remote, tmp_path / "local", "go") for _ in range(2)]
    for one in jobs:
        output, _ = one.communicate(timeout=600)
        assert list(map(int, output.split())) == list(range(117))
    assert set(os.listdir(tmp_path / "local")) == set(os.listdir(remote))


def iterate(remote, local, rank, results):
    world = {"rank": rank, "world_size": 2, "local_rank": rank, "local_world_size": 2}
    dataset = StreamingDataset(remote=remote, local=local, batch_size=4, num_canonical_nodes=1, **world)
    # Rank 1 runs one more epoch, and no rank waits for it.
    results.put((rank, [sorted(numbers(dataset)) for _ in range(1 + rank)]))


def test_a_rank_that_runs_an_additional_epoch_does_not_wait_for_the_rest(remote, tmp_path):
    """The reference's ranks of a node wait at a barrier three times an epoch: a rank that continues alone hangs."""
    results = FORKS.SimpleQueue()
    ranks = [FORKS.Process(target=iterate, args=(remote, str(tmp_path / "local"), r, results)) for r in range(2)]
    for rank in ranks:
        rank.start()
    seen = dict(results.get() for _ in ranks)
    for rank in ranks:
        rank.join(600)
        assert rank.exitcode == 0
    assert [len(seen[rank]) for rank in range(2)] == [1, 2]
    assert set(seen[0][0]) | set(seen[1][0]) == set(range(117))
