"""Random cases for the order, and the reference's answers to them.

The reference's own functions run on a stand-in for its data set that has the attributes they read, so that a case
costs milliseconds and touches no disk and no shared memory.
"""

import json
import logging
import random
import struct
import types
import warnings

import numpy as np
import streaming.base.dataset as dataset_module
from streaming import Stream, StreamingDataset
from streaming.base.batching import generate_work
from streaming.base.world import World

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
np.seterr(all="ignore")

MULTIPLIER = 0x9E3779B97F4A7C15

# Our names of the errors that the reference's messages report.
MEANINGS = [
    # The reference checks the position first; a plan that resumes further may find something else wrong first.
    ("Resuming further into the dataset", {"ResumedPastEnd", "NodesDoNotDivide", "EmptyCanonicalNode", "TooFewForPadding"}),
    ("Either canonical or physical nodes", {"NodesDoNotDivide"}),
    ("A global batch size of", {"GlobalBatchDoesNotDivide"}),
    ("could not broadcast input array", {"TooFewForPadding"}),
    ("The number of samples assigned to a canonical node is 0", {"EmptyCanonicalNode"}),
    ("high <= 0", {"BlockTooSmall"}),
    ("low >= high", {"BlockTooSmall"}),
    ("does not have an adequate number", {"StreamTooSmall"}),
    ("Number of samples for stream", {"StreamPortionZero"}),
    ("are not being used", {"StreamBlockZero"}),
    ("num_canonical_nodes must be divisible by physical nodes", {"CanonicalNotMultiple"}),
    ("need at least one array to concatenate", {"NothingChosen"}),
    ("cannot convert float NaN to integer", {"NothingChosen"}),
    ("are incompatible with each other", {"MixedWeights"}),
    ("Only provide `choose` when weighting streams relatively", {"EpochSizeWithAbsoluteWeights"}),
    ("World size must be divisible", {"ReplicationDoesNotDivide"}),
]


def bits(number):
    """A double as its bits."""
    return struct.unpack("<Q", struct.pack("<d", number))[0]


def double(number):
    return struct.unpack("<d", struct.pack("<Q", number))[0]


def random_case(seed):
    """Arguments of a plan; small, so that edges are common."""
    rng = random.Random(seed)
    pick = rng.choice
    batching = pick(["random"] * 6 + ["per_stream", "device_per_stream", "stratified"] * 2)
    many_streams = rng.random() < 0.03
    num_streams = rng.randint(9, 24) if many_streams else pick([1, 1, 2, 3, 4])
    streams = []
    scale = pick([3, 10, 40, 200]) if not many_streams else 12
    for _ in range(num_streams):
        shards = [rng.randint(1, scale) for _ in range(pick([1, 2, 4, 8, 15]))]
        if rng.random() < 0.2:
            shards = [pick([0, s]) for s in shards]
        if rng.random() < 0.4:
            shards = [scale] * len(shards) + [rng.randint(1, scale)]
        if not sum(shards):
            shards.append(1)
        streams.append(shards)
    if rng.random() < 0.01:
        # Large enough for numpy's second way to choose without replacement.
        streams[0] = [rng.randint(10_001, 12_000)]

    kind = pick(["none"] * 4 + ["proportion"] * 3 + ["absolute"] * 3 + ["mixed"] * (rng.random() < 0.2))
    weights = []
    for shards in streams:
        proportion = ["proportion", bits(pick([1.0, 0.5, 0.25, 2.0, rng.random(), 3 * rng.random() ** 3]))]
        repeat = ["repeat", bits(pick([1.0, 0.5, 2.0, 3.0, 3 * rng.random()]))]
        choose = ["choose", pick([0, 1, sum(shards), rng.randint(0, 3 * sum(shards)), rng.randint(0, sum(shards))])]
        absolute = pick([None, repeat, choose])
        weights.append({
            "none": None,
            "proportion": proportion,
            "absolute": absolute,
            "mixed": pick([proportion, absolute]),
        }[kind])
    total = sum(map(sum, streams))
    epoch_size = None
    if rng.random() < (0.03 if kind in ("absolute", "mixed") else 0.4):
        epoch_size = pick([0, rng.randint(1, 3 * total), rng.randint(1, total), 2 * total])

    nodes, ranks, workers = pick([1, 1, 2, 3, 4, 6, 8]), pick([1, 2, 3, 4, 8]), pick([1, 1, 2, 3, 5])
    legal = rng.random() < 0.8
    canonical = pick([None, 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64])
    if legal:
        canonical = pick([None, 1, nodes, nodes * pick([2, 3, 8]), pick([n for n in (1, 2, 3, 4) if nodes % n == 0])])
    batch = pick([1, 2, 3, 4, 5, 6, 7, 8, 12] if legal else [1, 2, 3, 8, 16, 32])
    replication = None
    if rng.random() < 0.15:
        replication = pick([1, 2, 3, 4, nodes * ranks])
    epoch = pick([0, 0, 1, 2, 7, 100])
    resume = None
    if rng.random() < 0.5:
        resume = {
            "epoch": pick([epoch, epoch, epoch + 1, max(epoch - 1, 0)]),
            "sample_in_epoch": pick([0, rng.randint(0, total // 2), min(nodes * ranks * batch * rng.randint(0, 5), total),
                                     rng.randint(0, total if legal else 2 * total)]),
            "num_canonical_nodes": pick([nodes, 2 * nodes, 4, 8] if legal else [1, 2, 3, 4, 6, 8, 12, 24, 64]),
            "shuffle_seed": pick([9176, 0, rng.randint(0, 2**31)]),
            "initial_physical_nodes": pick([None, nodes, 1, 2, 3, 4, 6, 8]),
        }
        if resume["epoch"] < epoch:
            # A stale checkpoint: ours keeps the values that it fixed, the reference's stand-in has nothing to keep them in.
            resume = None
    return {
        "streams": streams,
        "weights": weights,
        "shuffle": rng.random() < 0.85,
        "algo": pick(["naive", "py1s", "py2s", "py1br", "py1e", "py1e"]),
        "seed": pick([9176, 0, 1, rng.randint(0, 2**32), rng.randint(0, 2**62)]),
        "block": pick([None, None, rng.randint(0, 4), rng.randint(2, 60), rng.randint(2, 60), rng.randint(50, 800)]),
        "partition": pick(["orig", "relaxed", "relaxed"]),
        "canonical": canonical,
        "batch": batch,
        "sampling": pick(["balanced", "balanced", "fixed"]),
        "granularity": pick([1, 1, 2, 3, 7, 50, 1000]),
        "batching": batching,
        "replication": replication,
        "epoch_size": epoch_size,
        "nodes": nodes,
        "ranks": ranks,
        "workers": workers,
        "epoch": epoch,
        "resume": resume,
    }


def random_large_case(seed):
    """Arguments of a plan with a shuffle of many windows; as a rule resumed somewhere inside."""
    rng = random.Random(f"large {seed}")
    pick = rng.choice
    case = random_case(seed)
    size = pick([300, 2_000, 9_000])
    total = rng.randint(150_000, 600_000)
    shards = [pick([size, rng.randint(1, size)]) for _ in range(total // size)]
    cut = pick([0, 0, rng.randint(0, len(shards) - 1)])
    case["streams"] = [part for part in (shards[:cut], shards[cut:]) if part]
    streams = len(case["streams"])
    case["weights"] = pick([[None] * streams, [None] * streams, [["repeat", bits(pick([0.5, 1.5]))]] * streams])
    total = sum(map(sum, case["streams"]))
    nodes, ranks = pick([(1, 1), (1, 8), (2, 4), (4, 2)])
    canonical = nodes * pick([1, 2, 16])
    case.update(
        shuffle=True, algo=pick(["py1s", "py2s", "py1br", "py1e", "py1e"]), nodes=nodes, ranks=ranks, epoch_size=None,
        canonical=canonical, batch=pick([16, 50, 256]), workers=pick([1, 3]), replication=None, epoch=1,
        block=pick([4_000, 20_000, 60_000, 150_000, None]), batching=pick(["random", "random", case["batching"]]),
    )
    case["resume"] = pick([None, {
        "epoch": 1,
        "sample_in_epoch": rng.randint(0, total // 3),
        "num_canonical_nodes": canonical,
        "shuffle_seed": case["seed"],
        "initial_physical_nodes": nodes,
    }])
    return case


class _Segment:
    """Replacement of the shared memory that contains a checkpoint."""

    state = None

    def __init__(self, name=None, create=False):
        if _Segment.state is None:
            raise FileNotFoundError(name)
        self.buf = json.dumps(_Segment.state, sort_keys=True).encode() + b"\0\0"


dataset_module.SharedMemory = _Segment


def reference_tensor(case):
    """The reference's ids: an array (nodes, ranks, workers, batches, batch)."""
    streams = []
    for weight in case["weights"]:
        stream = types.SimpleNamespace()
        if weight is not None:
            kind, number = weight
            setattr(stream, kind, number if kind == "choose" else double(number))
        streams.append(stream)

    world = World(case["nodes"], case["ranks"], case["workers"], 0)
    if case["replication"] is not None:
        world = world.replicate(case["replication"])
    data = types.SimpleNamespace()
    data.streams = streams
    data.num_streams = len(streams)
    data.shuffle = case["shuffle"]
    data.shuffle_algo = case["algo"]
    data.shuffle_seed = case["seed"]
    data.shuffle_block_size = case["block"]
    data.partition_algo = case["partition"]
    data.num_canonical_nodes = case["canonical"]
    data.batch_size = case["batch"]
    data.sampling_method = case["sampling"]
    data.sampling_granularity = case["granularity"]
    data.epoch_seed_change = data.shuffle and data.sampling_method == "balanced"
    data.initial_physical_nodes = None
    data._shm_prefix_int = 0
    data._set_shuffle_block_size = types.MethodType(StreamingDataset._set_shuffle_block_size, data)
    data.resample_streams = types.MethodType(StreamingDataset.resample_streams, data)

    sizes = case["streams"]
    data.samples_per_shard = np.array([size for shards in sizes for size in shards], np.int64)
    data.sample_offset_per_shard = data.samples_per_shard.cumsum() - data.samples_per_shard
    data.shards_per_stream = np.array([len(shards) for shards in sizes], np.int64)
    data.shard_offset_per_stream = data.shards_per_stream.cumsum() - data.shards_per_stream
    data.samples_per_stream = np.array([sum(shards) for shards in sizes], np.int64)
    Stream.validate_weights(streams)
    data.epoch_size = Stream.apply_weights(streams, data.samples_per_stream, case["epoch_size"] or None, case["seed"])

    _Segment.state = case["resume"]
    epoch, sample_in_epoch = StreamingDataset._resume(data, world, case["epoch"])
    return generate_work(case["batching"], data, world, epoch, sample_in_epoch)


def hash_ids(ids):
    """Returns the hash of `order_cases::IdHash`."""
    powers = np.full(ids.size, MULTIPLIER, np.uint64).cumprod(dtype=np.uint64)
    return int((powers * (ids.ravel() + 2).astype(np.uint64)).sum(dtype=np.uint64))


def reference_answer(case):
    """Returns the reference's answer in the form of `Case::answer`."""
    try:
        ids = reference_tensor(case)
    except Exception as error:  # noqa: BLE001: whatever it raises is its answer
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    return {"shape": list(ids.shape), "hash": f"{hash_ids(ids):016x}"}


def meanings(message):
    """Returns the names of forebay's errors for a message of the reference; empty if it is unknown."""
    return next((names for text, names in MEANINGS if text in message), set())


def has_ties(case):
    """Returns true if equal keys may be sorted: streams that lose equally by rounding in `stratified` batching.

    numpy's order of equal keys depends on its build and the CPU; with AVX-512, even for as few as four.
    """
    if case["batching"] != "stratified":
        return False
    try:
        streams = []
        for weight in case["weights"]:
            stream = types.SimpleNamespace()
            if weight is not None:
                setattr(stream, weight[0], weight[1] if weight[0] == "choose" else double(weight[1]))
            streams.append(stream)
        samples = np.array([sum(shards) for shards in case["streams"]], np.int64)
        Stream.apply_weights(streams, samples, case["epoch_size"] or None, case["seed"])
    except Exception:  # noqa: BLE001
        return False
    world = World(case["nodes"], case["ranks"], case["workers"], 0)
    if case["replication"] is not None:
        world = world.replicate(case["replication"])
    whole = case["batch"] * world.num_ranks
    losses = [whole * s.proportion - int(s.proportion * whole) for s in streams]
    return len(set(losses)) < len(losses)
