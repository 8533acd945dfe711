"""The order's functions: equal to the reference's in numbers, types, warnings and errors."""

import warnings

import numpy as np
import pytest
import torch

from forebay.streaming.base import distributed
from forebay.streaming.base.batching import batching_methods, generate_work
from forebay.streaming.base.partition import get_partitions
from forebay.streaming.base.sampling import get_sampling
from forebay.streaming.base.shuffle import algos as shuffle_algos
from forebay.streaming.base.shuffle import get_shuffle
from forebay.streaming.base.spanner import Spanner
from forebay.streaming.base.world import World

ROUNDS = 60


def outcome(function, *arguments):
    """Outcome of a call: its array or the type of its exception, and the first words of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except (ValueError, ZeroDivisionError) as error:
            result = ValueError if isinstance(error, ValueError) else type(error)
    said = sorted({str(warning.message).split()[0] for warning in caught if warning.category is UserWarning})
    return result, said


def agree(ours, theirs, arguments):
    (mine, my_warnings), (other, other_warnings) = outcome(ours, *arguments), outcome(theirs, *arguments)
    if not isinstance(other, np.ndarray):
        assert mine is other, arguments
        return
    assert isinstance(mine, np.ndarray), (mine, arguments)
    assert mine.dtype == other.dtype == np.int64
    assert mine.flags.writeable
    assert mine.shape == other.shape, arguments
    np.testing.assert_array_equal(mine, other, str(arguments))
    assert len(my_warnings) == len(other_warnings), (my_warnings, other_warnings)


@pytest.mark.parametrize("algo", sorted(shuffle_algos))
def test_shuffles_are_equal(reference, algo):
    theirs = reference("base.shuffle").get_shuffle
    rng = np.random.default_rng(1)
    for _ in range(ROUNDS):
        sizes = rng.integers(1, 60, rng.integers(1, 40))
        arguments = (sizes, int(rng.integers(1, 9)), int(rng.integers(0, 1 << 40)), int(rng.integers(0, 5)))
        agree(get_shuffle, theirs, (algo, *arguments, int(rng.integers(2, 300))))


@pytest.mark.parametrize("algo", ["orig", "relaxed"])
def test_partitions_are_equal(reference, algo):
    theirs = reference("base.partition").get_partitions
    rng = np.random.default_rng(2)
    for _ in range(4 * ROUNDS):
        samples = int(rng.integers(1, 400))
        canonical, nodes, ranks, workers, batch = (int(n) for n in rng.integers(1, 9, 5))
        drop = int(rng.integers(0, samples + 10)) if rng.integers(2) else 0
        initial = int(rng.integers(1, 9)) if rng.integers(2) else None
        agree(get_partitions, theirs, (algo, samples, canonical, nodes, ranks, workers, batch, drop, initial))


def test_a_resumption_after_the_end_is_an_error():
    with pytest.raises(ValueError, match="Resuming further into the dataset"):
        get_partitions("orig", 100, 1, 1, 1, 1, 4, 102)


def test_samplings_are_equal(reference):
    theirs = reference("base.sampling").get_sampling
    rng = np.random.default_rng(3)
    for _ in range(4 * ROUNDS):
        sizes = rng.integers(1, 50, rng.integers(1, 20))
        arguments = (sizes, int(rng.integers(0, 3 * sizes.sum())), int(rng.integers(1, 9)))
        agree(get_sampling, theirs, (*arguments, int(rng.integers(0, 99)), int(rng.integers(0, 9)), bool(rng.integers(2))))
    for wrong in [(-1, 1, 0, 0), (1, 0, 0, 0), (1, 1, -1, 0), (1, 1, 0, -1)]:
        agree(get_sampling, theirs, (np.array([5, 6]), *wrong, True))


class DataSet:
    """Arguments of the batching functions, without files."""

    def __init__(self, theirs, rng):
        self.num_streams = int(rng.integers(1, 4))
        shards = [rng.integers(5, 40, rng.integers(1, 6)) for _ in range(self.num_streams)]
        self.samples_per_shard = np.concatenate(shards)
        self.sample_offset_per_shard = self.samples_per_shard.cumsum() - self.samples_per_shard
        self.shards_per_stream = np.array([len(part) for part in shards])
        self.shard_offset_per_stream = self.shards_per_stream.cumsum() - self.shards_per_stream
        self.streams = [type("Stream", (), {})() for _ in shards]
        for stream, part in zip(self.streams, shards):
            stream.choose = int(part.sum() * rng.choice([0.5, 1, 1.5, 2]))
        self.epoch_size = sum(stream.choose for stream in self.streams)
        for stream in self.streams:
            stream.proportion = stream.choose / self.epoch_size
        self.sampling_method = str(rng.choice(["balanced", "fixed"]))
        self.sampling_granularity = int(rng.integers(1, 4))
        self.partition_algo = "relaxed"
        self.num_canonical_nodes = int(rng.choice([1, 2, 4, 8]))
        self.initial_physical_nodes = None
        self.batch_size = int(rng.integers(1, 5))
        self.shuffle = bool(rng.integers(4))
        # py1e is compared where no two positions are equal, which these small sets nearly always are not.
        self.shuffle_algo = str(rng.choice(["naive", "py1s", "py2s", "py1br", "py1e"]))
        self.shuffle_seed = int(rng.integers(1 << 31))
        self.shuffle_block_size = int(rng.integers(40, 400))
        self.epoch_seed_change = self.shuffle and self.sampling_method == "balanced"
        self.resample_streams = lambda *args: theirs.StreamingDataset.resample_streams(self, *args)


@pytest.mark.parametrize("method", sorted(batching_methods))
def test_the_work_of_an_epoch_equals_the_reference_s(reference, method):
    theirs = reference("base.batching").generate_work
    dataset_module = reference("base.dataset")
    rng = np.random.default_rng(4)
    arrays = 0
    for _ in range(ROUNDS):
        dataset = DataSet(dataset_module, rng)
        world = World(int(rng.choice([1, 2, 4])), int(rng.integers(1, 4)), int(rng.integers(1, 4)), 0)
        seen = int(rng.integers(0, 3)) * world.num_ranks * dataset.batch_size
        arguments = (method, dataset, world, int(rng.integers(4)), seen)
        agree(generate_work, theirs, arguments)
        arrays += isinstance(outcome(theirs, *arguments)[0], np.ndarray)
    assert arrays > ROUNDS // 4, "most cases should come to an order, not to an error"


def test_a_spanner_returns_the_same_positions_as_the_reference(reference):
    theirs = reference("base.spanner").Spanner
    rng = np.random.default_rng(5)
    for _ in range(20):
        # The reference finds no sample after an empty shard at the end of a span.
        sizes = rng.integers(1, 30, rng.integers(1, 40))
        mine, other = Spanner(sizes.copy(), 7), theirs(sizes.copy(), 7)
        assert mine.num_samples == other.num_samples
        for index in range(mine.num_samples):
            assert mine[index] == other[index]
    for index in (-1, mine.num_samples):
        with pytest.raises(IndexError, match="Invalid sample index"):
            mine[index]


def test_a_spanner_skips_empty_shards():
    spanner = Spanner(np.array([0, 2, 0, 0, 1, 0]))
    assert [spanner[i] for i in range(3)] == [(1, 0), (1, 1), (4, 0)]


def test_worlds_have_the_same_fields(reference):
    theirs = reference("base.world").World
    rng = np.random.default_rng(6)
    for _ in range(100):
        nodes, ranks, workers = (int(n) for n in rng.integers(1, 9, 3))
        worker = int(rng.integers(nodes * ranks * workers))
        mine, other = World(nodes, ranks, workers, worker), theirs(nodes, ranks, workers, worker)
        assert mine.to_json() == other.to_json()
        assert mine.detect_workers().to_json() == other.detect_workers().to_json()
        for replication in range(1, nodes * ranks + 2):
            (mine_of, _), (other_of, _) = outcome(mine.replicate, replication), outcome(other.replicate, replication)
            if other_of is ValueError:
                assert mine_of is ValueError
            else:
                assert mine_of.to_json() == other_of.to_json()


def test_a_world_is_found_in_the_environment(monkeypatch):
    for name, value in {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    world = World.detect()
    assert (world.node, world.num_nodes, world.rank, world.rank_of_node) == (1, 2, 5, 1)
    assert World.detect(3, 4, 1, 2).rank == 3


@pytest.mark.parametrize(
    "environ",
    [
        # As Kubeflow sets them where a pod has one process.
        {"RANK": "3", "WORLD_SIZE": "4"},
        # As DeepSpeed does.
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"},
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"},
        # As Lightning's own launcher does.
        {"WORLD_SIZE": "4", "LOCAL_RANK": "1"},
    ],
)
def test_an_incomplete_world_in_the_environment_equals_the_reference_s(reference, monkeypatch, environ):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert World.detect().to_json() == reference("base.world").World.detect().to_json()


OWN_RANKS = {"get_rank": 5, "get_world_size": 6, "get_local_rank": 1, "get_local_world_size": 2}


@pytest.mark.parametrize("environ", [{}, {"RANK": "7", "WORLD_SIZE": "8", "LOCAL_RANK": "7", "LOCAL_WORLD_SIZE": "8"}])
@pytest.mark.parametrize("names", [list(OWN_RANKS), ["get_rank", "get_world_size", "get_local_world_size"]])
def test_functions_that_the_program_replaces_give_the_world(either, monkeypatch, environ, names):
    """Loaders with tensor parallelism replace them by the ranks of data parallelism."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    for name in names:
        monkeypatch.setattr(either("base.distributed"), name, lambda value=OWN_RANKS[name]: value)
    world = either("base.world").World.detect()
    assert (world.rank, world.num_ranks, world.num_nodes, world.ranks_per_node, world.node) == (5, 6, 3, 2, 2)


@pytest.mark.parametrize("name, value", [("get_rank", 1), ("get_world_size", 4), ("get_local_world_size", 1)])
def test_one_replaced_function_is_combined_with_the_variables(reference, monkeypatch, name, value):
    for variable, number in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(variable, str(number))
    for home in (reference("base.distributed"), distributed):
        monkeypatch.setattr(home, name, lambda: value)
    found = [World.detect().to_json(), reference("base.world").World.detect().to_json()]
    assert found[0] == found[1]


def test_replaced_functions_that_contradict_the_variables_are_named(monkeypatch):
    """Two ranks of data parallelism in the eight processes of a node."""
    for variable, number in {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_RANK": 5, "LOCAL_WORLD_SIZE": 8}.items():
        monkeypatch.setenv(variable, str(number))
    monkeypatch.setattr(distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    with pytest.raises(ValueError, match="replace get_rank, get_world_size, get_local_rank, get_local_world_size together"):
        World.detect()


def test_variables_set_by_the_program_override_its_process_group(reference, monkeypatch, tmp_path):
    """Programs with tensor parallelism set them to the data-parallel rank."""
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        for name, value in {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}.items():
            monkeypatch.setenv(name, str(value))
        assert World.detect().to_json() == reference("base.world").World.detect().to_json()
    finally:
        torch.distributed.destroy_process_group()
