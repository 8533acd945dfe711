"""Samples and costs of the processes of one job: workers, ranks, and processes that wait for one of them."""

import contextlib
import http.server
import multiprocessing
import os
import pathlib
import resource
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
import torch
from number_sets import of_loader, write
from torch.utils.data import DataLoader

from forebay.streaming import StreamingDataLoader, StreamingDataset
from forebay.streaming.base.storage.download import CloudDownloader

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote")


def in_children(body, *arguments):
    """Runs `body(*arguments)` in a forked child for each of `arguments`; their results, in order."""
    results = FORK.SimpleQueue()

    def child(number, argument):
        try:
            results.put((number, body(argument), None))
        except BaseException as error:
            results.put((number, None, repr(error)))
            raise

    children = [FORK.Process(target=child, args=pair) for pair in enumerate(arguments)]
    for one in children:
        one.start()
    found = sorted(results.get() for _ in children)
    for one in children:
        one.join(600)
    assert [error for _, _, error in found if error] == []
    return [result for _, result, _ in found]


class Reference:
    """The order that the reference plans for one data set."""

    def __init__(self, module, remote, local, **arguments):
        self._world = module("base.world").World
        self._generate_work = module("base.batching").generate_work
        self._dataset = module("base.dataset").StreamingDataset(remote=remote, local=str(local), **arguments)

    def ids(self, epoch, rank=0, ranks=1, workers=1, batch_size=4, state=None):
        """Samples of a rank's DataLoader on one node: its workers take turns, batch by batch."""
        world = self._world(num_nodes=1, ranks_per_node=ranks, workers_per_rank=workers, worker=rank * workers)
        self._dataset.batch_size = batch_size
        if state is not None:
            self._dataset.load_state_dict(state)
        epoch, done = self._dataset._resume(world, epoch)
        work = self._generate_work("random", self._dataset, world, epoch, done)[0, rank]
        ids = work.transpose(1, 0, 2).flatten()
        return ids[ids >= 0].tolist()


def test_eight_persistent_workers_get_the_references_epochs(reference, remote, tmp_path):
    arguments = {"batch_size": 4, "shuffle": True, "num_canonical_nodes": 2}
    theirs = Reference(reference, remote, tmp_path / "theirs", **arguments)
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "ours"), **arguments)
    loader = DataLoader(dataset, batch_size=4, num_workers=8, persistent_workers=True)
    epochs = [of_loader(loader) for _ in range(3)]
    assert epochs == [theirs.ids(epoch, workers=8) for epoch in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_ranks_of_a_process_group_with_workers_get_the_samples_of_the_references_ranks(reference, remote, tmp_path):
    arguments = {"batch_size": 4, "shuffle": True, "num_canonical_nodes": 3}

    def rank_of_group(rank):
        # As torchrun sets them.
        os.environ.update(RANK=str(rank), WORLD_SIZE="3", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="3")
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{tmp_path}/meeting", rank=rank, world_size=3
        )
        # All ranks share the folder; the data set finds its folder by itself.
        dataset = StreamingDataset(remote=remote, local=str(tmp_path / "ours"), **arguments)
        loader = StreamingDataLoader(dataset, batch_size=4, num_workers=2)
        epochs = [of_loader(loader) for _ in range(2)]
        gathered = [None] * 3
        torch.distributed.all_gather_object(gathered, epochs)
        torch.distributed.destroy_process_group()
        return gathered

    gathered = in_children(rank_of_group, 0, 1, 2)
    assert gathered[0] == gathered[1] == gathered[2]
    theirs = Reference(reference, remote, tmp_path / "theirs", **arguments)
    for rank, epochs in enumerate(gathered[0]):
        assert epochs == [theirs.ids(epoch, rank, ranks=3, workers=2) for epoch in range(2)], rank
    first = [number for epochs in gathered[0] for number in epochs[0]]
    assert set(first) == set(range(117))


def ranks_world(rank, ranks):
    return {"rank": rank, "world_size": ranks, "local_rank": rank, "local_world_size": ranks}


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_checkpoint_of_four_ranks_resumes_as_with_the_reference(reference, remote, tmp_path, ranks, workers):
    arguments = {"shuffle": True, "num_canonical_nodes": 4}
    loader = StreamingDataLoader(
        StreamingDataset(remote=remote, local=str(tmp_path / "before"), batch_size=6, **arguments, **ranks_world(1, 4)),
        batch_size=6,
        num_workers=workers,
    )
    batches = iter(loader)
    for _ in range(2):
        next(batches)
    state = loader.state_dict()
    assert state["sample_in_epoch"] == 48
    theirs = Reference(reference, remote, tmp_path / "theirs", batch_size=6, **arguments)
    seen = set()
    for rank in range(ranks):
        size = 24 // ranks
        resumed = StreamingDataset(
            remote=remote, local=str(tmp_path / "after"), batch_size=size, **arguments, **ranks_world(rank, ranks)
        )
        # Only the first rank goes through workers: starting them for each takes the test's time.
        alone = workers if rank == 0 else 0
        loader = StreamingDataLoader(resumed, batch_size=size, num_workers=alone)
        loader.load_state_dict(state)
        ids = of_loader(loader)
        assert ids == theirs.ids(0, rank, ranks=ranks, workers=max(alone, 1), batch_size=size, state=state), rank
        seen.update(ids)
        del resumed, loader
    assert len(seen) >= 117 - 48


class Stalling(http.server.SimpleHTTPRequestHandler):
    """Serves the index at once and a shard when `go` is set."""

    def do_GET(self):
        if self.path.endswith(".mds"):
            self.server.asked.set()
            self.server.go.wait()
        super().do_GET()

    def do_HEAD(self):
        super().do_HEAD()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def stalling_server(folder):
    def handler(*arguments):
        return Stalling(*arguments, directory=folder)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.asked, server.go = threading.Event(), threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.go.set()
            server.shutdown()
            thread.join()


def sleeps(pid):
    """Number of times that each thread of a process has slept so far."""
    counts = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        name = status.split("\n", 1)[0].split("\t")[1]
        counts[task.name, name] = int(status.split("\nvoluntary_ctxt_switches:\t")[1].split("\n")[0])
    return counts


class OverHttp(CloudDownloader):
    """Scheme that the engine has no client for."""

    @staticmethod
    def _client_identifier():
        return "over-http"

    def clean_up(self):
        pass

    def _download_file_impl(self, remote, local, timeout):
        urllib.request.urlretrieve(remote.removeprefix("over-"), local)


@pytest.mark.parametrize("scheme", ["http", "over-http"])
def test_a_process_that_waits_for_a_shard_wakes_up_at_most_four_times_a_second(remote, tmp_path, scheme):
    """The reference's waits poll every 7 milliseconds."""
    with stalling_server(remote) as server:
        url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        results = FORK.SimpleQueue()

        def read(announce):
            dataset = StreamingDataset(remote=url, local=str(tmp_path / "local"), batch_size=4)
            announce.set()
            results.put(int(dataset[5]["number"]))

        ready = [FORK.Event() for _ in range(2)]
        first = FORK.Process(target=read, args=(ready[0],))
        first.start()
        # The first one has the shard claimed; the second waits for the first.
        assert server.asked.wait(600)
        second = FORK.Process(target=read, args=(ready[1],))
        second.start()
        assert ready[1].wait(600)
        for process in (first, second):
            while not any(name == "forebay-call" for _, name in sleeps(process.pid)):
                assert process.is_alive()
            before, begin = sleeps(process.pid), time.monotonic()
            # Nothing sets it before the end: this is the time over which is counted. A slow machine makes fewer
            # wake-ups.
            server.go.wait(2)
            after, seconds = sleeps(process.pid), time.monotonic() - begin
            for thread, count in after.items():
                # Two of the thread's start may fall into the time.
                assert count - before.get(thread, 0) <= 4 * seconds + 2, thread
        server.go.set()
        assert [results.get(), results.get()] == [5, 5]
        for process in (first, second):
            process.join(600)
            assert process.exitcode == 0


def descriptors_beyond_a_quarter(remote, local):
    """Descriptors of an epoch beyond a quarter of the 256 that this process may open."""
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    dataset = StreamingDataset(
        remote=None if local == remote else remote, local=local, batch_size=4, num_canonical_nodes=1, shuffle=True
    )
    assert dataset.num_shards > 256
    seen, most = [], 0
    for sample in dataset:
        seen.append(sample["number"])
        most = max(most, len(os.listdir("/proc/self/fd")))
    assert sorted(seen) == list(range(900))
    # Some descriptors are not of shards: locks, sockets, the listing itself.
    return most - before - 256 // 4 - 16


def test_open_shards_use_at_most_a_quarter_of_the_descriptors(tmp_path):
    """The shards kept open are bounded, whatever their number."""
    remote = write(tmp_path / "remote", count=900, size_limit=190)
    here = pathlib.Path(__file__)
    program = f"""
import sys
sys.path.insert(0, {str(here.parent)!r})
from {here.stem} import descriptors_beyond_a_quarter
print(descriptors_beyond_a_quarter(*sys.argv[1:]))
"""
    # Directly from the data's folder, and through a local folder that fills; in processes that inherit no descriptors.
    for local in (remote, str(tmp_path / "local")):
        command = [sys.executable, "-c", program, remote, local]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        assert int(done.stdout) <= 0
