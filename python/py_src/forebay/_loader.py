"""Loader: makes batches from shards, in threads of this process."""

from __future__ import annotations

import atexit
import inspect
import json
import logging
import os
import sys
import weakref
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from . import _forebay
from .adapter import Adapter
from ._arguments import ByteSize, Count, by_name, checked, checks, whole
from ._choices import Device, Extra, Framework, Stats
from ._convert import Batch, converter, replicas
from ._world import World, check_group, names_of, of_argument, world_of
from ._epoch import BatchMaker, Epoch, LoaderParts, Transform
from .errors import ClosedError, ConfigError
from .fields import Field, paddings, specs
from ._groups import Engine, Fetch, Order, Pack, Select, Skip, TokenBatch, TokenWindow, extra_outputs, given, group, loader_window, moved
from ._mapping.options import Map
from ._mapping.options import checked as checked_map
from ._packs import check_pairs, check_rows, check_window, ids_of
from ._observer import observers_of
from ._position import EpochSetter, LeftEpochs, load
from .remotes import library_stores
from ._samples import Sample, in_any_folder, of_engine, save_run
from ._streams import Stream, config_of, configs_of

if TYPE_CHECKING:
    from typing import Generic

    # Type checkers have this module; programs need not install it.
    from typing_extensions import TypeVar

    from ._mapping.mapper import Mapper

    BatchT = TypeVar("BatchT", default=dict[str, Any])
else:
    from typing import TypeVar

    BatchT = TypeVar("BatchT")
    # Python's own class would add its methods to `help(Loader)`, half a screen.
    Generic = {BatchT: object}

_log = logging.getLogger("forebay")


class _Listed(ABCMeta):
    """Class with a `help` of the members that programs use. Special methods, such as `__reduce__`, would fill half a screen of it."""

    def __dir__(cls) -> list[str]:
        # Mocks and Ray, which need all names, do not ask through this function.
        is_help = sys._getframe(1).f_code is inspect.classify_class_attrs.__code__
        return [name for name in super().__dir__() if not (is_help and (name.startswith("__") or name == "batch_sampler"))]


_on_devices: weakref.WeakSet[Loader] = weakref.WeakSet()

_PYTHON_ONLY = {"remote", "local", "split", "streams", "select", "fields", "map", "transform", "framework", "device", "sharding", "world"}
"""Arguments of `Loader` that this package uses itself. The rest are options of the engine under the same names."""

_GROUPS = ("order", "fetch", "engine", "skip")
"""Arguments that are groups of the engine's options."""

# Advice for arguments that are in a group.
_MOVED = moved("Loader", ("select", "window", "extra", "order", "fetch", "engine", "skip", "world"))
_MOVED["timeout"] = ". Engine(stall_timeout=60.0) limits the wait for a batch, and Fetch(timeout=60.0) the wait for a store's answer"


@atexit.register
def _close_all() -> None:
    """Closes loaders on CUDA devices before the driver, which ends with the process."""
    for loader in list(_on_devices):
        loader.close()


_MEANT = {
    "device": "device_id gpu",
    "drop_last": "drop_remainder",
    "fields": "columns",
    "local": "cache_dir download_dir",
    "local or remote": "data_dir dataset path root",
    "local, and cache_limit for its size": "cache",
    "map=Map(..., kind=)": "multiprocessing_context",
    "map=Map(...): its function gets a generator of the sample": "worker_init_fn",
    "operations of a field, such as Image('jpg', RandomResizedCrop(224)), or transform for whole batches": "transforms",
    "remote": "data_files url urls",
    "seed": "generator shuffle_seed",
    "shuffle and world": "sampler",
    "threads": "n_workers num_threads num_workers persistent_workers workers",
    "transform": "collate collate_fn",
    ". each `for batch in loader` is an epoch, as in for epoch in range(loader.epoch, 90)": "epochs max_epochs num_epochs",
    ". it is an option of a field, as in fields={'ids': Tokens('ids', pad=0, max_length=2048)}": "dtype max_length max_seq_len pad",
    ". it is an option of a field, as in fields={'ids': Tokenize('text', 'tokenizer.json', pad=0)}": "tokenizer",
    ". it is an option of a stream, as in streams=[Stream(remote=..., files='each')]": "choose files ignore_counts manifest proportion repeat",
    ". it is in window, as in Loader(batch_size=1, window=TokenBatch(max_tokens=16_384))": "max_tokens",
    ". loader.load_state_dict(state) resumes": "resume",
    ". batches are in pinned memory already, and device='cuda' delivers them on the GPU": "pin_memory",
    ". operations are a part of the field, as in fields={'x': Image('jpg', RandomResizedCrop(224))}": "image_size resize",
    _MOVED["bucket_batches"]: "bucket_size",
    _MOVED["device_decode"]: "decode_device gpu_decode nvjpeg",
    _MOVED["prefetch"]: "prefetch_factor",
    _MOVED["shuffle_block_size"]: "buffer_size shuffle_buffer",
    _MOVED["world_size"]: "num_replicas",
}
"""Arguments that rival libraries have, by the arguments here or the advice."""

_ELSEWHERE = {name: meant for meant, names in _MEANT.items() for name in names.split()}


@by_name(
    'local="folder" for shards in a folder, remote="s3://bucket/set" or a different URL for shards elsewhere',
    **dict(sorted(_ELSEWHERE.items())) | _MOVED,
)
class Loader(Generic[BatchT], metaclass=_Listed):
    """Batches of samples in MosaicML streaming's order, made ahead by threads.

        with Loader(remote="s3://bucket/set", batch_size=256) as loader:
            for epoch in range(loader.epoch, 90):
                for batch in loader:
                    ...

    A batch is a dict of the outputs in `fields`. Each loop is an epoch, or the
    rest of a loaded state's. An epoch that a `break` has left is used up. One
    iterator is alive at a time. `len(loader)` is the number of batches of a
    whole epoch. All errors are classes of `forebay.errors`.

    Args:
        remote: URL or path of shards or other files, or a `datasets.Dataset`.
        local: Folder for the shards; alone, with all. None: the user's cache.
        split: Sub-folder or split, as "train"; also of streams without one.
        streams: Several sources with their shares, instead of `remote`.
        select: Samples to keep or draw; also of the streams.
        fields: Outputs of a batch by name. None: all columns, undecoded.
        window: Tokens of a sample, or their window, packs or token batches.
        extra: Names of outputs to add: "repeat", "sample_ids", "sample_draws"
            and "sample_keys".
        batch_size: Rows of a batch on each device.
        drop_last: Leave out a last batch that is not full.
        shuffle: Shuffle samples, differently in each epoch.
        seed: Seed of the order.
        order: Order of the samples, besides `shuffle` and `seed`.
        map: Function of each sample in threads, or a `Map`.
        transform: Function of each batch, in the thread that iterates.
        framework: "torch", "jax", "tensorflow", "numpy" or "dlpack" tensors.
        device: "cpu", "cuda" or "cuda:0", or a list, with a batch for each.
        sharding: jax.sharding.Sharding of arrays that span several devices.
        threads: Decode threads. None: the CPUs of this process, shared with all
            ranks of the node.
        cache_limit: Bytes on disk of all streams, or "100gb". None: no limit.
        fetch: Fetches of shards: attempts, time limit and check.
        engine: Resources and limits of this process.
        skip: Samples that an epoch leaves out instead of failing.
        world: Rank of this process. None: found from its launcher.
    """

    def __init__(
        self,
        *,
        remote: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        local: str | os.PathLike[str] | None = None,
        split: str | None = None,
        streams: Sequence[Stream] | None = None,
        select: Select | None = None,
        fields: Mapping[str, Field] | None = None,
        window: Count | TokenWindow | Pack | TokenBatch | None = None,
        extra: Sequence[Extra] = (),
        batch_size: Count,
        drop_last: bool = False,
        shuffle: bool = False,
        seed: int = 9176,
        order: Order | None = None,
        map: Map | Callable[[dict[str, Any], Any], dict[str, Any]] | None = None,
        transform: Callable[[Any], BatchT] | None = None,
        framework: Framework = "torch",
        device: Device | Sequence[Device] = "cpu",
        sharding: Any = None,
        threads: Count | None = None,
        cache_limit: ByteSize | None = None,
        fetch: Fetch | None = None,
        engine: Engine | None = None,
        skip: Skip | None = None,
        world: World | None = None,
    ) -> None:
        """Opens the data set."""
        self._arguments = {name: value for name, value in locals().items() if name != "self"}
        options = {name: value for name, value in self._arguments.items() if name in _OPTIONS}
        _refuse_worker()
        of_streams = given("select", select)
        if streams is None:
            sources = [config_of(Stream(remote=remote, local=local), split, of_streams)]
        elif remote is not None or local is not None:
            raise ConfigError("streams name their own remote and local: give either streams, or remote and local")
        else:
            sources = configs_of(streams, split, of_streams)
        if "fraction_seed" in of_streams and not any("fraction" in source.get("select", ()) for source in sources):
            raise ConfigError("fraction_seed is the seed of fraction, which is not set: pass both, or neither")
        self._makes_packs = isinstance(window, (Pack, TokenBatch))
        if isinstance(window, (Pack, TokenBatch)):
            check_rows(window, batch_size, map=map, sharding=sharding)
            fields = ids_of(fields)
        else:
            check_window(window, fields)
        outputs = specs(fields)
        padding = None if self._makes_packs else paddings(fields)
        check_pairs(padding, map=map, sharding=sharding)
        self._single = isinstance(device, str) or not isinstance(device, Sequence)
        devices = names_of([device] if self._single else list(device))
        values = checked(_OPTIONS, options)
        skips = values["skip"]["errors"] > 0
        is_full = values["drop_last"] and not skips and not (padding and padding.pairs)
        marks = values["extra"]
        options, of_map = None, ()
        if map is not None:
            # Imported late: most loaders have no map.
            from ._mapping.mapper import HIDDEN

            options, of_map = checked_map(map), HIDDEN
        if padding is not None:
            # The engine does not know masks. A map needs two of the marks.
            taken = {*marks, *of_map}
            for mask in padding.masks:
                if mask in taken:
                    raise ConfigError(f"`extra` adds an output called `{mask}`: rename the AttentionMask of that name")
        self._batch = Batch(devices, outputs, values["batch_size"], sharding, is_full, padding, marks)
        convert = converter(framework, self._batch)
        transformer = None if transform is None else Transform(transform)
        self._pid = os.getpid()
        self._closed = False
        self._world = of_argument(world)
        mapper: Mapper | None = None
        if options is not None:
            ranks = (self._world.world_size, self._world.local_world_size)
            from ._mapping.mapper import Mapper

            mapper = Mapper(options, framework, self._batch, values, ranks)
            # It needs them of each row.
            values |= {"extra": [*marks, *(name for name in of_map if name not in marks)]}
        self._maker = BatchMaker(convert, mapper, transformer, self._single)
        # With several ranks a batch that loses all its samples gets a repeat.
        is_alone = self._world.world_size * len(devices) == 1
        self._may_lack_batches = skips and is_alone
        _log.info("loader of %s, local rank %d of %d", self._world, self._world.local_rank, self._world.local_world_size)
        config = {"streams": sources, "fields": outputs} | values
        if sharding is not None:
            if not self._single:
                raise ConfigError("sharding places the batches on devices itself, but device is a list: pass one device")
            replication = replicas(sharding, self._world, values["order"]["replication"])
            config["order"] = values["order"] | {"replication": replication}
        self._engines = []
        stores = library_stores(*(source.get("remote") for source in sources))
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
        samples = config["batch_size"] * self._world.world_size * len(devices) // (config["order"]["replication"] or 1)
        self._samples_per_step = samples
        limit = None if mapper is None else mapper.skips
        self._session = _forebay.Session(self._engines, samples, mapper is not None, limit)
        self._left_epochs = LeftEpochs(self._session, self._engines[0])
        self._observers = observers_of(engine, self._world, self._engines, self._session)

    def __iter__(self) -> Iterator[BatchT]:
        """Starts the next epoch, or resumes a loaded position."""
        self._check()
        check_group(self._world)
        self._left_epochs.warn()
        return Epoch(self._session.begin(), LoaderParts(self._session, self._engines, self._world, self._check, self._observers), self._maker)

    def __getitem__(self, at: object) -> Any:
        raise TypeError(
            "forebay.Loader is iterated, not indexed: it makes the batches itself, so pass it instead of a DataLoader and not as the "
            "data set of one; forebay.integrations has a Trainer for Hugging Face's, and a DataLoader for libraries that insist on one"
        )

    # Type checkers would take any name for an attribute.
    if not TYPE_CHECKING:

        def __class_getitem__(cls, batch: Any) -> Any:
            return GenericAlias(cls, batch)

        def __getattr__(self, name: str) -> Any:
            if name in ("dataset", "sampler"):
                name += (
                    "; forebay.integrations has a DataLoader with one: torch.DataLoader(loader) there, for Accelerate "
                    "accelerate.DataLoader(loader), and a Trainer instead of Hugging Face's"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name}")

    def __len__(self) -> int:
        """Number of batches of a whole epoch."""
        self._check()
        check_group(self._world)
        return self._engines[0].batches()

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, at their `label` (folders, ClassLabel), or None."""
        found = [classes for classes in self._engines[0].classes() if classes is not None]
        if any(classes != found[0] for classes in found):
            raise ConfigError("the streams have different classes, so a label has no common name")
        return found[0] if found else None

    @property
    def batch_size(self) -> int:
        """Rows of a batch on each device."""
        return self._batch.rows

    @property
    def batch_sampler(self) -> EpochSetter:
        """Object with `sampler.set_epoch`, for trainers."""
        return EpochSetter(self._session, self.batch_size)

    @property
    def adapter(self) -> Adapter:
        """Facts and calls for adapters of trainers."""
        self._check()
        return Adapter(
            self.__iter__,
            self._session,
            self._engines[0],
            self._batch,
            samples_per_step=self._samples_per_step,
            is_plain=self._maker.is_plain,
            is_transformed=self._maker.is_transformed,
            has_one_device=self._single,
            may_lack_batches=self._may_lack_batches,
            epochs_differ=self._makes_packs,
        )

    @property
    def epoch(self) -> int:
        """Epoch of the next loop; in a loop, the one after its own."""
        return self._session.epoch

    @property
    def first_batch(self) -> int:
        """Number of the batch that the next loop starts with."""
        return self._session.first_batch()

    def set_epoch(self, epoch: int) -> None:
        """Makes the next loop run `epoch`, from a loaded position in it."""
        self._check()
        self._session.set_epoch(whole("epoch", epoch))

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the delivered batches, equal on all ranks."""
        self._check()
        check_group(self._world)
        return json.loads(self._session.state())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Makes the next loop resume a state; `strict` rejects different data."""
        self._check()
        load(self._session, state, strict)

    def samples_of(self, step: int, *, epoch: int | None = None) -> list[Sample]:
        """Returns this rank's samples of a step from 0 on, without reading them."""
        self._check()
        # Of several devices, the samples are consecutive.
        first = self._world.rank * len(self._engines)
        return of_engine(self._engines[0], *self._batch_of(step, epoch), range(first, first + len(self._engines)))

    def replay(self, step: int, *, epoch: int | None = None) -> Any:
        """Returns the batch of a step again, from a second loader."""
        self._check()
        state = json.loads(self._session.state_at(*self._batch_of(step, epoch)))
        # The step may be one that the loader leaves out.
        state["forebay"].pop("skipped", None)
        order, engine = self._arguments["order"] or Order(), self._arguments["engine"] or Engine()
        engine = replace(engine, prefetch=1, metrics=None, progress=False)
        changes = {"order": replace(order, skip_steps=None), "engine": engine, "world": self._world}
        with type(self)(**self._arguments | changes) as again:
            again.load_state_dict(state)
            return next(iter(again))

    def save_run(self, path: str | os.PathLike[str]) -> None:
        """Writes the run's file for `forebay which`, `diff`, `preview`, `top`."""
        self._check()
        save_run(path, self._config, self.state_dict(), self.stats())

    def stats(self) -> Stats:
        """Returns figures of all stages since the start, see docs/metrics."""
        return json.loads(_forebay.Engine.stats(self._engines))

    def prometheus(self) -> str:
        """Returns these figures as Prometheus text."""
        return "".join(engine.prometheus() for engine in self._engines)

    def trace_json(self) -> str | None:
        """Returns the time spans for Perfetto, with Engine(trace=True)."""
        return self._engines[0].trace_json()

    def close(self) -> None:
        """Ends threads, files and locks. Delivered batches stay valid."""
        was_open, self._closed = not self._closed, True
        if os.getpid() != self._pid:
            return
        for observer in self._observers if was_open else ():
            observer.look()
        self._session.close()
        if self._maker.mapper is not None:
            self._maker.mapper.workers.close()

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

    def _batch_of(self, step: int, epoch: int | None) -> tuple[int, int]:
        """Returns the epoch of a step and the batch in it."""
        step = whole("step", step)
        return self._engines[0].place_of_step(step) if epoch is None else (whole("epoch", epoch), step)

    def _check(self) -> None:
        if self._closed:
            raise ClosedError("this loader was closed: make a new one")
        if os.getpid() != self._pid:
            _refuse_worker()
            raise ClosedError(
                "this loader was made in a different process, and a fork does not copy its threads: make a loader in this process"
            )


_OPTIONS = checks(Loader.__init__.__annotations__, without={*_PYTHON_ONLY, *_GROUPS, "window", "extra"})
_OPTIONS |= {"window": loader_window, "extra": extra_outputs} | dict.fromkeys(_GROUPS, group)


def _refuse_worker() -> None:
    data = sys.modules.get("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        raise ClosedError(
            "forebay.Loader inside a DataLoader worker: it has its own threads, so iterate it in the training process, "
            "without a DataLoader around it"
        )
