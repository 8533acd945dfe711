"""Iterator of a loader's epoch, and calls of its `transform`, with a warning where that augments a whole batch with a single draw."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _forebay
from .errors import ConfigError
from ._world import World, check_group

if TYPE_CHECKING:
    from ._mapping.mapper import Mapper
    from ._observer import Observer

_RANDOM = frozenset(
    ["AugMix", "AutoAugment", "ColorJitter", "ElasticTransform", "GaussianBlur", "JPEG", "RandAugment", "ScaleJitter"]
    + ["TrivialAugmentWide"]
)
"""Operations of torchvision that draw once per call, in addition to the ones with names that begin with Random. MixUp and
CutMix are made for batches, and GaussianNoise draws for each value."""


class Transform:
    """Function of a batch. The first call is watched for random operations of torchvision that get the whole batch."""

    def __init__(self, function: Any) -> None:
        if not callable(function):
            raise ConfigError(f"transform is a function of a batch, but it is {function!r}")
        self._function = function
        # Taken by the first call and never released.
        self._first = threading.Lock()

    def __call__(self, batch: Any) -> Any:
        """Returns the function's result. It may not end an epoch, so its StopIteration is a RuntimeError.

        Raises:
            ConfigError: The result is None.
        """
        try:
            if "torchvision.transforms" not in sys.modules or not self._first.acquire(blocking=False):
                result = self._function(batch)
            else:
                result = self._watched(batch)
        except StopIteration as error:
            raise RuntimeError("transform raised StopIteration") from error
        if result is None:
            name = getattr(self._function, "__qualname__", None) or type(self._function).__name__
            raise ConfigError(
                f"transform has to return a batch, but {name} returned None: end it with `return batch`. To leave out samples, pass "
                "select=Select(filter=...) to Loader; to leave out a batch, write `continue` in the loop"
            )
        return result

    def _watched(self, batch: Any) -> Any:
        from torch.nn.modules.module import register_module_forward_pre_hook

        thread = threading.get_ident()
        names: dict[str, None] = {}

        def note(module: Any, args: tuple[Any, ...]) -> None:
            if threading.get_ident() == thread and _is_random(module) and _has_batch(args):
                names[type(module).__name__] = None

        with register_module_forward_pre_hook(note):
            result = self._function(batch)
        if names:
            warnings.warn(
                f"transform passes a whole batch to {', '.join(names)} of torchvision, which draws once per call, so all samples of a "
                "batch are augmented alike: pass forebay.from_torchvision(...) to Image, or call it for each sample, as in "
                'torch.stack([augment(x) for x in batch["x"]])',
                stacklevel=5,
            )
        return result


def _has_batch(values: Any) -> bool:
    """Returns true if there is a tensor with several pictures among `values`."""
    for value in values:
        if isinstance(value, (list, tuple)):
            is_batch = _has_batch(value)
        elif isinstance(value, Mapping):
            is_batch = _has_batch(value.values())
        else:
            shape = getattr(value, "shape", ())
            is_batch = len(shape) >= 4 and shape[0] > 1
        if is_batch:
            return True
    return False


def _is_random(module: Any) -> bool:
    """Returns true for a module of torchvision that draws in each call."""
    kind = type(module)
    if not kind.__module__.startswith("torchvision.transforms"):
        return False
    # A range of one value is no choice.
    ranges = (getattr(module, name, None) for name in ("sigma", "quality"))
    if any(isinstance(both, (list, tuple)) and both[0] == both[-1] for both in ranges):
        return False
    return kind.__name__.startswith("Random") or kind.__name__ in _RANDOM


_MAP_SECONDS = 0.1
"""Wait for a batch that is mapped, between looks at the engines' next ones."""


@dataclass(eq=False, repr=False)
class BatchMaker:
    """Work on a batch between the engines and the loop."""

    convert: Callable[[Any], Any]
    """From an engine's outputs to a batch of the framework."""
    mapper: Mapper | None
    """The work of `map`, instead of `convert`."""
    transform: Transform | None
    """Function of the batch that is delivered."""
    is_single: bool
    """A step has one batch, and not a list of the devices' batches."""

    @property
    def is_transformed(self) -> bool:
        """True if there is a `transform`."""
        return self.transform is not None

    @property
    def is_plain(self) -> bool:
        """True if a batch has the outputs of the engine."""
        return self.mapper is None and self.transform is None

    def transformed(self, batches: list[Any]) -> Any:
        """Returns the batches of all devices, transformed."""
        batch = batches[0] if self.is_single else batches
        return batch if self.transform is None else self.transform(batch)


class LoaderParts(NamedTuple):
    """Parts of a loader that its iterators use."""

    session: _forebay.Session
    engines: list[_forebay.Engine]
    world: World
    check: Callable[[], None]
    """Raises ClosedError if the loader was closed, or belongs to a different process."""
    observers: Sequence[Observer] = ()


class Epoch(_forebay.Steps):
    """Iterator of one epoch. The base class has `next`, `peek` and `has_next`, and calls the methods here for each batch.

    The session has its state: which batches were taken, and which of them were delivered. A batch that a call of `next` has
    taken and not delivered, because of an error or an interrupt, is the first one of the next call.
    """

    def __init__(self, taking: _forebay.Pass, parts: LoaderParts, maker: BatchMaker) -> None:
        self._pass = taking
        self._parts = parts
        self._maker = maker
        # A batch was taken since the process group was checked.
        self._is_checked = False
        if maker.mapper is not None:
            maker.mapper.begin_epoch()

    def _check(self) -> None:
        """Checks the loader before a batch is taken."""
        self._parts.check()
        for observer in self._parts.observers:
            observer.step()
        if not self._pass.is_abandoned:
            self._warn_of_dropped_position()
        self._check_group()

    def _check_group(self) -> None:
        if not self._is_checked:
            # The group may have been made since `iter`.
            check_group(self._parts.world)

    def _made(self, taken: _forebay.Taken) -> tuple[Any] | None:
        """Returns a tuple with the batch of a step for the loop. None: all samples of a device were left out."""
        self._is_checked = True
        batches = self._converted(taken)
        return None if batches is None else (self._maker.transformed(batches),)

    def _converted(self, taken: _forebay.Taken) -> list[Any] | None:
        """Returns the batches of a step in the user's framework, mapped. None: all samples of one of them were left out."""
        mapper = self._maker.mapper
        if mapper is None:
            return [self._maker.convert(outputs) for outputs in taken.items()]
        self._begin_map(taken)
        number, batches = taken.number, []
        self._map(taken, mapper)
        for engine_number, engine in enumerate(self._parts.engines):
            before = taken.items()[engine_number]
            batch = mapper.again(before)
            if batch is not before:
                taken.replace(engine_number, batch)
            while not mapper.ready(batch, engine, _MAP_SECONDS):
                self._parts.check()
                self._pass.check()
                self._take_ahead(mapper)
            batches.append(mapper.finish(self._parts.session, engine, batch, engine_number, number))
        return None if any(batch is None for batch in batches) else batches

    def _begin_map(self, taken: _forebay.Taken) -> None:
        """Begins to map a batch, and those that can be taken ahead of it."""
        mapper = self._maker.mapper
        if mapper is not None:
            self._map_ahead(taken, mapper)
            self._take_ahead(mapper)

    def _map(self, held: _forebay.Taken | _forebay.HeldBatch, mapper: Mapper) -> None:
        """Begins to map the outputs of a batch."""
        for engine_number, outputs in enumerate(held.items()):
            if isinstance(outputs, dict):
                held.replace(engine_number, mapper.begin(self._parts.session, outputs, engine_number, held.number))

    def _map_ahead(self, held: _forebay.Taken | _forebay.HeldBatch, mapper: Mapper) -> None:
        """Begins to map a batch. The call of `next` that finishes it gets the error, if there is one."""
        with contextlib.suppress(Exception):
            self._map(held, mapper)

    def _take_ahead(self, mapper: Mapper) -> None:
        """Takes batches that are ready and maps them, up to the bound."""
        while isinstance(held := self._pass.take_ahead(mapper.prefetch), _forebay.HeldBatch):
            self._map_ahead(held, mapper)
        if held == "full":
            mapper.workers.idle_kind = "output"
        elif held == "ended":
            mapper.workers.idle_kind = None

    def _check_lost(self, lost: list[Any]) -> None:
        """Raises MapError if further ranks wait for a batch that was left out."""
        if self._maker.mapper is not None:
            self._maker.mapper.check_lost(lost, self._parts.engines)

    def _end(self) -> None:
        """Ends the epoch: all its batches were delivered."""
        if self._maker.mapper is not None:
            self._maker.mapper.workers.idle_kind = None
        for observer in self._parts.observers:
            observer.look()
        if not self._pass.had_no_batch():
            return
        # Not at the start, because counting batches needs a plan of the epoch, which takes time.
        if not self._parts.engines[0].batches():
            why = "drop_last leaves out the only one, which is shorter than batch_size"
        elif json.loads(_forebay.Engine.stats(self._parts.engines))["counters"].get("samples_skipped"):
            why = "Skip(errors=...) left out every sample"
        else:
            return
        warnings.warn(f"an epoch has no batch: {why}", stacklevel=2)

    def _leave(self, traceback: TracebackType | None) -> None:
        """Drops the variables of this file's frames in the traceback of an error that `next` raises.

        A program may keep the error, and its traceback has the iterator, which would keep the epoch running.
        """
        _release(traceback)

    def _warn_of_dropped_position(self) -> None:
        """Warns if a state was loaded, no batch has followed it, and `set_epoch` has named an earlier epoch.

        A later epoch is no mistake: a trainer may have ended the loaded one before its last batch.
        """
        dropped = self._parts.session.dropped_position
        if dropped is None:
            return
        epoch, sample = dropped
        engine, now = self._parts.engines[0], self._parts.session.epoch
        warnings.warn(
            f"the loaded state is at batch {engine.batches() - engine.batches_from(sample)} of epoch {epoch}, but set_epoch({now}) was "
            f"called after it was loaded: this position is dropped, and epoch {now} starts at its first batch. To resume, loop over "
            f"range(loader.epoch, n), which starts with epoch {epoch}",
            stacklevel=3,
        )


def _release(traceback: TracebackType | None) -> None:
    """Drops the variables of this file's frames in a traceback."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _release.__code__.co_filename:
            with contextlib.suppress(RuntimeError):  # A frame that runs.
                traceback.tb_frame.clear()
        traceback = traceback.tb_next
