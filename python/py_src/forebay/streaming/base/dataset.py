"""Data set: an iterable of the samples of this worker and rank, in an order that is the same in the whole job."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

from ... import _forebay
from ..._world import check_group
from .._lazy import lazy
from ._arrays import int64s, numbers
from ._checks import alive, check_arguments, check_cache_limit, check_folders, check_order, check_remotes
from ._division import Division
from ._iterator import Epoch, IteratesInPython
from ._iterator import _Iterator as _Iterator
from ._originals import Originals
from ._own_shards import OwnShards, folder
from ._position import KEY, Position, Taken, after
from ._shards import GivenShards, StreamShards
from ._sizes import bytes_to_int, number_abbrev_to_int
from ._states import _ShardState as _ShardState
from .array import INDEXING, Array
from .batching import generate_work, orders_in_python
from .batching._ids import plan_arguments
from .batching._in_python import of_engine
from .format import Reader, get_index_basename
from .registry_utils import construct_from_registry
from .shared.state import SharedState
from .spanner import LOOKUP, Spanner
from .stream import Stream, is_of_reference, streams_registry
from .world import World, found_world

__all__ = ["StreamingDataset", "dist"]

logger = logging.getLogger(__name__)

# Names of the reference's module that programs import from it, most of them to iterate in their own way.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "_iterator": ("_IterState",),
        "constant": (
            "BARRIER",
            "BARRIER_FILELOCK",
            "CACHE_FILELOCK",
            "CACHE_USAGE",
            "DEFAULT_TIMEOUT",
            "EPOCH_DATA",
            "EPOCH_SHAPE",
            "NEVER",
            "NEXT_EPOCH",
            "RESUME",
            "SHARD_ACCESS_TIMES",
            "SHARD_STATES",
            "TICK",
        ),
        "distributed": ("maybe_init_dist",),
        "sampling": ("get_sampling",),
        "shared": ("SharedArray", "SharedBarrier", "SharedMemory", "SharedScalar", "_get_path", "get_shm_prefix"),
    },
    package=__package__,
)


class StreamingDataset(IteratesInPython, Array, IterableDataset):
    """Samples of one or more streams, prefetched, in the same order for any number of nodes, ranks and workers.

    Iterate over it, alone or in a DataLoader, or index it: `dataset[7]`, `dataset[-3:]`, `dataset[[5, 2]]`. A sample is
    a dict of its columns. Give either `streams`, or `remote` and `local` of a single one.

    The constructor reads the indexes and starts nothing: no thread, no process group, no named shared memory. Each
    process that reads opens its own files, also after a fork. Samples are read on the calling thread; while shards are
    absent, a separate thread prefetches them.

        dataset = StreamingDataset(remote="s3://bucket/c4", local="/cache/c4", shuffle=True, batch_size=32)
        loader = StreamingDataLoader(dataset, batch_size=32, num_workers=8)
        for batch in loader:
            ...

    Args:
        streams: The streams. The arguments from `remote` to `keep_zip` are then defaults for them.
        remote: URL or path of the shards.
        local: Folder that holds the shards, or will.
        split: Sub-folder of both.
        download_retry: Total attempts per download.
        download_timeout: Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        validate_hash: Hash that every download must match.
        keep_zip: Keep compressed shards next to the unpacked ones.
        epoch_size: Samples of an epoch, also as "100k", "64M", "77b" or "1t". None: from the streams' weights.
        predownload: Number of samples for which shards are fetched ahead, in each worker. None: 8 batches, or 64 without a batch
            size.
        cache_limit: Bytes of local disk for shards and indexes, also as "100mb". None: no limit.
        sampling_method: "balanced" draws up- and downsampled streams again in each epoch, "fixed" draws once.
        sampling_granularity: Samples of one shard that are drawn together.
        partition_algo: "relaxed" or "orig".
        num_canonical_nodes: Parts of an epoch, independent of the number of ranks. None: the nodes of the first run, 64
            times as many for "py1s" and "py2s".
        batch_size: Samples of a batch on one device, the same as in the DataLoader. Required for iteration.
        shuffle: Shuffle samples.
        shuffle_algo: "py1e", "py1br", "py1s", "py2s" or "naive".
        shuffle_seed: Seed of the order.
        shuffle_block_size: Samples of a shuffle block. None: max(4,000,000 / canonical nodes, 262,144).
        batching_method: "random", "stratified", "per_stream" or "device_per_stream".
        allow_unsafe_types: Allow columns of Python pickles.
        replication: Consecutive ranks that get the same samples.
        stream_name: Name of the single stream's class in `streams_registry`.
        stream_config: Further arguments of that class.
        rank: This process among all. None, here and in the next three: from torch.distributed or the launcher's
            environment. The reference does not have these four arguments.
        world_size: All processes.
        local_rank: This process among the processes of its node.
        local_world_size: Processes of one node.

    Raises:
        ValueError: An argument or a combination is wrong; the message contains the fix. Also later, if ranks come from
            the environment and differ from a process group that was initialised in between.
        TypeError: `streams` is not a list of streams.
        RuntimeError: A stream has no samples, or neither a remote nor an index.
    """

    def __init__(
        self,
        *,
        streams: Sequence[Stream] | None = None,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: str | None = None,
        keep_zip: bool = False,
        epoch_size: int | str | None = None,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        partition_algo: str = "relaxed",
        num_canonical_nodes: int | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_algo: str = "py1e",
        shuffle_seed: int = 9176,
        shuffle_block_size: int | None = None,
        batching_method: str = "random",
        allow_unsafe_types: bool = False,
        replication: int | None = None,
        stream_name: str = "stream",
        stream_config: dict[str, Any] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int | None = None,
        local_world_size: int | None = None,
    ) -> None:
        self.predownload = predownload
        self.cache_limit = bytes_to_int(cache_limit) if isinstance(cache_limit, str) else cache_limit
        self.sampling_method = sampling_method
        self.sampling_granularity = sampling_granularity
        self.partition_algo = partition_algo
        self.num_canonical_nodes = num_canonical_nodes
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.shuffle_algo = shuffle_algo
        self.shuffle_seed = shuffle_seed
        self.shuffle_block_size = shuffle_block_size
        self.batching_method = batching_method
        self.allow_unsafe_types = allow_unsafe_types
        self.replication = replication
        # Nodes of the first run of the training; known after a checkpoint is loaded.
        self.initial_physical_nodes: int | None = None
        check_arguments(self)
        if predownload is None:
            self.predownload = 64 if batch_size is None else 8 * batch_size
        self.epoch_seed_change = shuffle and sampling_method == "balanced"

        self._unique_rank_world = World.detect(rank, world_size, local_rank, local_world_size)
        self._found_world = found_world(rank, world_size, local_rank, local_world_size)
        self._parallel_rank_world = self._unique_rank_world
        if replication is not None:
            self._parallel_rank_world = self._unique_rank_world.replicate(replication)

        defaults = {
            "remote": remote,
            "local": local,
            "split": split,
            "download_retry": download_retry,
            "download_timeout": download_timeout,
            "validate_hash": validate_hash,
            "keep_zip": keep_zip,
        }
        if bool(streams) == bool(remote or local):
            raise ValueError("You must provide either `streams` or `remote`/`local`, but not both.")
        if streams:
            _check_types(streams)
            for stream in streams:
                stream.apply_default(defaults)
        else:
            streams = [_stream_of(stream_name, {**(stream_config or {}), **defaults})]
        Stream.validate_weights(streams)
        check_remotes(streams)
        self._open_streams(streams)
        check_cache_limit(self)

        epoch_samples = number_abbrev_to_int(epoch_size) if epoch_size else None
        if epoch_samples is not None and epoch_samples < 0:
            raise ValueError(f"Epoch size cannot be negative. Received {epoch_samples}.")
        self.epoch_size = Stream.apply_weights(streams, self.samples_per_stream, epoch_samples, shuffle_seed)
        self.length = ceil(self.epoch_size / self._parallel_rank_world.num_ranks)

        check_folders(self)
        alive.add(self)
        self._state = SharedState()
        self._forget_process()
        # Made before workers are forked, so that they share its pages.
        self._division.data  # noqa: B018

    def _open_streams(self, streams: Sequence[Stream]) -> None:
        """Reads the indexes and sets the attributes that map streams, shards and samples to each other."""
        self.streams = streams
        self.num_streams = len(streams)
        parts = []
        for stream in streams:
            shards = stream.get_shards(self._unique_rank_world, self.allow_unsafe_types)
            part = shards if isinstance(shards, StreamShards) else GivenShards(shards)
            if isinstance(part, GivenShards) and isinstance(stream, Stream):
                stream._given = part
            if not part.samples.any():
                raise RuntimeError(f"Stream contains no samples: {os.path.join(folder(stream), get_index_basename())}.")
            parts.append(part)
        self._division = Division(streams, parts, self.cache_limit)
        self.num_shards = len(self._division.shards)
        self.shards_per_stream = np.array([len(part) for part in parts], np.int64)
        self.shard_offset_per_stream = self.shards_per_stream.cumsum() - self.shards_per_stream
        self.samples_per_stream = np.array([part.samples.sum() for part in parts], np.int64)
        self.sample_offset_per_stream = self.samples_per_stream.cumsum() - self.samples_per_stream
        self.stream_per_shard = np.repeat(np.arange(self.num_streams), self.shards_per_stream)
        self.samples_per_shard = np.concatenate([part.samples for part in parts])
        self.sample_offset_per_shard = self.samples_per_shard.cumsum() - self.samples_per_shard
        self.num_samples = int(self.samples_per_shard.sum())
        self.spanner = Spanner(self.samples_per_shard)
        # Attributes that a program may replace, as they are in the engine.
        self._in_engine = {name: getattr(self, name) for name in _IN_ENGINE}

    def _has_been_read(self) -> bool:
        """Returns true if this process has read or fetched a shard, or any process of the rank has begun an epoch."""
        return self._division.has_read or self._state.has_begun

    @property
    def size(self) -> int:
        """Samples of all streams, before any weights."""
        return self.num_samples

    @property
    def shards(self) -> Sequence[Reader]:
        """Readers of all shards. One that a program assigns reads its shard's samples instead of the engine, and so do
        all of an assigned sequence."""
        return self._division.shards

    @shards.setter
    def shards(self, shards: Sequence[Reader]) -> None:
        if shards is not self._division.shards:
            self._division.assign(shards)

    @property
    def _is_engines(self) -> bool:
        """True if the engine reads all samples, and this class's own function fetches their shards."""
        return (
            self._division.is_engines
            and not self._division.shards.replaced
            and self.spanner is self._in_engine["spanner"]
            and not LOOKUP.are_replaced(type(self.spanner))
            and not _PREPARES.are_replaced(self)
        )

    @property
    def _own_shards(self) -> OwnShards:
        """Shards that the program prepares itself."""
        return self._division.own

    @property
    def next_epoch(self) -> int:
        """Epoch that the next iteration starts, in any process of this rank."""
        return self._state.next_epoch

    @next_epoch.setter
    def next_epoch(self, next_epoch: int) -> None:
        self._state.next_epoch = next_epoch

    @property
    def cache_usage(self) -> int:
        """Bytes of indexes and shards in the local folders."""
        return self._division.bytes_here()

    def __len__(self) -> int:
        """Samples of an epoch for each rank."""
        self._check_group()
        return self.length

    def _check_group(self) -> None:
        """Compares the rank with a process group that was initialised after this data set was made. All ranks would get
        the same samples, as with the reference."""
        ours, found = self._unique_rank_world, self._found_world
        # A program may have its own ranks.
        if (ours.rank, ours.num_ranks) == (found.rank, found.world_size):
            check_group(found, "data set")

    # State of one process.

    def _forget_process(self) -> None:
        self._samples_here: _forebay.Samples | None = None
        # Number of epochs that this process has started.
        self._begun = 0
        self._position = Position()
        for name in _THREADS:
            self.__dict__.pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        here = {"_samples_here", "_begun", "_position", *_THREADS}
        return {name: value for name, value in self.__dict__.items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_process()
        alive.add(self)

    # Start of an iteration.

    def _resume(self, world: World, epoch: int) -> tuple[int, int]:
        """Resolves canonical nodes and the shuffle block, or takes them from a checkpoint.

        Args:
            world: This process, with ranks that replicate each other counted as one.
            epoch: The epoch without a checkpoint.

        Returns:
            The epoch, and the samples of it that are done.
        """
        state = self._state.resume
        done = 0
        # A checkpoint of an earlier epoch has been used already.
        if state is not None and state["epoch"] >= epoch:
            epoch, done = state["epoch"], state["sample_in_epoch"]
            self.num_canonical_nodes = state["num_canonical_nodes"]
            self.shuffle_seed = state["shuffle_seed"]
            # Missing in checkpoints of early releases of the reference.
            self.initial_physical_nodes = state.get("initial_physical_nodes")
        elif not self.num_canonical_nodes:
            parts_per_node = 64 if self.shuffle_algo in ("py1s", "py2s") else 1
            self.num_canonical_nodes = parts_per_node * world.num_nodes
        self._set_shuffle_block_size(world)
        return epoch, done

    def _set_shuffle_block_size(self, world: World) -> None:
        """Sets the default of `shuffle_block_size`; `world` is for compatibility."""
        if self.shuffle_block_size is None:
            self.shuffle_block_size = max(4_000_000 // (self.num_canonical_nodes or 1), 1 << 18)

    def _resume_incr_epoch(self) -> tuple[int, int]:
        """Starts an epoch in this worker. All workers of a DataLoader iteration start the same epoch.

        Returns:
            The epoch, and the samples of it that are done.
        """
        world = self._parallel_worker_world
        info = get_worker_info()
        iteration = None
        if info is not None:
            self._begun += 1
            # A worker's seed is its loader's seed plus its number; the loader draws a new seed for each set of workers.
            iteration = (info.seed - info.id, self._begun, info.num_workers)
        upcoming = self._state.begin(world.worker_of_rank, iteration, lambda epoch: self._resume(world, epoch)[0])
        return self._resume(world, upcoming)

    def state_dict(self, num_samples: int | None = None, from_beginning: bool | None = None) -> dict[str, Any]:
        """Returns the position of the training as plain JSON, compatible with the reference in both directions.

        Without arguments it is the position of this process alone, as torchdata's StatefulDataLoader saves it for each worker: it is
        resumed with as many ranks and workers.

        Args:
            num_samples: Samples of the epoch that all ranks together have seen.
            from_beginning: True: they count from the start of the epoch. False: from the position that this run
                resumed.

        Returns:
            `epoch`, `sample_in_epoch`, `num_canonical_nodes`, `shuffle_seed`, `initial_physical_nodes`.
        """
        self._check_group()
        world = self._parallel_rank_world
        if num_samples is None and from_beginning is None:
            position = self._position
            epoch, done = self._resume(world, self.next_epoch) if position.is_upcoming() else position.start
            return {**self._state_at(world, epoch, done), KEY: position.worker()}
        if num_samples is None or from_beginning is None:
            raise TypeError("state_dict has the arguments num_samples and from_beginning, or none")
        epoch, done = self._resume(world, self.next_epoch - 1)
        return self._state_at(world, epoch, num_samples + (0 if from_beginning else done))

    def _state_at(self, world: World, epoch: int, sample_in_epoch: int) -> dict[str, Any]:
        nodes = self.initial_physical_nodes
        return {
            "epoch": epoch,
            "sample_in_epoch": sample_in_epoch,
            "num_canonical_nodes": self.num_canonical_nodes,
            "shuffle_seed": self.shuffle_seed,
            "initial_physical_nodes": world.num_nodes if nodes is None else nodes,
        }

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Makes the next iteration resume the position of `obj`, in all processes of this rank.

        Raises:
            ValueError: `obj` is larger than any checkpoint.
        """
        here = obj.get(KEY)
        self._position.load(here or {"samples": 0, "is_ended": False})
        common = {name: value for name, value in obj.items() if name != KEY}
        if here is not None and here["is_ended"]:
            # The remaining workers may still be in this epoch. If none is, the next one follows.
            if self._state.resume == common:
                return
            common |= {"epoch": common["epoch"] + 1, "sample_in_epoch": 0}
        self._state.resume = common

    # Order of an epoch.

    @of_engine
    def resample_streams(
        self, epoch: int, stream_id: int | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draws the up- and downsampled streams of an epoch.

        Args:
            epoch: The epoch.
            stream_id: One stream; None: all of them.

        Returns:
            Samples of each unit that is shuffled as a whole, int64; and the sample at each position of the epoch before
            the shuffle, int64.
        """
        chosen = range(self.num_streams) if stream_id is None else [stream_id]
        sizes = np.split(self.samples_per_shard, self.shard_offset_per_stream[1:])
        units, samples = _forebay.resample(
            [numbers(shards) for shards in sizes],
            [(number, self.streams[number].choose) for number in chosen],
            self.sampling_granularity,
            self.shuffle_seed + (epoch if self.epoch_seed_change else 0),
            self.shuffle_seed + (epoch if self.sampling_method == "balanced" else 0),
        )
        return int64s(units), int64s(samples)

    def _plan(self, epoch: int, sample_in_epoch: int) -> _forebay.Plan:
        """Plans an epoch, or the rest of one, for this rank."""
        check_order(self)
        world = self._parallel_worker_world
        arguments = plan_arguments(self.batching_method, self, world, epoch, sample_in_epoch)
        return _forebay.Plan(self._division.data, arguments, world.rank)

    def _get_work(self, epoch: int, sample_in_epoch: int) -> NDArray[np.int64]:
        """Returns the ids of this worker, batch after batch, int64; -1 if it has fewer than other workers."""
        world = self._parallel_worker_world
        if self._orders_in_python():
            check_order(self)
            ids = generate_work(self.batching_method, self, world, epoch, sample_in_epoch)
            return ids[world.node, world.rank_of_node, world.worker_of_rank].reshape(-1)
        return np.frombuffer(self._plan(epoch, sample_in_epoch).ids(world.worker_of_rank), np.int64)

    def _iterates_in_own_way(self) -> bool:
        """Returns true if the program orders or delivers samples with its own functions."""
        return _PARTS_OF_ITERATION.are_replaced(self) or self._orders_in_python()

    def _orders_in_python(self) -> bool:
        """Returns true if functions or attributes of the program determine the order."""
        return orders_in_python(self) or any(getattr(self, name) is not value for name, value in self._in_engine.items())

    def __iter__(self) -> Iterator[Any]:
        """Yields the samples of this worker. The first one starts the epoch and ends the previous epoch.

        Raises:
            ValueError: `batch_size` is missing, or the order is impossible.
            Error: A prefetch has failed; raised with the next sample.
        """
        self._position.reset()
        return Epoch(self._begin, self._position.end)

    def _begin(self) -> tuple[Any, Iterator[Any]]:
        """Starts an epoch; returns an object to close, and the samples."""
        self._check_group()
        if self._position.take_empty():
            # The remaining workers begin their rest of the epoch.
            self._begun += get_worker_info() is not None
            return None, iter(())
        if self._samples_here is not None:
            self._samples_here.close()
        if hasattr(self, "_iterator"):
            self._iterator.exit()
        self._unique_worker_world = self._unique_rank_world.detect_workers()
        self._parallel_worker_world = self._parallel_rank_world.detect_workers()
        epoch, done = self._resume_incr_epoch()
        left_out = self._position.begin(epoch, done)
        if not self._is_engines or self._iterates_in_own_way():
            given = Taken(self._iterate_in_python(after(self._get_work(epoch, done), left_out)), left_out)
            self._position.count(given)
            return given, given
        plan = self._plan(epoch, done)
        worker = self._parallel_worker_world.worker_of_rank
        samples = _forebay.Samples(self._division.reader, plan, worker, max(int(self.predownload or 0), 0), left_out)
        self._position.count(samples)
        self._samples_here = samples
        if not INDEXING.are_replaced(type(self)) and not _READS.are_replaced(self):
            return samples, samples
        return samples, map(self.__getitem__, iter(samples.next_id, None))

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Returns sample `sample_id`; fetches its shard if it is not resident.

        Args:
            sample_id: From 0 to `size`, exclusive.
            retry: Further fetches of the shard if it is evicted before it can be read.

        Returns:
            The sample's columns by name.
        """
        if not 0 <= sample_id < self.num_samples:
            # Raises the reference's error.
            self.spanner[sample_id]
        if self._is_engines:
            return self._division.reader.sample(int(sample_id), 1 + retry)
        return self._read_in_python(int(sample_id), retry)

    # Shards.

    def prepare_shard(self, shard_id: int, blocking: bool = True) -> None:
        """Fetches a shard, if it is not on local disk.

        Args:
            shard_id: Number of the shard.
            blocking: Wait if a different process fetches it.
        """
        self._division.prepare(int(shard_id), blocking)

    def evict_shard(self, shard_id: int) -> None:
        """Deletes a shard from local disk, unless it is about to be read.

        Raises:
            ValueError: Its stream has no remote: the files may be the only copy.
        """
        self._division.evict(int(shard_id))

    def evict_coldest_shard(self) -> None:
        """Deletes the least recently used shard, of the streams that have a remote.

        Raises:
            ValueError: There is no such shard.
        """
        self._division.evict_coldest()

    # Names by which programs with a lock of their own call the two.
    def _evict_shard(self, shard_id: int) -> None:
        self.evict_shard(shard_id)

    def _evict_coldest_shard(self) -> None:
        self.evict_coldest_shard()


def _check_types(streams: Any) -> None:
    """Raises unless `streams` is a list of streams, or of objects with their methods. No message has an address in it,
    which may contain a password."""
    is_one = isinstance(streams, (str, bytes)) or hasattr(streams, "apply_default")
    items = {"it": streams} if is_one else {f"streams[{place}]": stream for place, stream in enumerate(streams)}
    for place, item in items.items():
        if is_one or not hasattr(item, "apply_default"):
            kind = type(item)
            name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
            raise TypeError(f"streams is a list of Stream, such as [Stream(remote=...)], but {place} is a {name}")


def _stream_of(name: str, arguments: dict[str, Any]) -> Stream:
    """Makes a stream of the class `name` of the registry."""
    if is_of_reference(streams_registry.get(name)):
        return Stream(**arguments)
    return construct_from_registry(name, streams_registry, partial_function=False, kwargs=arguments)


# Functions that programs override or replace one by one; an iteration then calls them.
_PARTS_OF_ITERATION = Originals(StreamingDataset, "_get_work", "_each_sample_id", "_prepare_thread")
_PREPARES = Originals(StreamingDataset, "prepare_shard")
_READS = Originals(StreamingDataset, "get_item")

# Attributes from which the engine's plan was made.
_IN_ENGINE = ("samples_per_shard", "shard_offset_per_stream", "shards_per_stream", "spanner", "streams")

# Attributes that programs with their own iteration set on the data set; a copy in a different process must not have them.
_THREADS = ("_iterator", "_executor", "_event")


def _forget_parent() -> None:
    """Resets data sets in a forked child: their threads, locks and descriptors belong to the parent."""
    for dataset in alive:
        dataset._division.forget_process()
        dataset._forget_process()


os.register_at_fork(after_in_child=_forget_parent)
