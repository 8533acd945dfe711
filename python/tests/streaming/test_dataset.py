"""StreamingDataset and its loader: equal to the reference's in samples and order, alone, in workers, across ranks and
runs.

Faults of the reference are tested in test_faults.py.
"""

import gc
import json
import multiprocessing
import os
import pathlib
import pickle
import shutil
import weakref

import numpy as np
import pytest
import torch
from number_sets import numbers, of_loader
from torch.utils.data import DataLoader

import forebay
from forebay.streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from forebay.streaming.base import _shards

COLUMNS = {"number": "int", "text": "str", "tokens": "ndarray:uint16:4", "weight": "float32", "bytes": "bytes"}


def sample(number):
    return {
        "number": number,
        "text": f"sample {number}",
        "tokens": np.arange(4, dtype=np.uint16) + number,
        "weight": np.float32(number / 3),
        "bytes": bytes([number % 256]) * (number % 7),
    }


def write(folder, count, offset=0, **kwargs):
    with MDSWriter(out=str(folder), columns=COLUMNS, size_limit=1 << 10, **kwargs) as writer:
        for number in range(offset, offset + count):
            writer.write(sample(number))
    return str(folder)


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """117 samples in some ten shards."""
    return write(tmp_path_factory.mktemp("remote") / "data", 117)


@pytest.fixture(scope="module")
def remotes(tmp_path_factory):
    """Two streams."""
    root = tmp_path_factory.mktemp("remotes")
    return [write(root / "a", 90), write(root / "b", 131, offset=1000)]


def test_samples_come_back_as_they_were_written(remote, tmp_path):
    dataset = StreamingDataset(remote=remote, local=str(tmp_path), batch_size=4)
    for number in (0, 57, 116):
        found = dataset[number]
        for column, value in sample(number).items():
            assert type(found[column]) is type(value), column
            np.testing.assert_array_equal(found[column], value)
        assert not found["tokens"].flags.writeable
    assert numbers(dataset[[3, -1]]) == [3, 116]
    assert numbers(dataset[5:-100:4]) == [5, 9, 13]
    with pytest.raises(IndexError):
        dataset[117]


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_local_folder_contains_only_index_and_shards(tmp_path, compression):
    remote = write(tmp_path / "remote", 117, compression=compression)
    dataset = StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4)
    assert sorted(os.listdir(tmp_path / "local")) == ["index.json"]
    assert len(numbers(dataset)) >= 117
    shards = {name.removesuffix(".zstd") for name in os.listdir(remote)}
    assert set(os.listdir(tmp_path / "local")) == shards


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_all_kinds_share_each_epoch(remote, tmp_path, context, persistent):
    arguments = {"remote": remote, "batch_size": 4, "shuffle": True, "num_canonical_nodes": 1}
    alone = StreamingDataset(local=str(tmp_path / "alone"), **arguments)
    # Each new process imports torch.
    count = 2 if context == "spawn" and not persistent else 3
    epochs = [numbers(alone) for _ in range(count)]
    assert len({tuple(epoch) for epoch in epochs}) == count
    shared = StreamingDataset(local=str(tmp_path / "shared"), **arguments)
    loader = DataLoader(
        shared, batch_size=4, num_workers=2, multiprocessing_context=context, persistent_workers=persistent
    )
    for epoch in epochs:
        assert of_loader(loader) == epoch
    assert shared.next_epoch == count


def test_a_data_set_used_before_a_fork_works_in_parent_and_child(remote, tmp_path):
    dataset = StreamingDataset(remote=remote, local=str(tmp_path), batch_size=4, num_canonical_nodes=1)
    before = iter(dataset)
    assert next(before)["number"] == 0
    assert of_loader(DataLoader(dataset, batch_size=4, num_workers=2)) == list(range(117))
    # The iterator belongs to the parent and continues there.
    assert next(before)["number"] == 1
    assert numbers(dataset[[5, 99]]) == [5, 99]


def test_the_number_of_workers_may_change_between_epochs(remote, tmp_path):
    arguments = {"remote": remote, "batch_size": 2, "shuffle": True}
    dataset = StreamingDataset(local=str(tmp_path / "a"), **arguments)
    alone = StreamingDataset(local=str(tmp_path / "b"), **arguments)
    for workers in (3, 0, 1, 2):
        torch.manual_seed(0)
        assert of_loader(DataLoader(dataset, batch_size=2, num_workers=workers)) == numbers(alone)


@pytest.mark.parametrize(
    "arguments",
    [
        {"cache_limit": 1e7},
        {"cache_limit": np.int64(10**7)},
        {"predownload": 6.5},
        {"shuffle": 1},
        {"keep_zip": 1},
        {"validate_hash": ""},
        # Not requested by the caller.
        {"shuffle_algo": "none"},
        {"local": pathlib.Path("path")},
    ],
    ids=str,
)
def test_arguments_of_convertible_types_are_converted_as_by_the_reference(reference, ours, remote, tmp_path, arguments):
    def made(module, name):
        local = tmp_path / name / arguments.get("local", "")
        settings = {"batch_size": 4, **arguments, "local": local if "local" in arguments else str(local)}
        return numbers(module("base.dataset").StreamingDataset(remote=remote, **settings))

    assert made(ours, "ours") == made(reference, "theirs")


def test_an_index_out_of_bounds_is_the_reference_s_error(reference, ours, remote, tmp_path):
    for name, module in (("theirs", reference), ("ours", ours)):
        dataset = module("base.dataset").StreamingDataset(remote=remote, local=str(tmp_path / name))
        for index in (117, -118):
            with pytest.raises(IndexError, match=f"Invalid sample index `{index}`: 0 <= {index} < 117"):
                dataset[index]


def test_an_epoch_begins_with_its_first_sample(reference, ours, remote, tmp_path):
    def begun(module, local):
        dataset = module("base.dataset").StreamingDataset(remote=remote, local=str(tmp_path / local), batch_size=4)
        DataLoader(dataset, batch_size=4)._get_iterator()
        idle, used = iter(dataset), iter(dataset)
        dataset.load_state_dict({**dataset.state_dict(40, True), "epoch": 2})
        found = [dataset.next_epoch, int(next(used)["number"]), dataset.next_epoch]
        idle.close()
        used.close()
        return [*found, numbers(idle), numbers(used)]

    theirs, mine = begun(reference, "theirs"), begun(ours, "ours")
    assert mine == theirs == [0, 40, 3, [], []]


def test_a_dropped_iteration_ends_at_once(remote, tmp_path):
    class Changed(StreamingDataset):
        def get_item(self, sample_id, retry=7):
            return super().get_item(sample_id, retry)

    for kind in (StreamingDataset, Changed):
        dataset = kind(remote=remote, local=str(tmp_path / kind.__name__), batch_size=4)
        alive = weakref.ref(dataset)
        gc.disable()
        try:
            samples = iter(dataset)
            next(samples)
            del dataset, samples
            assert alive() is None
        finally:
            gc.enable()


def test_an_epoch_that_was_ended_early_counts(remote, tmp_path):
    arguments = {"remote": remote, "batch_size": 4, "shuffle": True}
    dataset = StreamingDataset(local=str(tmp_path / "a"), **arguments)
    alone = StreamingDataset(local=str(tmp_path / "b"), **arguments)
    epochs = [numbers(alone) for _ in range(3)]
    loader = DataLoader(dataset, batch_size=4, num_workers=2)
    for epoch in epochs[:2]:
        batches = iter(loader)
        assert next(batches)["number"].tolist() == epoch[:4]
        del batches
    assert of_loader(loader) == epochs[2]


@pytest.mark.parametrize("method", ["random", "stratified", "per_stream", "device_per_stream"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_order_is_the_references(reference, ours, remotes, tmp_path, method, workers):
    def order(module, local):
        streams = [module("base.stream").Stream(remote=r, local=str(local / str(i))) for i, r in enumerate(remotes)]
        dataset = module("base.dataset").StreamingDataset(
            streams=streams, batch_size=4, batching_method=method, shuffle=True, num_canonical_nodes=2, shuffle_seed=7
        )
        return [of_loader(DataLoader(dataset, batch_size=4, num_workers=workers)) for _ in range(2)]

    assert order(ours, tmp_path / "ours") == order(reference, tmp_path / "theirs")


@pytest.mark.parametrize(
    "weights",
    [
        [{"proportion": 0.3}, {"proportion": 0.7}],
        [{"repeat": 0.5}, {"choose": 200}],
        [{}, {"repeat": 2.3}],
    ],
)
def test_weights_select_the_same_samples_as_the_reference(reference, ours, remotes, tmp_path, weights):
    def outcome(module, local):
        streams = [
            module("base.stream").Stream(remote=r, local=str(local / str(i)), **w)
            for i, (r, w) in enumerate(zip(remotes, weights))
        ]
        dataset = module("base.dataset").StreamingDataset(streams=streams, batch_size=3, shuffle=True)
        derived = [(s.proportion, s.repeat, s.choose) for s in streams]
        resampled = [array.tolist() for array in dataset.resample_streams(1)]
        return dataset.epoch_size, len(dataset), derived, resampled, numbers(dataset), numbers(dataset)

    assert outcome(ours, tmp_path / "ours") == outcome(reference, tmp_path / "theirs")


@pytest.mark.parametrize("replication", [None, 2])
def test_ranks_get_the_same_samples_as_the_references_ranks(reference, remote, tmp_path, replication):
    arguments = {"batch_size": 3, "shuffle": True, "replication": replication, "num_canonical_nodes": 2}
    for rank in range(4):
        world = {"rank": rank, "world_size": 4, "local_rank": rank % 2, "local_world_size": 2}
        mine = StreamingDataset(remote=remote, local=str(tmp_path / "ours"), **arguments, **world)
        seen = numbers(mine)
        del mine
        theirs = ids_of_rank(reference, remote, tmp_path / "theirs", rank, arguments)
        assert seen == theirs, rank


def ids_of_rank(reference, remote, local, rank, arguments):
    """The reference's plan for a rank of 2 nodes with 2 ranks each."""
    World = reference("base.world").World
    order = {**arguments, "replication": None}
    dataset = reference("base.dataset").StreamingDataset(remote=remote, local=str(local), **order)
    world = World(num_nodes=2, ranks_per_node=2, workers_per_rank=1, worker=rank)
    if arguments["replication"]:
        world = world.replicate(arguments["replication"])
    dataset._resume(world, 0)
    ids = reference("base.batching").generate_work("random", dataset, world, 0, 0)
    ids = ids[world.node, world.rank_of_node, 0].flatten()
    return ids[ids >= 0].tolist()


def checkpoint(dataset, batch_size, batches):
    loader = StreamingDataLoader(dataset, batch_size=batch_size)
    seen = []
    for number, batch in enumerate(loader):
        seen += batch["number"].tolist()
        if number + 1 == batches:
            return seen, loader.state_dict()
    raise AssertionError("the epoch was too short")


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_a_checkpoint_of_four_ranks_resumes_on_a_different_number(remote, tmp_path, ranks):
    def dataset(rank, count, local):
        return StreamingDataset(
            remote=remote,
            local=str(tmp_path / local),
            batch_size=12 // count,
            shuffle=True,
            num_canonical_nodes=4,
            rank=rank,
            world_size=count,
            local_rank=rank,
            local_world_size=count,
        )

    before, states = [], []
    for rank in range(4):
        seen, state = checkpoint(dataset(rank, 4, f"first {rank}"), 3, 5)
        before += seen
        states.append(state)
    assert all(state == states[0] for state in states)
    assert states[0]["sample_in_epoch"] == 60
    after = []
    for rank in range(ranks):
        resumed = dataset(rank, ranks, f"second {rank}")
        resumed.load_state_dict(states[0])
        after += numbers(resumed)
        assert resumed.next_epoch == 1
    assert set(before) | set(after) == set(range(117))
    # Ranks and canonical nodes of equal length repeat a few.
    assert len(before) + len(after) <= 117 + 12


@pytest.mark.parametrize("workers", [0, 2])
def test_checkpoints_of_each_package_resume_in_both(reference, ours, remote, tmp_path, workers):
    def run(module, local, state=None):
        dataset = module("base.dataset").StreamingDataset(
            remote=remote, local=str(local), batch_size=4, shuffle=True, num_canonical_nodes=2
        )
        loader = module("base.dataloader").StreamingDataLoader(dataset, batch_size=4, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
            return of_loader(loader), of_loader(loader)
        seen = []
        for batch in loader:
            seen += batch["number"].tolist()
            if len(seen) == 40:
                return seen, loader.state_dict()
        raise AssertionError("the epoch was too short")

    my_start, my_state = run(ours, tmp_path / "a")
    their_start, their_state = run(reference, tmp_path / "b")
    assert (my_start, my_state) == (their_start, their_state)
    assert run(ours, tmp_path / "c", their_state) == run(reference, tmp_path / "d", my_state)


def test_state_is_shared_with_spawned_processes_and_copied_by_plain_pickles(remote, tmp_path):
    dataset = StreamingDataset(remote=remote, local=str(tmp_path), batch_size=4)
    copy = pickle.loads(pickle.dumps(dataset))
    copy.next_epoch = 9
    assert dataset.next_epoch == 0
    process = multiprocessing.get_context("spawn").Process(target=set_epoch, args=(dataset, 5))
    process.start()
    process.join(600)
    assert process.exitcode == 0
    assert dataset.next_epoch == 5


def test_a_copy_for_a_worker_does_not_hold_the_text_of_the_index(remote, tmp_path, monkeypatch):
    dataset = StreamingDataset(remote=remote, local=str(tmp_path), batch_size=4)
    text = pickle.dumps(dataset)
    monkeypatch.setattr(_shards, "_read", lambda path: pytest.fail(f"{path} was read as a whole"))
    assert pickle.loads(text)[3]["number"] == dataset[3]["number"]


def set_epoch(dataset, epoch):
    dataset.next_epoch = epoch


def test_subclasses_may_change_items_either_way(remote, tmp_path):
    class ByItem(StreamingDataset):
        def get_item(self, sample_id, retry=7):
            return -super().get_item(sample_id, retry)["number"]

    class ByIndex(StreamingDataset):
        def __getitem__(self, at):
            return -super().__getitem__(at)["number"]

    for number, cls in enumerate((ByItem, ByIndex)):
        dataset = cls(remote=remote, local=str(tmp_path / str(number)), batch_size=4, num_canonical_nodes=1)
        assert list(dataset) == [-n for n in range(117)]
        assert dataset[7] == -7


def test_readers_of_shards_are_created_on_access(remotes, tmp_path):
    streams = [Stream(remote=r, local=str(tmp_path / str(i))) for i, r in enumerate(remotes)]
    dataset = StreamingDataset(streams=streams, batch_size=4)
    assert len(dataset.shards) == dataset.num_shards == len(dataset.samples_per_shard)
    assert [shard.samples for shard in dataset.shards] == dataset.samples_per_shard.tolist()
    assert dataset.shards[-1].samples == dataset.samples_per_shard[-1]
    with pytest.raises(IndexError):
        dataset.shards[dataset.num_shards]
    assert dataset.stream_per_shard.tolist() == [0] * dataset.shards_per_stream[0] + [1] * dataset.shards_per_stream[1]
    assert dataset.sample_offset_per_stream.tolist() == [0, 90]


def test_shards_can_be_fetched_and_evicted_by_hand(remote, tmp_path):
    dataset = StreamingDataset(remote=remote, local=str(tmp_path), batch_size=4)
    before = dataset.cache_usage
    dataset.prepare_shard(2)
    assert dataset.cache_usage == before + dataset.shards[2].raw_data.bytes
    assert os.path.exists(tmp_path / "shard.00002.mds")
    dataset.evict_shard(2)
    assert sorted(os.listdir(tmp_path)) == ["index.json"]
    with pytest.raises(ValueError, match="no shard"):
        dataset.evict_coldest_shard()
    shard = dataset.shards[1]
    assert dataset.streams[0].prepare_shard(shard) == shard.raw_data.bytes
    usage = np.zeros(dataset.num_shards, np.int64)
    dataset.streams[0].set_up_local(dataset.shards, usage)
    assert usage.nonzero()[0].tolist() == [1]


@pytest.mark.parametrize(
    ("streams", "found"),
    [
        ("s3://bucket/set?key=secret", "it is a str"),
        (Stream(remote="set", local="set"), "it is a forebay.streaming.base.stream.Stream"),
        (["s3://bucket/set?key=secret"], r"streams\[0\] is a str"),
        ([Stream(remote="a", local="a"), forebay.Stream(remote="b")], r"streams\[1\] is a forebay._streams.Stream"),
    ],
)
def test_streams_of_a_wrong_type_are_rejected(streams, found):
    with pytest.raises(TypeError, match=rf"streams is a list of Stream, such as \[Stream\(remote=\.\.\.\)\], but {found}") as caught:
        StreamingDataset(streams=streams, batch_size=4)
    assert "secret" not in str(caught.value)


def test_a_stream_without_samples_is_named(remote, tmp_path):
    shutil.copy(os.path.join(remote, "index.json"), tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    (tmp_path / "index.json").write_text(json.dumps({**index, "shards": []}))
    with pytest.raises(RuntimeError, match=f"Stream contains no samples: {tmp_path}/index.json"):
        StreamingDataset(local=str(tmp_path), batch_size=1)


@pytest.mark.parametrize("place", [(), ("shards", 0)], ids=["index", "shard"])
def test_an_index_of_an_unknown_version_raises_the_reference_s_error(reference, ours, remote, tmp_path, place):
    """For a shard, the reference raises an AssertionError without a message."""
    folder = shutil.copytree(remote, tmp_path / "old")
    index = json.loads((folder / "index.json").read_text())
    part = index
    for key in place:
        part = part[key]
    part["version"] = 1
    (folder / "index.json").write_text(json.dumps(index))
    for module in (ours,) if place else (reference, ours):
        with pytest.raises(ValueError, match="Unsupported streaming data version: 1. Expected version 2."):
            module("base.dataset").StreamingDataset(local=str(folder))


@pytest.mark.parametrize("answer", ["", "<html>sign in</html>", '{"version": 2, "shards": ['], ids=["empty", "page", "half"])
def test_an_answer_that_is_no_index_raises_the_reference_s_error_and_is_not_kept(
    reference, ours, remote, tmp_path, answer
):
    served = shutil.copytree(remote, tmp_path / "served")
    index = (served / "index.json").read_text()
    (served / "index.json").write_text(answer)
    for module, local in ((reference, tmp_path / "theirs"), (ours, tmp_path / "ours")):
        with pytest.raises(json.JSONDecodeError, match="is empty or corrupted"):
            module("base.dataset").StreamingDataset(remote=str(served), local=str(local), batch_size=1)
    assert not local.exists()
    (served / "index.json").write_text(index)
    assert len(ours("base.dataset").StreamingDataset(remote=str(served), local=str(local), batch_size=1)) > 0


def test_an_index_that_is_not_an_object_is_a_format_error_that_names_the_file(tmp_path):
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(forebay.FormatError, match="index.json"):
        StreamingDataset(local=str(tmp_path))
