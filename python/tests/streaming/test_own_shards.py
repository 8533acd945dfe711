"""Programs with overrides that prepare shards, read them or iterate, in the forms that programs for the reference use."""

import contextlib
import copy
import fcntl
import itertools
import multiprocessing
import os
import shutil
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import numpy as np
import pytest
from number_sets import numbers, of_loader, write
from torch.utils.data import DataLoader

from forebay.streaming import LocalDataset, MDSWriter, Stream, StreamingDataset
from forebay.streaming.base import _locks
from forebay.streaming.base.dataset import _Iterator, _ShardState
from forebay.streaming.base.format.mds import MDSReader
from forebay.streaming.base.stream import streams_registry


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote", 100)


def batches(dataset, workers):
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0)
    return sorted(of_loader(loader))


def write_blocks(folder, count):
    """Writes shards of nearly a block of the disk each: the engine counts blocks, and the program lengths."""
    with MDSWriter(out=str(folder), columns={"number": "int", "more": "bytes"}, size_limit=1 << 12) as writer:
        for number in range(count):
            writer.write({"number": number, "more": bytes(130)})
    return str(folder)


class Copied(Stream):
    """Fetches shards itself, and records their numbers and the process."""

    def __init__(self, log, **arguments):
        super().__init__(**arguments)
        self.log = log

    def prepare_shard(self, shard):
        (raw, _), delta = shard.file_pairs[0], 0
        source, target = os.path.join(self.remote, raw.basename), os.path.join(self.local, self.split, raw.basename)
        with open(self.log, "a") as log:
            log.write(f"{raw.basename}\n")
        shutil.copy(source, target + ".copying")
        os.rename(target + ".copying", target)
        return delta + raw.bytes


def prepared(log):
    return sorted(log.read_text().split())


@pytest.mark.parametrize("workers", [0, 3])
def test_an_overridden_prepare_shard_is_called_once_for_each_shard(remote, tmp_path, workers):
    stream = Copied(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4, shuffle=True, num_canonical_nodes=1, predownload=16)
    for _ in range(2):
        assert batches(dataset, workers) == list(range(100))
    shards = [f"shard.{number:05}.mds" for number in range(dataset.num_shards)]
    assert prepared(tmp_path / "log") == shards
    assert sorted(os.listdir(tmp_path / "local")) == ["index.json", *shards]


def test_the_order_equals_the_order_of_a_stream_without_overrides(remote, tmp_path):
    arguments = {"batch_size": 4, "shuffle": True, "num_canonical_nodes": 1}
    plain = StreamingDataset(remote=remote, local=str(tmp_path / "plain"), **arguments)
    stream = Copied(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    own = StreamingDataset(streams=[stream], **arguments)
    for _ in range(2):
        assert numbers(own) == numbers(plain)
    own.load_state_dict(plain.state_dict(40, False))
    plain.load_state_dict(plain.state_dict(40, False))
    assert numbers(own) == numbers(plain)


class Checked(Stream):
    """Extends `prepare_shard` of its base class."""

    seen = None

    def prepare_shard(self, shard):
        Checked.seen.append(shard.file_pairs[0][0].basename)
        return super().prepare_shard(shard)


def test_an_override_may_call_the_engine_to_fetch(remote, tmp_path, monkeypatch):
    monkeypatch.setattr(Checked, "seen", [])
    streams_registry.register("checked", func=Checked)
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4, stream_name="checked")
    assert numbers(dataset) == list(range(100))
    assert sorted(Checked.seen) == sorted({name for name in os.listdir(remote) if name != "index.json"})
    assert dataset.cache_usage == sum(os.path.getsize(tmp_path / "local" / name) for name in os.listdir(remote))


class Every(Stream):
    """Takes every second shard of its index."""

    def get_shards(self, world, allow_unsafe_types):
        return list(super().get_shards(world, allow_unsafe_types))[::2]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_may_select_some_of_its_shards(remote, tmp_path, workers):
    local = str(tmp_path / "local")
    dataset = StreamingDataset(streams=[Every(remote=remote, local=local)], batch_size=4, num_canonical_nodes=1)
    whole = list(StreamingDataset(remote=remote, local=str(tmp_path / "whole")).shards)
    bounds = np.cumsum([0, *(shard.samples for shard in whole)])
    expected = [n for at in range(0, len(whole), 2) for n in range(bounds[at], bounds[at + 1])]
    assert dataset.num_samples == len(expected)
    assert batches(dataset, workers) == expected
    assert dataset[-1] == {"number": expected[-1]}
    assert len(os.listdir(local)) == 1 + len(whole[::2]), "the remaining shards are not fetched"


class Table:
    """A reader that is not a subclass of `Reader`: it returns rows of a separate file."""

    def __init__(self, path, first, samples):
        self.path, self.first, self.samples = path, first, samples

    def __getitem__(self, index):
        with open(self.path) as file:
            return {"number": int(file.read().split()[index])}

    def get_max_size(self):
        return 1000


class Tables:
    """A stream by its methods alone: it has no base class of ours."""

    remote, split = None, "tables"

    def __init__(self, local):
        self.local = local
        os.makedirs(os.path.join(local, self.split))
        self.tables = [Table(os.path.join(local, self.split, f"{n}.txt"), 10 * n, 10) for n in range(5)]
        self.calls = 0

    def apply_default(self, default):
        assert default["split"] is None

    def get_shards(self, world, allow_unsafe_types):
        return self.tables

    def set_up_local(self, shards, cache_usage_per_shard):
        for number, shard in enumerate(shards):
            cache_usage_per_shard[number] = os.path.getsize(shard.path) if os.path.exists(shard.path) else 0

    def prepare_shard(self, shard):
        self.calls += 1
        with open(shard.path, "w") as file:
            file.write(" ".join(str(shard.first + n) for n in range(shard.samples)))
        return os.path.getsize(shard.path)

    def get_index_size(self):
        return 0


@pytest.mark.parametrize("workers", [0, 2])
def test_an_object_with_the_methods_of_a_stream_is_accepted_as_one(tmp_path, workers):
    dataset = StreamingDataset(streams=[Tables(str(tmp_path))], batch_size=4, num_canonical_nodes=1)
    assert batches(dataset, workers) == list(range(50))
    assert batches(dataset, workers) == list(range(50))
    assert dataset.streams[0].calls == (0 if workers else 5)
    assert [dataset[at]["number"] for at in (0, 17, -1)] == [0, 17, 49]


def test_streams_of_both_kinds_mix(remote, tmp_path):
    own = Tables(str(tmp_path / "own"))
    engine = Stream(remote=remote, local=str(tmp_path / "local"))
    for streams in ([own, engine], [engine, own]):
        dataset = StreamingDataset(streams=streams, batch_size=4, shuffle=True, num_canonical_nodes=1)
        assert sorted(numbers(dataset)) == sorted([*range(50), *range(100)])
        dataset.evict_shard(int(dataset.shard_offset_per_stream[streams.index(engine)]))
        assert sorted(numbers(dataset)) == sorted([*range(50), *range(100)])
        del dataset


def test_the_cache_limit_holds_for_shards_that_an_override_prepares(tmp_path):
    remote = write(tmp_path / "remote", 300)
    shard_bytes = max(os.path.getsize(os.path.join(remote, name)) for name in os.listdir(remote) if name != "index.json")
    limit = os.path.getsize(os.path.join(remote, "index.json")) + 4 * shard_bytes
    most = []

    class Measured(Copied):
        def prepare_shard(self, shard):
            delta = super().prepare_shard(shard)
            # Only this process changes the folder during this time.
            most.append(sum(os.path.getsize(os.path.join(self.local, name)) for name in os.listdir(self.local)))
            return delta

    stream = Measured(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4, cache_limit=limit, num_canonical_nodes=1)
    assert dataset.num_shards > 4
    assert numbers(dataset) == list(range(300))
    assert len(most) >= dataset.num_shards and limit - 2 * shard_bytes < max(most) <= limit


def test_the_shards_of_the_engine_and_of_the_program_share_the_cache_limit(tmp_path):
    remotes = [write_blocks(tmp_path / "engine", 300), write_blocks(tmp_path / "own", 200)]
    locals_ = [tmp_path / "engine here", tmp_path / "own here"]
    sizes = [[os.path.getsize(os.path.join(remote, name)) for name in sorted(os.listdir(remote))] for remote in remotes]
    largest = max(max(shards) for _, *shards in sizes)
    limit = sum(index for index, *_ in sizes) + 9 * largest

    def size(file):
        # The engine may evict it at any time.
        with contextlib.suppress(FileNotFoundError):
            return os.path.getsize(file)
        return 0

    def here():
        return sum(size(folder / name) for folder in locals_ for name in os.listdir(folder))

    class Measured(Copied):
        def prepare_shard(self, shard):
            most.append(here())
            delta = super().prepare_shard(shard)
            most.append(here())
            return delta

    most = []
    streams = [Stream(remote=remotes[0], local=str(locals_[0]))]
    streams.append(Measured(tmp_path / "log", remote=remotes[1], local=str(locals_[1])))
    dataset = StreamingDataset(streams=streams, batch_size=4, shuffle=True, cache_limit=limit, num_canonical_nodes=1)
    expected = sorted([*range(300), *range(200)])
    found = []
    for sample in dataset:
        most.append(here())
        found.append(int(sample["number"]))
    assert sorted(found) == expected
    # The engine counts its folder and whole blocks of its index, too.
    assert limit - 6 * largest < max(most) <= limit


@pytest.mark.parametrize("is_late", [False, True])
def test_a_reader_that_is_assigned_in_the_engine_s_stream_shares_its_limit(tmp_path, is_late):
    """The program publishes that shard in a folder in which the engine evicts."""
    remotes = [write_blocks(tmp_path / "engine", 300), write_blocks(tmp_path / "own", 200)]
    sizes = [[os.path.getsize(os.path.join(remote, name)) for name in sorted(os.listdir(remote))] for remote in remotes]
    limit = sum(index for index, *_ in sizes) + 10 * max(max(shards) for _, *shards in sizes)
    streams = [Stream(remote=remotes[0], local=str(tmp_path / "engine here"))]
    streams.append(Copied(tmp_path / "log", remote=remotes[1], local=str(tmp_path / "own here")))
    dataset = StreamingDataset(streams=streams, batch_size=4, shuffle=True, cache_limit=limit, num_canonical_nodes=1)
    expected = sorted([*range(300), *range(200)])
    if is_late:
        assert batches(dataset, 0) == expected
    for shard in (0, 2, 3):
        dataset.shards[shard] = dataset.shards[shard]
    for _ in range(2):
        assert batches(dataset, 0) == expected


class Contested(MDSReader):
    """Reader of a shard that another process removes before each read, unless the folder is locked."""

    def __getitem__(self, at):
        with _locks.locked(self.dirname, None, blocking=False) as is_free:
            if is_free:
                self.evict()
        return super().__getitem__(at)


@pytest.mark.parametrize("is_own", [False, True])
def test_a_shard_that_foreign_processes_remove_is_read(tmp_path, is_own):
    remote, arguments = write(tmp_path / "remote", 100), {"local": str(tmp_path / "local")}
    stream = Copied(tmp_path / "log", remote=remote, **arguments) if is_own else Stream(remote=remote, **arguments)
    dataset = StreamingDataset(streams=[stream], batch_size=4, cache_limit="1mb", num_canonical_nodes=1)
    for shard in (0, 1):
        reader = copy.copy(dataset.shards[shard])
        reader.__class__ = Contested
        dataset.shards[shard] = reader
    assert batches(dataset, 0) == list(range(100))


def test_an_exception_in_an_overridden_prepare_shard_ends_the_epoch(remote, tmp_path):
    os.remove(os.path.join(remote, "shard.00002.mds"))
    stream = Copied(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4, num_canonical_nodes=1)
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="shard.00002.mds"):
            numbers(dataset)


class Forking(Copied):
    """An unrelated process is forked while a shard is prepared."""

    child = None

    def prepare_shard(self, shard):
        if self.child is None:
            wait_for, self.release = multiprocessing.get_context("fork").Pipe(duplex=False)
            self.child = multiprocessing.get_context("fork").Process(target=wait_for.recv)
            self.child.start()
        return super().prepare_shard(shard)


def test_a_child_forked_while_a_shard_is_prepared_does_not_keep_the_folder_s_lock(remote, tmp_path):
    stream = Forking(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4)
    assert dataset[0] == {"number": 0}
    try:
        assert stream.child.is_alive()
        folder = os.open(tmp_path / "local", os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
        assert dataset[99] == {"number": 99}
    finally:
        stream.release.send(None)
        stream.child.join()


class Fetched(Stream):
    """Fetches each file itself, from a folder that is not `remote`."""

    def __init__(self, source, log, **arguments):
        super().__init__(**arguments)
        self.source, self.log = source, log

    def _download_file(self, from_basename, to_basename=None):
        target = os.path.join(self.local, self.split, to_basename or from_basename)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(self.log, "a") as log:
            log.write(f"{from_basename}\n")
        return shutil.copy(os.path.join(self.source, from_basename), target)


class Watched(Stream):
    """Extends `_download_file` of its base class."""

    def __init__(self, log, **arguments):
        super().__init__(**arguments)
        self.log = log

    def _download_file(self, from_basename, to_basename=None):
        with open(self.log, "a") as log:
            log.write(f"{from_basename}\n")
        return super()._download_file(from_basename, to_basename)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("split", ["", "train"])
def test_an_overridden_download_is_called_once_for_each_file(tmp_path, workers, split):
    source = write(tmp_path / "remote" / split, 100, compression="zstd")
    for kind, arguments in (
        (Fetched, {"source": source, "remote": "s3://nowhere/at-all"}),
        (Watched, {"remote": str(tmp_path / "remote")}),
    ):
        log, local = tmp_path / f"{kind.__name__}.log", tmp_path / kind.__name__
        stream = kind(log=log, local=str(local), split=split, **arguments)
        dataset = StreamingDataset(streams=[stream], batch_size=4, num_canonical_nodes=1)
        for _ in range(2):
            assert batches(dataset, workers) == list(range(100))
        shards = [f"shard.{number:05}.mds" for number in range(dataset.num_shards)]
        assert prepared(log) == ["index.json", *(f"{name}.zstd" for name in shards)]
        assert sorted(os.listdir(local / split)) == ["index.json", *shards]


def test_an_exception_in_an_overridden_download_has_its_cause(remote, tmp_path):
    stream = Fetched(str(tmp_path), tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    with pytest.raises(FileNotFoundError, match="index.json"):
        StreamingDataset(streams=[stream], batch_size=4)


class InParts(Stream):
    """Extends the preparation of each file of a shard."""

    def __init__(self, log, **arguments):
        super().__init__(**arguments)
        self.log = log

    def _prepare_shard_part(self, raw_info, zip_info=None, compression=None):
        with open(self.log, "a") as log:
            log.write(f"{raw_info.basename}\n")
        return super()._prepare_shard_part(raw_info, zip_info, compression)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_overridden_prepare_shard_part_is_called_once_for_each_file(tmp_path, workers):
    remote = write(tmp_path / "remote", 100, compression="zstd")
    stream = InParts(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    dataset = StreamingDataset(streams=[stream], batch_size=4, num_canonical_nodes=1)
    assert batches(dataset, workers) == list(range(100))
    shards = [f"shard.{number:05}.mds" for number in range(dataset.num_shards)]
    assert prepared(tmp_path / "log") == shards
    assert sorted(os.listdir(tmp_path / "local")) == ["index.json", *shards]


class Counting(StreamingDataset):
    """Counts the ids that it has returned, like a copy of the reference's `_each_sample_id`."""

    def _each_sample_id(self, it):
        while it.yield_index < it.total and not it.should_exit():
            sample_id = it.sample_ids[it.yield_index]
            it.yield_index += 1
            if sample_id != -1:
                yield int(sample_id)


class Stopping(StreamingDataset):
    """Ends each epoch early."""

    def _each_sample_id(self, it):
        return itertools.islice(super()._each_sample_id(it), 10)


def test_an_override_of_each_sample_id_is_used(remote, tmp_path):
    def made(kind):
        stream = Copied(tmp_path / "log", remote=remote, local=str(tmp_path / kind.__name__))
        return kind(streams=[stream], batch_size=4, predownload=8)

    counting, stopping = made(Counting), made(Stopping)
    for _ in range(2):
        assert numbers(counting) == list(range(100))
        assert numbers(stopping) == list(range(10))


class Failing(StreamingDataset):
    """Overrides the preparing thread, and fails in it."""

    def _prepare_thread(self, it):
        raise OSError("the disk is full")


def test_an_exception_in_an_overridden_prepare_thread_does_not_shorten_the_epoch(remote, tmp_path):
    stream = Copied(tmp_path / "log", remote=remote, local=str(tmp_path / "local"))
    with pytest.raises(OSError, match="the disk is full"):
        numbers(Failing(streams=[stream], batch_size=4))


class WithSideFiles(StreamingDataset):
    """Fetches a second file along with each shard, as data sets of videos do."""

    side_files = None

    def prepare_shard(self, shard_id, blocking=True):
        super().prepare_shard(shard_id, blocking)
        self.side_files.add(shard_id)


def test_an_overridden_prepare_shard_of_a_data_set_is_called_for_each_shard(remote, tmp_path):
    dataset = WithSideFiles(remote=remote, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1)
    dataset.side_files = set()
    assert numbers(dataset) == list(range(100))
    assert dataset.side_files == set(range(dataset.num_shards))
    dataset.side_files.clear()
    assert dataset[0] == {"number": 0}
    assert not dataset.side_files, "files that are here need nothing"


class Selecting(StreamingDataset):
    """Iterates with a copy of the reference's `__iter__` that skips samples."""

    def __iter__(self):
        if hasattr(self, "_iterator"):
            self._iterator.exit()
        if not hasattr(self, "_executor"):
            self._executor = ThreadPoolExecutor()
        if not hasattr(self, "_event"):
            self._event = Event()
        elif self._event.is_set():
            raise RuntimeError("Background thread failed. Check other traceback.")
        self._unique_worker_world = self._unique_rank_world.detect_workers()
        self._parallel_worker_world = self._parallel_rank_world.detect_workers()
        epoch, sample_in_epoch = self._resume_incr_epoch()
        sample_ids = self._get_work(epoch, sample_in_epoch)
        if not len(sample_ids):
            return
        self._iterator = it = _Iterator(sample_ids)
        prepare_future = self._executor.submit(self._prepare_thread, it)
        prepare_future.add_done_callback(self.on_exception)
        ready_future = self._executor.submit(self._ready_thread, it)
        ready_future.add_done_callback(self.on_exception)
        for sample_id in self._each_sample_id(it):
            shard_id, _ = self.spanner[sample_id]
            assert self.shards[shard_id].dirname == self.streams[0].local
            if sample_id % 3 == 0:
                yield self[sample_id]
        wait([prepare_future, ready_future], return_when="FIRST_EXCEPTION")
        it.exit()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_copy_of_the_reference_s_iteration_runs(remote, tmp_path, workers):
    dataset = Selecting(remote=remote, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1, predownload=8)
    for _ in range(2):
        assert batches(dataset, workers) == list(range(0, 100, 3))
    next(iter(dataset))
    assert batches(dataset, 0) == list(range(0, 100, 3)), "a new epoch ends the one before it"


def test_a_copied_iteration_raises_the_exception_of_a_download(remote, tmp_path):
    """The reference's iteration ends without an exception."""
    os.remove(os.path.join(remote, "shard.00003.mds"))
    dataset = Selecting(remote=remote, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1)
    with pytest.raises(FileNotFoundError, match="shard.00003.mds"):
        numbers(dataset)


def leave(remote, local):
    for sample in Selecting(remote=remote, local=local, batch_size=4, num_canonical_nodes=1, predownload=4):
        return sample


def test_a_process_can_exit_during_a_copied_iteration(remote, tmp_path):
    """Its executor waits for a thread that waits for space under the limit."""
    process = multiprocessing.get_context("spawn").Process(target=leave, args=(remote, str(tmp_path / "local")))
    process.start()
    process.join(600)
    assert process.exitcode == 0


def test_names_of_lock_files_depend_on_the_folder(remote, tmp_path):
    one = StreamingDataset(remote=remote, local=str(tmp_path / "one"))
    other = StreamingDataset(remote=remote, local=str(tmp_path / "second"))
    assert one._shm_prefix_int != other._shm_prefix_int
    assert os.path.basename(one._filelock_root) == "streaming"
    assert LocalDataset(remote)[3] == {"number": 3}


def test_the_state_of_a_shard_follows_the_disk_and_needs_no_reset(remote, tmp_path):
    """The reference leaves a shard marked as being prepared after a failed download; programs then reset the mark, under
    its lock."""
    os.rename(os.path.join(remote, "shard.00001.mds"), tmp_path / "away")
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"))
    dataset.prepare_shard(0)
    with pytest.raises(FileNotFoundError):
        dataset.prepare_shard(1)
    with dataset._cache_filelock:
        assert dataset._shard_states[0] == _ShardState.LOCAL
        assert dataset._shard_states[1] == _ShardState.REMOTE
        dataset._shard_states[1] = _ShardState.REMOTE
    os.rename(tmp_path / "away", os.path.join(remote, "shard.00001.mds"))
    dataset.prepare_shard(1)
    assert list(dataset._shard_states[:3]) == [_ShardState.LOCAL, _ShardState.LOCAL, _ShardState.REMOTE]
    own = StreamingDataset(streams=[Tables(str(tmp_path / "own"))])
    assert set(own._shard_states) == {_ShardState.INVALID}
