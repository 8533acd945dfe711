"""Loader: makes batches from shards, in threads of this process."""

from __future__ import annotations

import atexit
import json
import logging
import operator
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from . import _forebay
from .arguments import ByteSize, Count, Samples, Seconds, Steps, by_name, checked, checks, whole
from .choices import (
    BatchingMethod,
    Device,
    Framework,
    Hash,
    OnError,
    PartitionAlgo,
    SamplingMethod,
    ShuffleAlgo,
    Stats,
)
from .convert import Batch, converter, replicas
from .devices import names_of, world_of
from .epoch import Epoch
from .errors import ClosedError, ConfigError
from .fields import Field, paddings, specs
from .mapping.mapper import HIDDEN, Mapper
from .mapping.options import Map
from .mapping.options import checked as checked_map
from .position import LoaderPosition
from .remotes import outside
from .samples import in_any_folder
from .selections import Fraction, SampleValues, Subset, sample_values
from .steps import StepsOfRun
from .streams import Stream, configs_of
from .trainer_epochs import EpochSetter
from .transform import Transform
from .world import World, check_group, detect

if TYPE_CHECKING:
    # Type checkers have this module; programs need not install it.
    from typing_extensions import TypeVar

    BatchT = TypeVar("BatchT", default=dict[str, Any])
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")

__all__ = ["Loader"]

_log = logging.getLogger("forebay")

_on_devices: weakref.WeakSet[Loader] = weakref.WeakSet()

_MARKS = {"sample_keys": "sample_keys", "mark_repeats": "repeat", "sample_ids": "sample_ids", "sample_draws": "sample_draws"}
"""Options that add an output, and its name."""

_PYTHON_ONLY = {"remote", "split", "subset", "fraction", "fraction_seed", "filter", "weights", "balance", "streams", "local", "fields", "map", "transform", "framework", "sharding", "device"}
_PYTHON_ONLY |= World.__annotations__.keys()
"""Arguments of `Loader` that this package uses itself. The others are options of the engine under the same names."""


# Advice for arguments that other libraries have.
_OF_STREAM = ". it is an option of a stream, as in streams=[Stream(remote=..., files='each')]"
_OF_FIELD = ". it is an option of a field, as in fields={'ids': Tokens('ids', pad=0, max_length=2048)}"
_OF_PICTURE = ". operations are a part of the field, as in fields={'x': Image('jpg', RandomResizedCrop(224))}"
_LOOP = ". each `for batch in loader` is an epoch, as in for epoch in range(loader.epoch, 90)"


@atexit.register
def _close_all() -> None:
    """Closes loaders on CUDA devices before the driver, which ends with the process."""
    for loader in list(_on_devices):
        loader.close()


@by_name(
    'local="folder" for shards in a folder, remote="s3://bucket/set" or another URL for those elsewhere',
    bucket_size="bucket_batches",
    buffer_size="shuffle_block_size",
    cache="local, and cache_limit for its size",
    cache_dir="local",
    choose=_OF_STREAM,
    collate="transform",
    collate_fn="transform",
    columns="fields",
    data_dir="local or remote",
    data_files="remote",
    dataset="local or remote",
    decode_device="device_decode",
    device_id="device",
    download_dir="local",
    drop_remainder="drop_last",
    dtype=_OF_FIELD,
    epochs=_LOOP,
    files=_OF_STREAM,
    generator="shuffle_seed",
    gpu="device",
    gpu_decode="device_decode",
    image_size=_OF_PICTURE,
    ignore_counts=_OF_STREAM,
    manifest=_OF_STREAM,
    max_epochs=_LOOP,
    max_length=_OF_FIELD,
    max_seq_len=_OF_FIELD,
    max_tokens=_OF_FIELD,
    multiprocessing_context="map=Map(..., kind=)",
    n_workers="threads",
    num_epochs=_LOOP,
    num_replicas="world_size",
    num_threads="threads",
    num_workers="threads",
    nvjpeg="device_decode",
    pad=_OF_FIELD,
    path="local or remote",
    persistent_workers="threads",
    pin_memory="device",
    prefetch_factor="prefetch",
    proportion=_OF_STREAM,
    repeat=_OF_STREAM,
    resize=_OF_PICTURE,
    resume=". loader.load_state_dict(state) resumes",
    root="local or remote",
    sampler="shuffle, rank and world_size",
    seed="shuffle_seed",
    shuffle_buffer="shuffle_block_size",
    timeout="stall_timeout",
    tokenizer=". tokens are made before, as a column of MDSWriter, or by a function: map=Map(...)",
    transforms="operations of a field, such as Image('jpg', RandomResizedCrop(224)), or transform for whole batches",
    url="remote",
    urls="remote",
    worker_init_fn="map=Map(...), whose function gets a generator of the sample",
    workers="threads",
)
class Loader(LoaderPosition, StepsOfRun, Generic[BatchT]):
    """Batches of training samples in MosaicML streaming's order, made ahead by threads of this process.

        with Loader(remote="s3://bucket/set", batch_size=256, shuffle=True) as loader:
            for epoch in range(loader.epoch, 90):
                for batch in loader:
                    ...

    A batch is a dict of outputs: with `fields={"x": Image(...), "y": Scalar(...)}`, `batch["x"]` is a tensor of shape
    (N, C, H, W) and `batch["y"]` one of shape (N,). `iter` starts the next epoch, also after a `break` or
    `next(iter(loader))`, or resumes the position of `load_state_dict`; an error or an interrupt is no exception, and
    `loader.load_state_dict(loader.state_dict())` continues the epoch that was left. Only one iterator is alive at a
    time; when it is dropped, as `break` does, or closed, no more batches are made. The memory of a batch returns to the
    loader when its last tensor is dropped; keeping batches costs memory and nothing else.

    For type checkers, `Loader[T]` yields values of the type T: the type of the result of `transform`, or else a dict.
    With a list of devices name it: `loader: Loader[list[dict[str, Any]]] = Loader(...)`.

    The documentation has guides to all of this: the loader, fields, order, checkpoints, GPU, tuning, troubleshooting.

    Args:
        remote: URL (`s3://`, `gs://`, `https://` and others) or path of the shards' folder, WebDataset's tar files or
            Parquet, such as "s3://bucket/train-{000..146}.tar", a data set of the hub, or a `datasets.Dataset`; in
            place of `streams`.
        split: Sub-folder or split, such as "train"; also of the streams that have none.
        subset: Samples to keep, by number: text such as "0:1000, 5000:6000", a list or array of numbers, or a file of
            them; also of the streams that have none.
        fraction: Seeded part to keep, such as (0, 0.9) for training and (0.9, 1) for validation, which share no sample
            and miss none; also of the streams that have none.
        fraction_seed: Seed of `fraction`. None: 0.
        filter: Condition on number and text columns of the samples to keep, such as "class < 100 and width >= 256"; also
            of the streams that have none. The columns are read once, and the answer stays in the stream's folder.
        weights: Weight of each sample, to draw with replacement: a number column, an array of numbers, or its `.npy` file.
            Also of the streams that have none. An epoch has `epoch_size` draws, by default as many as samples.
        balance: Column of the classes that an epoch draws equally often, with replacement.
            The weight of a sample is 1 / the samples of its class that are kept. Also of the streams that have none.
        streams: Several sources with their shares.
        local: Folder for the shards. None: a stable folder in the user's cache directory. Alone: it has all shards.
        fields: Outputs of a batch by name. None: every column under its own name, numbers, arrays and text
            decoded, all others as the stored bytes.
        map: Function of each sample, as a `Map`, which calls it in workers ahead of the loop. A function alone: in threads.
        transform: Function that is called with each batch, in the thread that iterates; its result is yielded. Random
            operations of torchvision draw once per call: call them for each sample. After an error it gets the same
            batch again, with the changes that it made in place.
        framework: Type of tensors: "torch", "jax", "tensorflow", "numpy" (host memory only), or "dlpack" for CuPy and
            others.
        sharding: With "jax", the jax.sharding.Sharding of arrays that span several devices and processes.
        batch_size: Rows of a batch on each device.
        drop_last: Leave out a last batch that is not full.
        mark_repeats: Add a bool output `repeat`, true for rows that only make ranks equally long.
        sample_ids: Add an int64 output `sample_ids`: for each row its stream, shard of the stream and index in the shard.
            All three count from 0, and the shape is (N, 3).
        sample_draws: Add an int64 output `sample_draws`: epoch, stream and draw of each row, which key its random draws.
            `drawn` and `sample_generator` take them. The shape is (N, 3).
        sample_keys: Add a text output `sample_keys`: key of each row's sample in a tar, or path of its file; else empty.
        shuffle: Shuffle samples, differently in each epoch.
        shuffle_seed: Seed of the order.
        augment_seed: Seed of random crops and flips. None: `shuffle_seed`.
        shuffle_algo: Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
        shuffle_block_size: Samples that are shuffled together. None: max(4,000,000 / canonical nodes, 262,144).
        partition_algo: Partition algorithm: "relaxed" or "orig".
        num_canonical_nodes: Nodes that define the order. None: this job's nodes, or 64 times as many for py1s and py2s.
        replication: Number of consecutive ranks that get the same samples.
        epoch_size: Samples of an epoch. None: the sum of the streams' shares.
        repeat_augment: Rows of each sample, with separate draws; an epoch keeps its length and has fewer samples.
        sampling_method: Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws once.
        sampling_granularity: Samples that are drawn together.
        batching_method: Mix of streams in a batch: "random", "stratified", "per_stream" or "device_per_stream".
        bucket_by: Lengths, to batch samples of similar length: a number column, bytes of another one, or as in `weights`.
        bucket_batches: Global batches that `bucket_by` sorts together.
        skip_steps: Steps to leave out on all ranks, counted through all epochs. Checkpoints keep them.
        device: Device of the tensors, "cpu", "cuda" or "cuda:0", or a list of devices, which yields a batch for each.
        device_decode: Decode baseline JPEGs on the CUDA device (nvJPEG), whose grey levels may differ by a few.
        share_decode: With `device_decode`, idle decode threads take pictures too; grey levels may vary between runs.
        gpu_direct_storage: Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
        rank: This process among all. None, here and in the next three: from the process group, then the launcher.
        world_size: Number of processes.
        local_rank: This process among those of its node.
        local_world_size: Number of processes of this node.
        threads: Decode threads. None: the CPUs of this process, shared with the node's other ranks.
        prefetch: Batches made ahead. None: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most 31.
        memory: Bytes for batches and encoded samples, as a number or "2gb". None: a share of the machine's memory.
        mmap: Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
        predownload: Samples whose shards are fetched ahead. None: enough for `prefetch` batches, at least 8 batches.
        cache_limit: Bytes on disk of the shards and indexes of all streams, as a number or "100gb". None: no limit.
        keep_zip: Keep compressed shards next to the unpacked ones.
        validate_hash: Hash to match when a shard is fetched or unpacked, such as "xxh64". None: the cheapest in the index.
            Shards that are read in place, or are in `local` already, are not checked.
        window: Tokens of a sample, in files of token ids. None: a sample is a document.
        window_stride: Tokens from the start of a window to the start of the next one. None: `window`.
        download_retry: Total attempts per download.
        download_timeout: Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        stall_timeout: Seconds without progress before the next batch fails with an error.
        on_error: Reaction to a sample that cannot be read or decoded: "raise", or "skip" to leave it out.
        on_missing: Reaction to a sample that lacks a field without a default: "raise", or "skip" to plan without it.
        max_errors: Samples per epoch and rank that "skip" may leave out.
        allow_unsafe_types: Accept columns of Python pickles; they are delivered as bytes.
        fetch_threads: Threads that talk to the store. None: one per 4 CPUs.
        ca_file: File of certificates (PEM) that stores may have, in addition to the system's.
        pin_threads: Bind each decode thread to one CPU.
        sample_bytes_max: Largest sample that is read, in bytes or as "1gb".
        trace: Record every timed span for `trace_json`.

    Raises:
        ConfigError: An argument is wrong; the message names the argument and the fix.
        UnsupportedError: The framework is not installed; or `device` is a CUDA device, and there is no driver, no such
            device, or the driver is too old.
        ClosedError: This is a DataLoader worker, or a forked process with a CUDA device; or the loader was closed.
        FullError: No memory on the host or the device, or no room on disk.
        IoError: A disk or the device fails; the message names it.
        Error: The index cannot be read; see `forebay.errors` for all kinds.
    """

    def __init__(
        self,
        *,
        remote: str | os.PathLike[str] | None = None,
        split: str | None = None,
        subset: Subset | None = None,
        fraction: Fraction | None = None,
        fraction_seed: int | None = None,
        filter: str | None = None,
        weights: SampleValues | None = None,
        balance: str | None = None,
        streams: Sequence[Stream] | None = None,
        local: str | os.PathLike[str] | None = None,
        fields: Mapping[str, Field] | None = None,
        map: Map | Callable[[dict[str, Any], Any], dict[str, Any]] | None = None,
        transform: Callable[[Any], BatchT] | None = None,
        framework: Framework = "torch",
        sharding: Any = None,
        batch_size: Count,
        drop_last: bool = False,
        mark_repeats: bool = False,
        sample_ids: bool = False,
        sample_draws: bool = False,
        sample_keys: bool = False,
        shuffle: bool = False,
        shuffle_seed: int = 9176,
        augment_seed: int | None = None,
        shuffle_algo: ShuffleAlgo = "py1e",
        shuffle_block_size: Samples | None = None,
        partition_algo: PartitionAlgo = "relaxed",
        num_canonical_nodes: Count | None = None,
        replication: Count | None = None,
        epoch_size: int | None = None,
        repeat_augment: Count = 1,
        sampling_method: SamplingMethod = "balanced",
        sampling_granularity: Count = 1,
        batching_method: BatchingMethod = "random",
        bucket_by: SampleValues | None = None,
        bucket_batches: Count = 64,
        skip_steps: Steps | None = None,
        device: Device | Sequence[Device] = "cpu",
        device_decode: bool = False,
        share_decode: bool = False,
        gpu_direct_storage: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int | None = None,
        local_world_size: int | None = None,
        threads: Count | None = None,
        prefetch: Count | None = None,
        memory: ByteSize | None = None,
        mmap: bool = False,
        predownload: int | None = None,
        cache_limit: ByteSize | None = None,
        keep_zip: bool = False,
        validate_hash: Hash | None = None,
        window: Count | None = None,
        window_stride: Count | None = None,
        download_retry: Count = 2,
        download_timeout: Seconds = 60.0,
        stall_timeout: Seconds = 600.0,
        on_error: OnError = "raise",
        on_missing: OnError = "raise",
        max_errors: int = 0,
        allow_unsafe_types: bool = False,
        fetch_threads: Count | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        pin_threads: bool = False,
        sample_bytes_max: ByteSize = 1 << 30,
        trace: bool = False,
    ) -> None:
        """Opens the data set. `help(forebay.Loader)` describes the arguments."""
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        options = {name: value for name, value in self._arguments.items() if name in _OPTIONS}
        _refuse_worker()
        of_streams = {"split": split, "subset": subset, "fraction": fraction, "fraction_seed": fraction_seed}
        of_streams |= {"filter": filter, "weights": weights, "balance": balance}
        if streams is None:
            sources = [Stream(remote=remote, local=local)._config(**of_streams)]
        elif remote is not None or local is not None:
            raise ConfigError("streams name their own remote and local: give either streams, or remote and local")
        else:
            sources = configs_of(streams, of_streams)
        if fraction_seed is not None and not any("fraction" in source for source in sources):
            raise ConfigError("fraction_seed is the seed of fraction, which is not set: pass both, or neither")
        outputs = specs(fields)
        padding = paddings(fields)
        self._single = isinstance(device, str) or not isinstance(device, Sequence)
        devices = names_of([device] if self._single else list(device))
        values = checked(_OPTIONS, options)
        is_full = values["drop_last"] and values["on_error"] == "raise"
        marks = [name for option, name in _MARKS.items() if values[option]]
        if padding is not None:
            # The engine does not know masks. A map needs two of the marks.
            taken = {name: option for option, name in _MARKS.items() if values[option] or (map is not None and name in HIDDEN)}
            for mask in padding.masks:
                if mask in taken:
                    raise ConfigError(f"{taken[mask]} adds an output called `{mask}`: rename the AttentionMask of that name")
        self._batch = Batch(devices, outputs, values["batch_size"], sharding, is_full, padding, marks)
        self._convert = converter(framework, self._batch)
        options = None if map is None else checked_map(map)
        self._transform = None if transform is None else Transform(transform)
        self._pid = os.getpid()
        self._closed = False
        self._world = detect(rank, world_size, local_rank, local_world_size)
        self._mapper: Mapper | None = None
        if options is not None:
            ranks = (self._world.world_size, self._world.local_world_size)
            self._mapper = Mapper(options, framework, self._batch, values, ranks)
            # It needs them of each row.
            values |= {"sample_ids": True, "sample_draws": True}
        # With other ranks a batch that loses all its samples gets a repeat.
        is_alone = self._world.world_size * len(devices) == 1
        self._may_lack_batches = values["on_error"] == "skip" and is_alone
        _log.info("loader of %s, local rank %d of %d", self._world, self._world.local_rank, self._world.local_world_size)
        config = {"streams": sources, "fields": outputs} | values
        if sharding is not None:
            if not self._single:
                raise ConfigError("sharding places the batches on devices itself, but device is a list: pass one device")
            config["replication"] = replicas(sharding, self._world, values["replication"])
        self._engines = []
        stores = outside(*(source.get("remote") for source in sources))
        try:
            for number, name in enumerate(devices):
                config["world"] = world_of(self._world, number, len(devices))
                self._engines.append(_forebay.Engine(json.dumps(config), name, stores))
        except BaseException:
            for engine in self._engines:
                engine.close()
            raise
        self._config = in_any_folder(config)
        if devices != ["cpu"]:
            _on_devices.add(self)
        self._begin_at_start(config["batch_size"] * self._world.world_size * len(devices) // (config["replication"] or 1))

    def __iter__(self) -> Iterator[BatchT]:
        """Starts the next epoch, or resumes the position of `load_state_dict`. An earlier iterator ends.

        A loop that ends early, by `break`, an error or an interrupt, has used up its epoch: the next loop runs the next
        epoch. `loader.load_state_dict(loader.state_dict())` in between continues the epoch with the batch after the
        last one that was delivered.

        Warns:
            UserWarning: An interactive session begins an epoch after an error or an interrupt has left one.

        Raises:
            ConfigError: The process group that was initialised since the loader was made has another rank or size.
        """
        self._check()
        check_group(self._world)
        with self._turn:
            if self._peeked is not None:
                # Moves, and drops the batch, if another epoch was named.
                self._start()
            if self._peeked is not None:
                return self._peeked
            self._warn_of_left_epoch()
            self._abandon()
            self._start()
            iterator = Epoch(self)
            self._live = weakref.ref(iterator)
        return iterator

    def _peek(self) -> Any:
        """Returns the batch that the next `iter` starts with. It does not count in `state_dict` and `epoch` before that.

        Raises:
            StopIteration: The loaded state is the end of an epoch.
        """
        with self._turn:
            iterator, loaded, is_shown = iter(self), self._loaded, False
            try:
                batch = iterator.peek()
                is_shown = True
                return batch
            finally:
                # Nothing was delivered yet, and the iterator holds a batch that the engines do not have any more.
                if self._failing is not None:
                    self._is_fresh, self._loaded, self._peeked = True, loaded, iterator
                    if not is_shown:
                        # The next `iter` makes it again.
                        iterator.close()

    def __getitem__(self, at: object) -> Any:
        raise TypeError(
            "forebay.Loader is iterated, not indexed: it makes the batches itself, so pass it in place of a DataLoader and not as the "
            "data set of one; forebay.integrations has a Trainer for Hugging Face's, and a DataLoader for libraries that insist on one"
        )

    # Type checkers would take any name for an attribute.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("dataset", "sampler"):
                name += (
                    "; forebay.integrations has a DataLoader with one: torch.DataLoader(loader) there, for Accelerate "
                    "accelerate.DataLoader(loader), and a Trainer in place of Hugging Face's"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name}")

    def __len__(self) -> int:
        """Number of batches of a whole epoch."""
        self._check()
        check_group(self._world)
        return self._engines[0].batches()

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes of a folder of files, each at the number of its `label`. None: there are none.

        Raises:
            ConfigError: Streams have different classes.
        """
        found = [classes for classes in self._engines[0].classes() if classes is not None]
        if any(classes != found[0] for classes in found):
            raise ConfigError("the streams have different classes, so a label has no common name: read the column `class`")
        return found[0] if found else None

    @property
    def batch_size(self) -> int:
        """Rows of a batch on each device."""
        return self._batch.rows

    @property
    def batch_sampler(self) -> EpochSetter:
        """Object whose `sampler.set_epoch` is `set_epoch`: trainers look there for it."""
        return EpochSetter(self)

    def stats(self) -> Stats:
        """Returns the figures of all stages since the loader was made.

        `bottleneck` is one line that names the stage that limits the rate. `stages` maps a stage to `busy_s`, `input_s`
        (wait for the previous stage) and `output_s` (wait for the next stage), in seconds summed over its threads, and
        to `items` and `bytes`. `counters` has plain numbers, `notes` has sentences about choices of the loader,
        `elapsed_s` is the loader's age.
        """
        return json.loads(_forebay.Engine.stats(self._engines))

    def prometheus(self) -> str:
        """Returns the same figures as Prometheus text, labelled with the rank."""
        return "".join(engine.prometheus() for engine in self._engines)

    def trace_json(self) -> str | None:
        """Returns the time spans of all stages in Chrome's format, for Perfetto. None without `trace=True`."""
        return self._engines[0].trace_json()

    def close(self) -> None:
        """Ends the loader: threads, files and locks are gone when this returns. Delivered batches stay valid.

        Threads that wait for a CUDA device are abandoned after ten seconds, with a warning in the log.
        """
        self._closed = True
        if os.getpid() != self._pid:
            return
        self._abandon()
        if self._mapper is not None:
            self._mapper.workers.close()
        # In one step of the interpreter: an interrupt between two engines would leave one open.
        list(map(operator.methodcaller("close"), self._engines))

    def __enter__(self) -> Loader[BatchT]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed or os.getpid() != self._pid:
            return "<forebay.Loader, closed>"
        resumed = f" from batch {self.first_batch}" if self.first_batch else ""
        return f"<forebay.Loader, epoch {self.epoch}{resumed}, {self._engines[0].batches()} batches, {self._world}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "forebay.Loader cannot be pickled, because its threads belong to this process. Make one in each process, in Lightning in "
            "train_dataloader(); for a checkpoint save state_dict()"
        )

    def _abandon(self) -> None:
        """Ends the live iterator, if there is one."""
        self._peeked = self._failing = None
        iterator = self._live()
        if iterator is not None:
            iterator.abandon()

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this loader was closed: make another one")
        if os.getpid() != self._pid:
            _refuse_worker()
            raise ClosedError(
                "this loader was made in another process, and a fork does not copy its threads: make a loader in this process"
            )


_OPTIONS = checks(Loader.__init__.__annotations__, without=_PYTHON_ONLY | {"bucket_by"}) | {"bucket_by": sample_values}


def _refuse_worker() -> None:
    data = sys.modules.get("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        raise ClosedError(
            "forebay.Loader inside a DataLoader worker: it has its own threads, so iterate it in the training process, "
            "without a DataLoader around it"
        )
