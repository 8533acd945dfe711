"""The loader: shards to batches, in threads of this process."""

from __future__ import annotations

import atexit
import bisect
import inspect
import json
import operator
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from . import _forebay
from .arguments import U32, by_name, byte_size, flag, one_of, seconds, text, whole, within
from .convert import converter
from .errors import ClosedError, ConfigError, StateError
from .fields import Field, specs
from .streams import Stream
from .world import World, detect

__all__ = ["Loader"]

_on_devices: weakref.WeakSet[Loader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The driver ends with the process: threads that use it end before."""
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
    gpu="device",
    gpu_decode="device_decode",
    num_workers="threads",
    nvjpeg="device_decode",
    path="local or remote",
    pin_memory="device",
    seed="shuffle_seed",
)
class Loader:
    """Yields batches of training samples, in MosaicML streaming's order, made ahead in threads of this process.

    Iterating gives a dict of outputs for each batch: with `fields={"x": Image(...), "y": Scalar(...)}` that is
    `batch["x"]`, a tensor of shape (N, C, H, W), and `batch["y"]`, one of shape (N,). `iter` starts the next epoch, after
    a `break` too, or goes on where `load_state_dict` said. Only one iterator is alive at a time. A batch's memory goes back to
    the loader when its last tensor is dropped; keeping batches costs memory and nothing else.

    On a CUDA device a batch is still being copied when it is yielded. The stream that is current then waits for the copy, the
    host does not; and the memory is written again when that stream has done what it was given before the last tensor was
    dropped. Order other streams that use the batch against it (`wait_stream`), before and after; a stream on which a batch was
    taken has to live as long as the batch. While a graph is captured there no batch can be taken, but dropped it may be: then the
    stream has to live a moment longer than the capture, some 10 ms, or as long as the loader. A batch that was taken on the
    per-thread default stream (DLPack's 2) is better not dropped during a capture, which may end by it. JAX reads on streams that
    it does not name: keep a batch until the step that reads it has ended (`jax.block_until_ready` of what the step returns).

        with Loader(remote="s3://bucket/set", batch_size=256, shuffle=True) as loader:
            for epoch in range(loader.epoch, 90):
                for batch in loader:
                    ...

    Args:
        remote: URL (`s3://`, `http://`, `https://`, `file://`) or path of the shards; in place of `streams`.
        split: Sub-folder, such as "train"; also for the streams that name none.
        streams: Several sources with their shares.
        local: Folder for the shards. None: a stable folder in the user's cache directory. With `remote=None` the shards are
            already there.
        fields: The batch's outputs by name. None: every column under its own name, undecoded.
        transform: Called with each batch in the thread that iterates; what it returns is yielded.
        framework: What tensors are: "torch", "numpy" (read-only under numpy 2.1, which makes all of DLPack's arrays so; host
            memory only), or "dlpack" for objects with `__dlpack__`, which JAX, CuPy and others take.
        batch_size: Rows of a batch on each device.
        drop_last: Leave out a last batch that is not full.
        mark_repeats: Add a bool output `repeat`, true for rows that only make ranks equally long.
        shuffle: Shuffle samples, anew in each epoch.
        shuffle_seed: Seed of the order.
        augment_seed: Seed of random crops and flips. None: `shuffle_seed`.
        shuffle_algo: "py1e", "py1br", "py1s", "py2s" or "naive".
        shuffle_block_size: Samples that are shuffled together. None: max(4,000,000 / canonical nodes, 262,144).
        partition_algo: "relaxed" or "orig".
        num_canonical_nodes: What the order is laid out for. None: this job's nodes (64 times as many for py1s and py2s).
        replication: This many consecutive ranks get the same samples.
        epoch_size: Samples of an epoch. None: what the streams' shares give.
        sampling_method: "balanced" draws anew in each epoch, "fixed" once.
        sampling_granularity: Samples that are drawn together.
        batching_method: "random", "stratified", "per_stream" or "device_per_stream".
        device: Where tensors are delivered: "cpu", "cuda:0" and so on, or "cuda" for torch's current device where torch uses
            CUDA already, else the one numbered `local_rank`, or the only one that the process sees. Lists, such as those of
            `Text` and `Bytes`, stay on the host. A list of devices yields a list of batches, one per device, and each
            device counts as a rank of its own. A batch is copied when it is full, each output at once; but rows of at least 64
            KiB that are the stored bytes of an `ndarray` column of fixed type and shape in MDS and come from disk rather than
            the page cache are copied one by one from where they were read to, and a batch that has such takes its memory on the
            device with the first (`rows_copied_early` in `stats()["counters"]`). The environment variables
            FOREBAY_CUDA_LIBRARY, FOREBAY_NVJPEG_LIBRARY and FOREBAY_CUFILE_LIBRARY name the libraries of driver, decoder and
            GPUDirect Storage where the system's are not the ones.
        device_decode: Leave JPEGs to the CUDA device (nvJPEG): baseline files, cropped and resized by one operation, as long as
            batches have room for them: in their rows, and some behind those out of `memory`. The others, and those that the
            device refuses or leaves out, are decoded on the host, into the same batch; `stats()["counters"]` counts
            `pictures_on_device` (`pictures_on_engines` of them by nvJPEG's engines), `pictures_not_for_device`, `pictures_refused`
            and `device_decode_fallbacks`. nvJPEG comes with CUDA, or by `pip install nvidia-nvjpeg-cu12` (CUDA 13: nvidia-nvjpeg);
            without it the host decodes, which a line in the log says. Outputs of varying size stay on the host. Crops and flips
            are the same, grey levels may differ by a few; also from run to run where nvJPEG's engines round otherwise than the
            device's cores, which share the pictures as fast as they are. A file that is damaged inside its data the device may
            decode to something without an error, where the host refuses it: `validate_hash` finds what was damaged on its way.
            Besides the batches it takes device memory for decoded pictures, twice 1.25 GiB at most unless a single one is larger;
            where there is less, fewer are decoded at once, and where there is none the host decodes from then on.
            Not yet run on a GPU.
        share_decode: With `device_decode`, decode threads that would wait for the device take some of its pictures: as many as
            let both end together, measured from batch to batch and counted as `pictures_shared`. Who decodes a picture then
            depends on time, so its grey levels may differ by a few from run to run; the samples, crops and flips do not.
        gpu_direct_storage: Read rows from the shards on local disk right into the CUDA device's memory (cuFile, NVIDIA GPUDirect
            Storage), without host memory between and past the page cache: rows of `Array` and `Tokens` that are the stored bytes
            of an `ndarray` column of fixed type and shape in MDS, of at least 4 KiB, with no column of varying size before it or
            none behind it. All else in the batch goes the usual way, and so does what cuFile refuses, such as shards on file
            systems that it does not know; `stats()["counters"]` counts `rows_gpu_direct`, `rows_gpu_direct_refused` and
            `gpu_direct_storage_fallbacks`. It needs a drive that cuFile reaches without host memory, by nvidia-fs or PCI
            peer-to-peer DMA; without, it is said once and the host reads everything. Whether one file is read so is cuFile's
            business: CUFILE_ALLOW_COMPAT_MODE=false has it refuse what it would copy by way of host memory. Samples begin
            anywhere in a shard, and for offsets and lengths that are not multiples of 4 KiB cuFile takes a detour over buffers of
            its own on the device: do not expect rows of less than some 100 kB to gain. Not yet run on a GPU.
        rank: This process among all. None, like the three after it: asked of `torch.distributed`, then of the launcher's
            environment (torchrun, SLURM, MPI), else one process.
        world_size: All processes.
        local_rank: This process among those of its node.
        local_world_size: The processes of this node.
        threads: Decode threads. None: the CPUs that this process may use, shared with the node's other ranks. forebay's own
            kernels use the vector instructions that the machine has; the environment variable FOREBAY_VECTORS limits them to
            "avx512", "avx2", "neon" or "none" (JPEGs are left to libjpeg-turbo), with the same pixels. It is read once per
            process.
        prefetch: Batches made ahead. None: 3, and of batches below 2 MiB as many as 8 MiB hold, 31 at most.
        memory: Bytes for batches and encoded samples, as a number or "2gb". None: a share of what the machine has.
        mmap: Copy samples of up to 16 KiB, such as tokens, from memory maps of shards that are in the page cache: 1.15 to 1.5
            times as many samples per second. It is used for one's own files on ext4, xfs, btrfs and f2fs. A lease keeps others
            from changing a shard meanwhile: who opens one for writing waits for up to 45 s while the loader, or a process that
            was forked since, has it open. A disk that fails, or a shard that is cut off past its lease, ends the process with
            SIGBUS, as with any memory map, instead of raising an error.
        predownload: Samples whose shards are fetched ahead.
        cache_limit: Bytes that the shards may take in `local`, as a number or "100gb"; those needed last leave first, the
            next epoch's order included. At least the sizes of the largest shard and of index.json together. What a folder
            holds beyond it already stays until another shard needs the room.
        keep_zip: Keep compressed shards beside the unpacked ones.
        validate_hash: Hash that must match when a shard is downloaded or unpacked, such as "xxh64". None: the cheapest that
            the index lists.
        download_retry: Total attempts per download.
        download_timeout: Seconds without a byte before an attempt fails.
        stall_timeout: Seconds without any progress before iterating fails and names what it waited for.
        on_error: "raise", or "skip" to make a batch shorter by a sample that cannot be read or decoded. A batch that loses
            all its samples is not delivered; with several ranks, which must take equal numbers of steps, it has one row: a
            sample of another batch of this rank, the same one in every run. `mark_repeats` marks it as a repeat; without
            that nothing in the batch tells, and `stats()["counters"]["batches_refilled"]` says how many there were.
            A shard that is missing, cut off or does not match its hash ends the epoch with either.
        max_errors: Samples per epoch and rank that "skip" forgives, those tried in the place of others included. Ten of an
            epoch are logged as warnings, the rest for debugging.
        allow_unsafe_types: Accept columns of Python pickles; they are delivered as bytes.
        fetch_threads: Threads that talk to the store. None: one per 4 CPUs.
        pin_threads: Bind each decode thread to one CPU.
        sample_bytes_max: Largest sample that is read, in bytes or as "1gb".
        trace: Keep what `trace_json` gives.

    Raises:
        ConfigError: An argument is wrong; the sentence says what to change.
        UnsupportedError: `device` names a CUDA device, and there is no driver, no such device, or too old a driver.
        ClosedError: This is a DataLoader worker, or a forked process with a CUDA device, where the loader cannot work; or it was
            closed.
        FullError: There is no memory, on the host or on the device, or no room on disk.
        IoError: A disk fails, or the device does; the sentence says which.
        Error: The index cannot be read; see `forebay.errors` for all kinds.
    """

    def __init__(
        self,
        *,
        remote: str | os.PathLike[str] | None = None,
        split: str | None = None,
        streams: Sequence[Stream] | None = None,
        local: str | os.PathLike[str] | None = None,
        fields: Mapping[str, Field] | None = None,
        transform: Callable[[Any], Any] | None = None,
        framework: str = "torch",
        batch_size: int,
        drop_last: bool = False,
        mark_repeats: bool = False,
        shuffle: bool = False,
        shuffle_seed: int = 9176,
        augment_seed: int | None = None,
        shuffle_algo: str = "py1e",
        shuffle_block_size: int | None = None,
        partition_algo: str = "relaxed",
        num_canonical_nodes: int | None = None,
        replication: int | None = None,
        epoch_size: int | None = None,
        sampling_method: str = "balanced",
        sampling_granularity: int = 1,
        batching_method: str = "random",
        device: str | Sequence[str] = "cpu",
        device_decode: bool = False,
        share_decode: bool = False,
        gpu_direct_storage: bool = False,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int | None = None,
        local_world_size: int | None = None,
        threads: int | None = None,
        prefetch: int | None = None,
        memory: int | str | None = None,
        mmap: bool = False,
        predownload: int | None = None,
        cache_limit: int | str | None = None,
        keep_zip: bool = False,
        validate_hash: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60.0,
        stall_timeout: float = 600.0,
        on_error: str = "raise",
        max_errors: int = 0,
        allow_unsafe_types: bool = False,
        fetch_threads: int | None = None,
        pin_threads: bool = False,
        sample_bytes_max: int | str = 1 << 30,
        trace: bool = False,
    ) -> None:
        _refuse_worker()
        if streams is None:
            sources = [Stream(remote=remote, local=local)._config(split)]
        elif remote is not None or local is not None:
            raise ConfigError("streams name their own remote and local: give either streams, or remote and local")
        else:
            sources = _sources(streams, split)
        outputs = specs(fields)
        self._single = isinstance(device, str) or not isinstance(device, Sequence)
        devices = _devices([device] if self._single else list(device))
        self._convert = converter(framework, devices, outputs)
        if transform is not None and not callable(transform):
            raise ConfigError(f"transform is a function of a batch, but it is {transform!r}")
        self._transform = transform
        self._pid = os.getpid()
        self._closed = False
        world = detect(rank, world_size, local_rank, local_world_size)
        config = {
            "streams": sources,
            "fields": outputs,
            "batch_size": batch_size,
            "drop_last": drop_last,
            "mark_repeats": mark_repeats,
            "shuffle": shuffle,
            "shuffle_seed": shuffle_seed,
            "augment_seed": augment_seed,
            "shuffle_algo": shuffle_algo,
            "shuffle_block_size": shuffle_block_size,
            "partition_algo": partition_algo,
            "num_canonical_nodes": num_canonical_nodes,
            "replication": replication,
            "epoch_size": epoch_size,
            "sampling_method": sampling_method,
            "sampling_granularity": sampling_granularity,
            "batching_method": batching_method,
            "device_decode": device_decode,
            "share_decode": share_decode,
            "gpu_direct_storage": gpu_direct_storage,
            "threads": threads,
            "prefetch": prefetch,
            "memory": byte_size(memory, "memory"),
            "mmap": mmap,
            "predownload": predownload,
            "cache_limit": byte_size(cache_limit, "cache_limit"),
            "keep_zip": keep_zip,
            "validate_hash": validate_hash,
            "download_retry": download_retry,
            "download_timeout": download_timeout,
            "stall_timeout": stall_timeout,
            "on_error": on_error,
            "max_errors": max_errors,
            "allow_unsafe_types": allow_unsafe_types,
            "fetch_threads": fetch_threads,
            "pin_threads": pin_threads,
            "sample_bytes_max": byte_size(sample_bytes_max, "sample_bytes_max"),
            "trace": trace,
        }
        _check_types(config)
        self._engines = []
        try:
            for number, name in enumerate(devices):
                config["world"] = _world_of_device(world, number, len(devices))
                self._engines.append(_forebay.Engine(json.dumps(config), name))
        except BaseException:
            for engine in self._engines:
                engine.close()
            raise
        if devices != ["cpu"]:
            _on_devices.add(self)
        # Weak: the iterator holds the loader, and without a cycle both end when the last of them is dropped.
        self._iterator: Callable[[], _Epoch | None] = lambda: None

    def __iter__(self) -> Iterator[Any]:
        """Starts the next epoch, or goes on where `load_state_dict` said. An earlier iterator ends."""
        self._check()
        self._abandon()
        for engine in self._engines:
            engine.start()
        iterator = _Epoch(self)
        self._iterator = weakref.ref(iterator)
        return iterator

    def __getitem__(self, at: object) -> Any:
        raise TypeError(
            "forebay.Loader is iterated, not indexed: it makes the batches itself, so leave out the DataLoader around it"
        )

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        self._check()
        return self._engines[0].batches()

    @property
    def epoch(self) -> int:
        """The epoch that the next `iter` runs, from 0."""
        return self._engines[0].epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: the batches handed out so far count, those made ahead do not.

        Small, made of plain numbers and strings, equal on all ranks, and readable by MosaicML streaming. A batch that could not
        be converted comes again and does not count.

        Raises:
            StateError: Several threads share the iterator, and a batch that could not be converted comes before one that was.
        """
        self._check()
        iterator = self._iterator()
        return json.loads(self._engines[0].state_dict(iterator is not None and iterator.last_comes_again()))

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Makes the next `iter` go on where `state` was taken, on any legal number of ranks.

        Args:
            state: From `state_dict`, or from MosaicML streaming's. Its seed and number of canonical nodes count from then on.
            strict: Refuse a state of another plan, such as other data, weights or seeds. Another batch size is no other plan.

        Raises:
            StateError: The state belongs to another plan; the sentence lists the arguments that differ.
        """
        self._check()
        if not isinstance(state, Mapping):
            raise StateError(f"a state is the dict that state_dict() gave, but this is a {type(state).__name__}")
        if "epoch" not in state:
            keys = ", ".join(map(repr, list(state)[:5])) or "nothing"
            raise StateError(f"a state is the dict that state_dict() gave, but this one holds {keys}: pass the part that it is in")
        self._abandon()
        document = json.dumps(dict(state), default=_plain)
        for engine in self._engines:
            engine.load_state_dict(document, strict)

    def stats(self) -> dict[str, Any]:
        """What every stage did with its time since the loader was made.

        `stages` maps a stage to `busy_s`, `input_s` (waiting for the stage before it), `output_s` (waiting for the one behind
        it), each in seconds summed over its threads, and `items` and `bytes`. `counters` holds plain numbers, `notes`
        sentences about choices the loader made, `elapsed_s` the loader's age.
        """
        every = [json.loads(engine.stats()) for engine in self._engines]
        total = every[0]
        for other in every[1:]:
            for name, stage in other["stages"].items():
                mine = total["stages"].setdefault(name, dict.fromkeys(stage, 0))
                for key, value in stage.items():
                    mine[key] += value
            for name, value in other["counters"].items():
                total["counters"][name] = total["counters"].get(name, 0) + value
            total["notes"] += [note for note in other["notes"] if note not in total["notes"]]
        return total

    def prometheus(self) -> str:
        """The same figures as Prometheus text, labelled with the rank."""
        return "".join(engine.prometheus() for engine in self._engines)

    def trace_json(self) -> str | None:
        """Every stage's spans of time in Chrome's format, which Perfetto opens. None without `trace=True`."""
        return self._engines[0].trace_json()

    def close(self) -> None:
        """Ends it: threads, files and locks are gone when this returns. Batches handed out stay valid.

        Threads that wait for a CUDA device which has not answered for ten seconds are left behind, with a warning in the log.
        """
        self._closed = True
        if os.getpid() != self._pid:
            return
        self._abandon()
        for engine in self._engines:
            engine.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed or os.getpid() != self._pid:
            return "<forebay.Loader, closed>"
        return f"<forebay.Loader, epoch {self.epoch}, {len(self)} batches>"

    def __reduce__(self) -> Any:
        raise TypeError(
            "forebay.Loader cannot be pickled: it is threads of this process. Make one in each process; for a checkpoint "
            "save state_dict()"
        )

    def _abandon(self) -> None:
        """Ends the iterator that is alive, if one is."""
        iterator = self._iterator()
        if iterator is not None:
            iterator.abandoned = True

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this loader was closed: make another one")
        if os.getpid() != self._pid:
            _refuse_worker()
            raise ClosedError(
                "this loader was made in another process: its threads did not come along in the fork, so make a loader here"
            )


# A batch's number, and its outputs from each engine; while it is being taken None for the end.
_Taken = tuple[int, list[Any]]


class _Epoch:
    """The iterator of one epoch."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self._over = False
        self._is_empty = True
        # Several threads may ask. Held while batches are taken, not while they are converted.
        self._turn = threading.Lock()
        # Guards the next two, and is never held for long.
        self._lock = threading.Lock()
        # How many batches the engines gave, and which of them could not be converted or are not whole: these come again.
        self._taken = 0
        self._failed: list[_Taken] = []
        self.abandoned = False

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        loader._check()
        # What this call has taken: at most one batch.
        held: list[_Taken] = []
        try:
            with self._turn:
                self._take(held)
            batches = [{name: loader._convert(value) for name, value in outputs.items()} for outputs in held[0][1]]
        except BaseException:
            self._keep(held)
            raise
        batch = batches[0] if loader._single else batches
        return batch if loader._transform is None else loader._transform(batch)

    def last_comes_again(self) -> bool:
        """Whether the last batch is yet to be handed out, since it could not be converted.

        Raises:
            StateError: Another one is, which a state cannot say.
        """
        with self._lock:
            failed = [number for number, _ in self._failed]
            last = self._taken - 1
        if failed not in ([], [last]):
            raise StateError(
                "a batch before the last one could not be converted, and a state cannot leave it out alone: take it from the "
                "iterator first, which hands it out next"
            )
        return bool(failed)

    def _take(self, held: list[_Taken]) -> None:
        """Adds the next batch and its number to `held`: from each engine, or what was kept.

        An interrupt is raised between two steps of the interpreter, so each batch goes into a list in one step.
        """
        loader = self._loader
        # Another thread may have closed the loader meanwhile.
        loader._check()
        if self.abandoned:
            raise ClosedError("a newer iterator, load_state_dict or close ended this one: only one is alive at a time")
        with self._lock:
            if self._failed:
                held.extend(map(self._failed.pop, (0,)))
            elif self._over:
                raise StopIteration
            else:
                held.append((self._taken, []))
        number, taken = held[0]
        try:
            for engine in loader._engines[len(taken) :]:
                taken.extend(map(type(engine).next, (engine,)))
                if taken[-1] is None:
                    taken.clear()
                    self._over = True
                    if self._is_empty:
                        self._warn_of_no_batch()
                    raise StopIteration
                self._is_empty = False
        finally:
            if taken:
                with self._lock:
                    self._taken = max(self._taken, number + 1)

    def _keep(self, held: list[_Taken]) -> None:
        """Keeps a batch, which comes before later ones."""
        for number, taken in held:
            # The end is no part of one.
            taken[:] = [outputs for outputs in taken if outputs is not None]
            if taken:
                with self._lock:
                    bisect.insort(self._failed, (number, taken), key=operator.itemgetter(0))

    def _warn_of_no_batch(self) -> None:
        # Only now: counting batches takes a plan of the epoch, which no start should wait for.
        if not len(self._loader):
            why = "drop_last leaves out the only one, which is shorter than batch_size"
        elif self._loader.stats()["counters"].get("samples_skipped"):
            why = 'on_error="skip" left out every sample'
        else:
            return  # It went on where nothing was left.
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=4)


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "batch_size": partial(whole, least=1, below=U32),
    "shuffle_seed": whole,
    "augment_seed": whole,
    "shuffle_algo": text,
    "shuffle_block_size": partial(whole, least=1),
    "partition_algo": text,
    "num_canonical_nodes": partial(whole, least=1, below=U32),
    "replication": partial(whole, least=1, below=U32),
    "epoch_size": whole,
    "sampling_method": text,
    "sampling_granularity": partial(whole, least=1, below=U32),
    "batching_method": text,
    "threads": partial(whole, least=1, below=U32),
    "prefetch": partial(whole, least=1, below=U32),
    "predownload": whole,
    "validate_hash": text,
    "download_retry": partial(whole, least=1, below=U32),
    "download_timeout": seconds,
    "stall_timeout": seconds,
    "on_error": partial(one_of, choices=("raise", "skip")),
    "max_errors": whole,
    "fetch_threads": partial(whole, least=1, below=U32),
} | dict.fromkeys(
    (
        "drop_last",
        "mark_repeats",
        "shuffle",
        "device_decode",
        "share_decode",
        "gpu_direct_storage",
        "keep_zip",
        "allow_unsafe_types",
        "pin_threads",
        "mmap",
        "trace",
    ),
    flag,
)
"""What the engine's arguments must be where they are set; its own checks come after these."""

_OPTIONAL = frozenset(
    name for name, argument in inspect.signature(Loader).parameters.items() if argument.default is None
)


def _check_types(config: dict[str, Any]) -> None:
    """Refuses what is of the wrong type under the argument's name, because the engine only sees one document."""
    for name, check in _CHECKS.items():
        if config[name] is not None or name not in _OPTIONAL:
            config[name] = check(name, config[name])


def _sources(streams: Any, split: str | None) -> list[dict[str, Any]]:
    """The engine's form of `streams`."""
    if not isinstance(streams, Sequence) or not all(isinstance(stream, Stream) for stream in streams):
        raise ConfigError(f"streams is a list of forebay.Stream, such as [Stream(remote=...)], but it is {streams!r}")
    sources = []
    for place, stream in enumerate(streams):
        with within(f"streams[{place}]"):
            sources.append(stream._config(split))
    return sources


def _plain(value: Any) -> int:
    """numpy's and torch's whole numbers as Python's, for `json`."""
    try:
        return operator.index(value)
    except TypeError:
        raise StateError(
            f"a state is made of plain numbers, text and dicts, but {value!r} in it is a {type(value).__name__}"
        ) from None


def _devices(devices: list[Any]) -> list[str]:
    """The devices' names; torch.device objects are welcome."""
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
    """Each of a process's devices is a rank."""
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
            "forebay.Loader inside a DataLoader worker: it has threads of its own, so iterate it in the training process, "
            "without a DataLoader around it"
        )
