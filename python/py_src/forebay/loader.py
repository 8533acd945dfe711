"""Loader: makes batches from shards, in threads of this process."""

from __future__ import annotations

import atexit
import json
import logging
import operator
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _forebay
from .arguments import ByteSize, Count, OnError, Samples, Seconds, Steps, by_name, checked, checks, shown, whole, within
from .convert import Batch, converter, replicas
from .epoch import Epoch
from .errors import ClosedError, ConfigError, StateError
from .fields import Field, specs
from .remotes import outside
from .samples import Run, Sample, of_engine
from .selections import Fraction, SampleValues, Subset, sample_values
from .streams import Stream
from .trainer_epochs import EpochSetter, Place, TrainerEpochs, trainer_epoch_of
from .transform import Transform
from .world import World, check_group, detect

__all__ = ["Loader"]

_log = logging.getLogger("forebay")

_on_devices: weakref.WeakSet[Loader] = weakref.WeakSet()

_MARKS = {"sample_keys": "sample_keys", "mark_repeats": "repeat", "sample_ids": "sample_ids"}
"""Options that add an output, and its name."""

_PYTHON_ONLY = {"remote", "split", "subset", "fraction", "fraction_seed", "filter", "weights", "balance", "streams", "local", "fields", "transform", "framework", "sharding", "device"}
_PYTHON_ONLY |= World.__annotations__.keys()
"""Arguments of `Loader` that this package uses itself. The others are options of the engine under the same names."""


@atexit.register
def _close_all() -> None:
    """Closes loaders on CUDA devices before the driver, which ends with the process."""
    for loader in list(_on_devices):
        loader.close()


@by_name(
    'local="folder" for shards in a folder, remote="s3://bucket/set" or another URL for those elsewhere',
    cache_dir="local",
    collate_fn="transform",
    dataset="local or remote",
    decode_device="device_decode",
    device_id="device",
    download_dir="local",
    generator="shuffle_seed",
    gpu="device",
    gpu_decode="device_decode",
    num_replicas="world_size",
    num_workers="threads",
    nvjpeg="device_decode",
    path="local or remote",
    persistent_workers="threads",
    pin_memory="device",
    sampler="shuffle, rank and world_size",
    seed="shuffle_seed",
)
class Loader:
    """Batches of training samples in MosaicML streaming's order, made ahead by threads of this process.

        with Loader(remote="s3://bucket/set", batch_size=256, shuffle=True) as loader:
            for epoch in range(loader.epoch, 90):
                for batch in loader:
                    ...

    A batch is a dict of outputs: with `fields={"x": Image(...), "y": Scalar(...)}`, `batch["x"]` is a tensor of shape
    (N, C, H, W) and `batch["y"]` one of shape (N,). `iter` starts the next epoch, also after a `break` or
    `next(iter(loader))`, or resumes the position of `load_state_dict`. Only one iterator is alive at a time; when it is
    dropped, as `break` does, or closed, no more batches are made. The memory of a batch returns to the loader when its
    last tensor is dropped; keeping batches costs memory and nothing else.

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
        weights: Weight of each sample, to draw with replacement: a number column, an array with a number for each, or its `.npy` file.
            Also of the streams that have none. An epoch has `epoch_size` draws, by default as many as samples.
        balance: Column of the classes that an epoch draws equally often, with replacement.
            The weight of a sample is 1 / the samples of its class that are kept. Also of the streams that have none.
        streams: Several sources with their shares.
        local: Folder for the shards. None: a stable folder in the user's cache directory. Alone: it has all shards.
        fields: Outputs of a batch by name. None: every column under its own name, numbers, arrays and text
            decoded, all others as the stored bytes.
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
        bucket_by: Lengths, to batch samples of similar length: a number column, the bytes of another one, or numbers as in `weights`.
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
        transform: Callable[[Any], Any] | None = None,
        framework: str = "torch",
        sharding: Any = None,
        batch_size: Count,
        drop_last: bool = False,
        mark_repeats: bool = False,
        sample_ids: bool = False,
        sample_keys: bool = False,
        shuffle: bool = False,
        shuffle_seed: int = 9176,
        augment_seed: int | None = None,
        shuffle_algo: str = "py1e",
        shuffle_block_size: Samples | None = None,
        partition_algo: str = "relaxed",
        num_canonical_nodes: Count | None = None,
        replication: Count | None = None,
        epoch_size: int | None = None,
        repeat_augment: Count = 1,
        sampling_method: str = "balanced",
        sampling_granularity: Count = 1,
        batching_method: str = "random",
        bucket_by: SampleValues | None = None,
        bucket_batches: Count = 64,
        skip_steps: Steps | None = None,
        device: str | Sequence[str] = "cpu",
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
        validate_hash: str | None = None,
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
            sources = _sources(streams, of_streams)
        if fraction_seed is not None and not any("fraction" in source for source in sources):
            raise ConfigError("fraction_seed is the seed of fraction, which is not set: pass both, or neither")
        outputs = specs(fields)
        self._single = isinstance(device, str) or not isinstance(device, Sequence)
        devices = _devices([device] if self._single else list(device))
        values = checked(_OPTIONS, options)
        is_full = values["drop_last"] and values["on_error"] == "raise"
        marks = [name for option, name in _MARKS.items() if values[option]]
        self._batch = Batch(devices, outputs, values["batch_size"], sharding, is_full, marks)
        self._convert = converter(framework, self._batch)
        self._transform = None if transform is None else Transform(transform)
        self._pid = os.getpid()
        self._closed = False
        self._world = detect(rank, world_size, local_rank, local_world_size)
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
                config["world"] = _world_of_device(self._world, number, len(devices))
                self._engines.append(_forebay.Engine(json.dumps(config), name, stores))
        except BaseException:
            for engine in self._engines:
                engine.close()
            raise
        self._config = config
        if devices != ["cpu"]:
            _on_devices.add(self)
        # Serialises threads that take batches, also those of an iterator that a newer one ends. Held while batches are
        # taken, not while they are converted. Reentrant, because a signal handler may use the loader.
        self._turn = threading.RLock()
        # Weak, because the iterator holds the loader. Without a cycle both end when the last of them is dropped. The name is
        # not DataLoader's `_iterator`, which Lightning replaces.
        self._live: Callable[[], Epoch | None] = lambda: None
        # An epoch has been started, and no batch of it was asked for: the next `iter` continues with it.
        self._is_fresh = False
        # That epoch in each engine, which ends when the object is dropped. The iterator that asks for a batch takes them.
        self._started: list[_forebay.StartedEpoch | None] = []
        # Epoch that the engines move to or start. After an interrupt it stays: some of them may have done that.
        self._starting: int | None = None
        # Iterator with the batch of `_peek`, until that batch is delivered.
        self._peeked: Epoch | None = None
        # Number of the first batch that the last iterator has taken and not delivered. The state does not count it, also after
        # the caller has dropped the iterator, which ends the epoch.
        self._failing: int | None = None
        # Epoch that `set_epoch` has named and no `iter` has started yet.
        self._named_epoch: int | None = None
        # The epochs of a trainer that may differ from the loader's.
        self._trainer = TrainerEpochs()
        # Place of the state that was loaded and that no batch has followed yet.
        self._loaded: Place | None = None
        # Samples of a batch on all devices of all ranks together.
        self._samples_per_step: int = config["batch_size"] * self._world.world_size * len(devices) // (config["replication"] or 1)

    def __iter__(self) -> Iterator[Any]:
        """Starts the next epoch, or resumes the position of `load_state_dict`. An earlier iterator ends.

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

    def _start(self) -> None:
        """Starts the epoch that the next batch belongs to, unless it has been started already."""
        target = self.epoch
        self._trainer.begin_pass(self._named_epoch is not None)
        if self._starting is not None or target != self._engines[0].epoch - self._is_fresh:
            loaded, self._starting = self._loaded, target
            self._move(target, self._loaded_sample(target))
            # Another call of `set_epoch` may return to it.
            self._loaded = loaded
        self._named_epoch = None
        if not self._is_fresh:
            self._starting = target
            for engine in self._engines:
                engine.start()
            self._started = [engine.started_epoch() for engine in self._engines]
            self._is_fresh, self._starting = True, None

    def _loaded_sample(self, epoch: int) -> int:
        """Returns the place where `epoch` begins: that of the loaded state, if it is of this epoch, or 0."""
        return self._loaded.sample if self._loaded is not None and self._loaded.epoch == epoch else 0

    def _warn_of_unused_place(self) -> None:
        """Warns if a state was loaded, no batch has followed it, and `set_epoch` has named an earlier epoch.

        A later epoch is no mistake: a trainer may have ended the loaded one before its last batch.
        """
        if self._loaded is None or self._loaded.epoch <= self.epoch:
            return
        epoch = self._loaded.epoch
        batch = len(self) - self._engines[0].batches_from(self._loaded.sample)
        warnings.warn(
            f"the loaded state is at batch {batch} of epoch {epoch}, but set_epoch({self.epoch}) was called after it was loaded: this "
            f"place is dropped, and epoch {self.epoch} starts at its first batch. To resume, loop over range(loader.epoch, n), which "
            f"starts with epoch {epoch}",
            stacklevel=3,
        )

    def _move(self, epoch: int, sample: int) -> None:
        state = json.loads(self._engines[0].state_dict(None, False))
        self._load(state | {"epoch": epoch, "sample_in_epoch": sample}, strict=True)

    def _load(self, state: dict[str, Any], strict: bool) -> None:
        """Loads a state; the caller holds `_turn`."""
        document, trainer_epoch = json.dumps(state, default=_plain), trainer_epoch_of(state)
        # In one step of the interpreter: an interrupt between two engines would leave them at different places.
        list(map(operator.methodcaller("load_state_dict", document, strict), self._engines))
        # An iterator that no batch was taken from moves to the new epoch.
        iterator = self._live()
        if iterator is not None:
            iterator.forget()
        self._peeked = self._failing = None
        self._is_fresh = False
        self._started = []
        self._named_epoch = self._starting = None
        self._loaded = Place(int(state["epoch"]), int(state["sample_in_epoch"]), *trainer_epoch)

    def _end(self, epoch: Epoch) -> None:
        """Ends the epoch of an iterator that is closed, if no batch was asked for yet; the caller holds `_turn`."""
        if self._is_fresh and self._live() is epoch and not self._closed and os.getpid() == self._pid:
            loaded, named = self._loaded, self._named_epoch
            self._load(json.loads(self._engines[0].state_dict(*epoch.pending())), strict=True)
            # The next `iter` starts it again.
            self._loaded, self._named_epoch = loaded, named

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
    def epoch(self) -> int:
        """Epoch that the next `iter` runs, from 0."""
        if self._named_epoch is not None:
            return self._named_epoch
        return self._starting if self._starting is not None else self._engines[0].epoch - self._is_fresh

    @property
    def first_batch(self) -> int:
        """Number of the batch that the next `iter` starts with, for `enumerate` and progress bars. The last is `len` - 1."""
        sample = self._loaded_sample(self.epoch)
        batch, rest = divmod(sample, self._samples_per_step)
        # Within a batch of this size, after another size; or at the end of an epoch, whose last batch is not full.
        return self._engines[0].batches() - self._engines[0].batches_from(sample) if rest else batch

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

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` run `epoch`: from a loaded state of that epoch until a batch is taken, else from its start.

        An iterator that no batch was taken from moves there too. `state_dict` is that place, unless an iterator is running.
        """
        self._check()
        epoch = whole("epoch", epoch)
        with self._turn:
            self._trainer.name(None)
            self._name(epoch)

    def _follow_trainer(self, epoch: int) -> None:
        """Like `set_epoch`, for a trainer that may iterate this loader more or less than once in its epoch.

        The place of a state is resumed in the epoch of the trainer in which it was saved, and in no other one.
        """
        self._check()
        epoch = whole("epoch", epoch)
        with self._turn:
            place, target, ends_next = self._loaded, epoch, False
            if place is not None and place.trainer_epoch == epoch:
                target, ends_next = place.epoch, place.is_over
            elif place is not None and place.trainer_epoch is not None and place.trainer_epoch < epoch:
                # Also of this epoch, as the engines may have been moved there.
                self._loaded, self._starting = None, epoch
            self._trainer.name(epoch, ends_next)
            self._name(target)

    def _name(self, epoch: int) -> None:
        """Names the epoch of the next `iter`; the caller holds `_turn`."""
        self._named_epoch = epoch
        if self._is_fresh:
            self._start()

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the batches delivered so far; batches made ahead do not count.

        Other threads and signal handlers may call it at any time. The state is small, consists of plain numbers and
        strings, is equal on all ranks, and MosaicML streaming can load it. A batch that could not be converted, or whose
        `transform` raised an error, is delivered again and does not count.

        Raises:
            StateError: Several threads share the iterator, and such a batch precedes one that was delivered.
        """
        self._check()
        check_group(self._world)
        iterator, named, failing = self._live(), self._named_epoch, self._failing
        if iterator is not None and iterator.is_running:
            pending, named = iterator.pending(), None
        else:
            pending = (failing, True) if failing is not None and named is None else (None, False)
        state = json.loads(self._engines[0].state_dict(*pending))
        if named is not None:
            state |= {"epoch": named, "sample_in_epoch": self._loaded_sample(named)}
        return self._trainer.record(state, named is not None)

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Makes the next `iter` resume the position of `state`, on any legal number of ranks.

        Args:
            state: Result of `state_dict`, also MosaicML streaming's. Its seed and canonical nodes replace the loader's.
            strict: Reject a state of another plan, such as other data, weights or seeds. The batch size may differ.

        Raises:
            StateError: The state belongs to another plan; the message lists the arguments that differ.
        """
        self._check()
        if not isinstance(state, Mapping):
            raise StateError(f"a state is the dict that state_dict() returned, but this is a {type(state).__name__}")
        if not state.keys() >= {"epoch", "sample_in_epoch"}:
            keys = ", ".join(map(repr, list(state)[:5])) or "nothing"
            raise StateError(f"a state is a dict from state_dict(), but this dict has {keys}: pass the item with the state")
        with self._turn:
            self._load(dict(state), strict)
            self._trainer.load(self._loaded)
            self._abandon()

    def _seek(self, batch: int) -> None:
        """Makes the next `iter` start with batch number `batch` of its epoch, without reading those before it."""
        with self._turn:
            self._move(self.epoch, batch * self._samples_per_step)
            self._abandon()

    def samples_of(self, step: int, *, epoch: int | None = None) -> list[Sample]:
        """Returns the samples of this process in step number `step`, without reading any: `python -m forebay which` in a run.

        The step is that of a run in this world without interruptions. Of several devices, the samples follow each other.

        Args:
            step: Number of the batch over all epochs, or in `epoch`, from 0.
            epoch: Epoch of the batch. None: `step` counts from the first epoch on, `len` batches in each.

        Raises:
            ConfigError: `epoch` has no such batch.
        """
        self._check()
        epoch, batch = self._batch_of(step, epoch)
        first = self._world.rank * len(self._engines)
        return of_engine(self._engines[0], epoch, batch, range(first, first + len(self._engines)))

    def replay(self, step: int, *, epoch: int | None = None) -> Any:
        """Returns the batch of step number `step` again: the same samples, crops and flips, transformed.

        A second loader with the arguments of this one makes it, so this one's position and batches stay, and steps of
        `skip_steps` are made too. `transform` is called again.

        Args:
            step: As in `samples_of`.
            epoch: As in `samples_of`.

        Raises:
            ConfigError: `epoch` has no such batch.
        """
        self._check()
        epoch, batch = self._batch_of(step, epoch)
        with Loader(**self._arguments | {name: getattr(self._world, name) for name in ("rank", "world_size", "local_rank", "local_world_size")} | {"skip_steps": None, "prefetch": 1}) as again:
            state = json.loads(self._engines[0].state_dict(None, False))
            state["forebay"].pop("skipped", None)
            again._load(state | {"epoch": epoch, "sample_in_epoch": batch * self._samples_per_step}, strict=True)
            return next(iter(again))

    def save_run(self, path: str | os.PathLike[str]) -> None:
        """Writes the file with which `python -m forebay which` names the samples of any step of this run.

        It has the arguments, the digests of the indexes and the seeds, and no secrets. One rank is enough.
        """
        self._check()
        Run.save(path, self._config, self.state_dict())

    def _batch_of(self, step: int, epoch: int | None) -> tuple[int, int]:
        """Returns the epoch of a step and the batch in it."""
        step = whole("step", step)
        return divmod(step, max(len(self), 1)) if epoch is None else (whole("epoch", epoch), step)

    def stats(self) -> dict[str, Any]:
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
        # In one step of the interpreter: an interrupt between two engines would leave one open.
        list(map(operator.methodcaller("close"), self._engines))

    def __enter__(self) -> Loader:
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
            iterator.abandoned = True

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this loader was closed: make another one")
        if os.getpid() != self._pid:
            _refuse_worker()
            raise ClosedError(
                "this loader was made in another process, and a fork does not copy its threads: make a loader in this process"
            )


_OPTIONS = checks(Loader.__init__.__annotations__, without=_PYTHON_ONLY | {"bucket_by"}) | {"bucket_by": sample_values}


def _sources(streams: Any, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the engine's form of `streams`."""
    if not isinstance(streams, Sequence) or not all(isinstance(stream, Stream) for stream in streams):
        raise ConfigError(f"streams is a list of forebay.Stream, such as [Stream(remote=...)], but it is {shown(streams)}")
    sources = []
    for place, stream in enumerate(streams):
        with within(f"streams[{place}]"):
            sources.append(stream._config(**defaults))
    return sources


def _plain(value: Any) -> int:
    """Converts whole numbers of numpy and torch to Python's, for `json`."""
    try:
        return operator.index(value)
    except TypeError:
        raise StateError(
            f"a state consists of plain numbers, text and dicts, but {value!r} in it is a {type(value).__name__}"
        ) from None


def _devices(devices: list[Any]) -> list[str]:
    """Returns the names of devices, which may be torch.device objects."""
    for device in devices:
        if device is None or isinstance(device, (bool, int, float, bytes)):
            raise ConfigError(f'device is a name such as "cpu" or "cuda:0", or a list of names, but it is {device!r}')
    names = ["cpu" if str(device) == "cpu:0" else str(device) for device in devices]
    if not names:
        raise ConfigError("device is an empty list: name at least one device")
    if "cuda" in names and len(names) > 1:
        raise ConfigError(f'"cuda" is one device: in a list name each by its number, such as "cuda:0", but it is {names}')
    torch = sys.modules.get("torch")
    if names == ["cuda"] and torch is not None and torch.cuda.is_initialized():
        return [f"cuda:{torch.cuda.current_device()}"]
    return names


def _world_of_device(world: World, number: int, devices: int) -> dict[str, int]:
    """Returns the ranks of one device; each device of a process is a rank."""
    return {
        "rank": world.rank * devices + number,
        "world_size": world.world_size * devices,
        "local_rank": world.local_rank * devices + number,
        "local_world_size": world.local_world_size * devices,
    }


def _refuse_worker() -> None:
    data = sys.modules.get("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        raise ClosedError(
            "forebay.Loader inside a DataLoader worker: it has its own threads, so iterate it in the training process, "
            "without a DataLoader around it"
        )
