"""Observers of a loader's figures: a function of the program, TensorBoard, and a line of progress on a terminal.

An observer looks at the end of an interval, in the thread of the loop, and gives its sink the figures since its last look. Prometheus
and OpenTelemetry have the engine's own thread.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _forebay
from ._choices import MetricsFunction
from .errors import UnsupportedError
from ._groups import TENSORBOARD, Engine
from ._world import World

_SECONDS = 10.0
"""Interval of metrics, which draw curves of hours."""

_LINE_SECONDS = 0.5

_COLUMNS = 80
"""Columns of a terminal that does not know its width."""


class LoopPlace(NamedTuple):
    """Position of a loop after its delivered batches."""

    epoch: int
    batch: int
    batches: int
    step: int


_Sink = Callable[[dict[str, Any], LoopPlace], None]


class Observer:
    """Looks at a loader's figures for one sink, every `seconds` and at the end of an epoch."""

    def __init__(self, sink: _Sink, seconds: float, engines: list[_forebay.Engine], session: _forebay.Session) -> None:
        self._sink: _Sink | None = sink
        self._seconds = seconds
        self._engines = engines
        self._session = session
        self._due = time.monotonic() + seconds
        self._earlier: str | None = None
        self._batches = 0.0

    def step(self) -> None:
        """Looks if the interval is over. The loop calls this for each batch."""
        if time.monotonic() >= self._due:
            self.look()

    def look(self) -> None:
        """Looks now, unless there was no batch since the last look. A sink that fails gets no more, and does not end the training."""
        if self._sink is None:
            return
        try:
            text, now = _forebay.Engine.interval(self._engines, self._earlier)
            figures = json.loads(text)
            if figures["batches"] > self._batches:
                self._batches, self._earlier = figures["batches"], now
                self._sink(figures, self._place())
        except Exception as error:
            self._sink = None
            warnings.warn(f"metrics of a loader are not taken any more: {type(error).__name__}: {error}", stacklevel=3)
        self._due = time.monotonic() + self._seconds

    def _place(self) -> LoopPlace:
        engine, state = self._engines[0], json.loads(self._session.state())
        epoch, batches = state["epoch"], engine.batches()
        batch = batches - engine.batches_from(state["sample_in_epoch"])
        step = engine.first_step_of(epoch) + batch
        if epoch > 0 and batch == 0:
            # The last batch of an epoch was delivered, and the state is at the start of the next one.
            epoch -= 1
            batch = batches = step - engine.first_step_of(epoch)
        return LoopPlace(epoch, batch, batches, step)


def observers_of(engine: Engine | None, world: World, engines: list[_forebay.Engine], session: _forebay.Session) -> tuple[Observer, ...]:
    """Returns the observers that the options of a loader ask for.

    Raises:
        UnsupportedError: TensorBoard's writer is not installed.
    """
    sinks: list[tuple[_Sink, float]] = []
    metrics = None if engine is None else engine.metrics
    if callable(metrics):
        sinks.append((_numbers_for(metrics), _SECONDS))
    elif metrics is not None and metrics.startswith(TENSORBOARD):
        sinks.append((_numbers_for(_tensorboard(metrics.removeprefix(TENSORBOARD), world)), _SECONDS))
    if engine is not None and engine.progress and world.rank == 0 and _is_live(sys.stderr):
        sinks.append((_show, _LINE_SECONDS))
    return tuple(Observer(sink, seconds, engines, session) for sink, seconds in sinks)


def _numbers_for(function: MetricsFunction) -> _Sink:
    """Returns a sink that calls `function` with the numbers among the figures."""

    def sink(figures: dict[str, Any], place: LoopPlace) -> None:
        numbers = {f"data/{name}": value for name, value in figures.items() if isinstance(value, (int, float))}
        function(numbers, place.step)

    return sink


def _tensorboard(folder: str, world: World) -> MetricsFunction:
    """Returns a function that writes the numbers for TensorBoard, which shows the folders of several ranks as runs."""
    try:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter
    except ImportError:
        raise UnsupportedError(f'metrics="{TENSORBOARD}..." needs a package that is not installed: pip install tensorboard') from None
    own = folder if world.world_size == 1 else os.path.join(folder, f"rank{world.rank}")
    writer = SummaryWriter(own)

    def write(figures: dict[str, float], step: int) -> None:
        for name, value in figures.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return write


def _is_live(stream: Any) -> bool:
    """Returns true for a terminal that can replace a line."""
    return stream is not None and stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _show(figures: dict[str, Any], place: LoopPlace) -> None:
    """Replaces the line of progress on the standard error, and ends it with the epoch."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        columns = _COLUMNS
    is_over = place.batch == place.batches
    line = line_of(figures, place)[: columns - 1]
    print(f"\r{line}\x1b[K", end="\n" if is_over else "", file=sys.stderr, flush=True)


def line_of(figures: dict[str, Any], place: LoopPlace) -> str:
    """Returns the line of progress: the position in the epoch, the rate, the rest of the time and the share of waiting."""
    parts = [f"epoch {place.epoch}  {place.batch / max(place.batches, 1):4.0%}  {place.batch:,}/{place.batches:,} batches"]
    rate = figures["batches_per_s"]
    if rate:
        parts.append(f"{figures['samples_per_s']:,.0f} samples/s")
        parts.append(f"{_clock((place.batches - place.batch) / rate)} left")
    if figures["waiting_share"] is not None:
        parts.append(f"waiting {figures['waiting_share']:.0%}")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
