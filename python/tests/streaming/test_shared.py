"""Named shared memory and the barrier, for programs that use them; ranks under torchrun."""

import itertools
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest
from number_sets import write
from torch.utils.data import DataLoader

from forebay.streaming import StreamingDataset
from forebay.streaming.base import distributed
from forebay.streaming.base.shared import SharedArray, SharedBarrier, SharedMemory, SharedScalar, get_shm_prefix, prefix
from forebay.streaming.base.world import World


@pytest.fixture
def name():
    """Name that only this test run uses."""
    return f"forebay-test-{os.getpid()}"


def test_shared_memory_is_opened_by_name_and_removed_only_by_its_creator(name):
    array = SharedArray((2, 3), np.int32, name)
    array[1] = [4, 5, 6]
    other = SharedArray((2, 3), np.int32, name)
    assert other[1].tolist() == [4, 5, 6] and len(other) == 2
    other.shm.cleanup()
    assert SharedMemory(name, create=False).buf[12] == 4
    with pytest.raises(FileExistsError):
        SharedMemory(name, create=True, size=8)
    array.shm.cleanup()
    with pytest.raises(FileNotFoundError):
        SharedMemory(name, create=False)


def test_a_shared_scalar_is_visible_to_all_processes(name):
    mine, theirs = SharedScalar(np.int64, name), SharedScalar(np.int64, name)
    mine.set(1 << 40)
    assert theirs.get() == 1 << 40
    theirs.arr.shm.cleanup()
    mine.arr.shm.cleanup()


def rounds(barrier, count, queue):
    for number in range(3):
        queue.put(number)
        barrier(count)


def test_no_process_passes_a_barrier_before_all_have_arrived(name, tmp_path):
    context = multiprocessing.get_context("fork")
    barrier, queue = SharedBarrier(str(tmp_path / "lock"), name), context.SimpleQueue()
    processes = [context.Process(target=rounds, args=(barrier, 3, queue)) for _ in range(3)]
    for process in processes:
        process.start()
    came = [queue.get() for _ in range(9)]
    for process in processes:
        process.join(600)
        assert process.exitcode == 0
    assert came == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    barrier._arr.shm.cleanup()


def test_a_local_folder_is_registered_once(tmp_path, monkeypatch):
    # Numbers that only this process on the machine takes or frees.
    monkeypatch.setattr(prefix, "_each_prefix_int", lambda: itertools.count(1000 * os.getpid()))
    folder, world = str(tmp_path), World(1, 1, 1, 0)
    first, block = get_shm_prefix([folder], ["remote"], world)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="Reused local directory"):
        get_shm_prefix([folder], ["remote"], world, retry=0)
    second, other = get_shm_prefix([folder], [None], world)
    assert second > first
    assert len(os.listdir("/proc/self/fd")) == descriptors + 2, "no block of a different process stays open"
    for registered in (block, other):
        registered.cleanup()
    with pytest.raises(ValueError, match="Reused local directory"):
        get_shm_prefix([folder, folder], ["remote", "remote"], world)


def test_collective_calls_of_a_single_process_return_its_values(monkeypatch):
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    distributed.barrier()
    assert distributed.all_gather_object(7) == [7]
    assert not distributed.maybe_init_dist()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="not initialised"):
        distributed.all_gather_object(7)


RANK = """
import sys
import torch.distributed as dist
from forebay.streaming import StreamingDataLoader, StreamingDataset
dist.init_process_group("gloo")
dataset = StreamingDataset(remote=sys.argv[1], local=sys.argv[2], batch_size=4, shuffle=True, num_canonical_nodes=2)
loader = StreamingDataLoader(dataset, batch_size=4, num_workers=1)
for epoch in range(2):
    seen, ranks = [int(number) for batch in loader for number in batch["number"]], [None, None]
    dist.all_gather_object(ranks, seen)
    assert len(ranks[0]) == len(ranks[1]) == 59 and set(ranks[0]) | set(ranks[1]) == set(range(117)), ranks
# Without it gloo's threads may drop the last answer while the interpreter ends, which aborts the process.
dist.destroy_process_group()
"""


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote")


def test_ranks_under_torchrun_share_a_folder_and_divide_each_epoch(remote, tmp_path):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = subprocess.run([*launcher, script, remote, tmp_path / "local"], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr


def test_workers_share_a_cache_limit(remote, tmp_path):
    local = tmp_path / "local"
    # The folder, its index and four shards, in blocks of the disk.
    limit = 8 * 4096
    dataset = StreamingDataset(remote=remote, local=str(local), batch_size=2, shuffle=True, cache_limit=limit)
    for _ in range(2):
        seen = []
        for batch in DataLoader(dataset, batch_size=2, num_workers=3):
            seen += batch["number"].tolist()
            assert dataset.cache_usage <= limit
        assert sorted(seen) == list(range(117))
