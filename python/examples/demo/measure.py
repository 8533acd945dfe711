"""Measurement of an epoch, with progress on the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import report

import forebay as fb


class Progress:
    """Progress display: one line that changes on a terminal, else a line every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stdout.isatty()
        self._every = 0.2 if self._terminal else 5.0
        self._next = 0.0
        self._open = False

    def __call__(self, text: str) -> None:
        """Prints `text` if the last line is old enough."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            self._print(text)

    def end(self, text: str) -> None:
        """Prints `text` as the last line."""
        self._print(text)
        if self._open:
            print(flush=True)
            self._open = False

    def _print(self, text: str) -> None:
        if self._terminal:
            print(f"\r\x1b[K{self._name}: {text}", end="", flush=True)
            self._open = True
        else:
            print(f"{self._name}: {text}", flush=True)


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the difference of two `Loader.stats`."""
    stages: dict[str, dict[str, float]] = {}
    for name, stage in after["stages"].items():
        earlier = before["stages"].get(name, {})
        stages[name] = {key: value - earlier.get(key, 0) for key, value in stage.items()}
    counters = {name: value - before["counters"].get(name, 0) for name, value in after["counters"].items()}
    # The line is about the time since the loader was made.
    return {"stages": stages, "counters": counters, "notes": after["notes"], "bottleneck": after["bottleneck"]}


def drain(loader: fb.Loader, name: str, about: str) -> report.Phase:
    """Runs one epoch without using its batches, to measure the rate of the loader alone."""
    progress, images = Progress(name), 0
    arrivals: list[tuple[float, int]] = []
    before, start = loader.stats(), time.perf_counter()
    for batch in loader:
        at = time.perf_counter() - start
        rows = len(batch["y"])
        images += rows
        arrivals.append((at, rows))
        progress(f"{len(arrivals):,} of {len(loader):,} batches, {images / at:,.0f} images/s")
    seconds = time.perf_counter() - start
    progress.end(f"{images:,} images, {images / seconds:,.0f} images/s")
    first = arrivals[0][0] if arrivals else seconds
    return report.Phase(name, about, seconds, images, arrivals, difference(before, loader.stats()), first)


def stage_lines(stats: Mapping[str, Any]) -> list[str]:
    """Returns the table of stages for a terminal."""
    rows = report.stage_table(stats)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))) for row in rows]
