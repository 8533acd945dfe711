"""Measurement of rates, CPU time, counters, notes and warnings."""

import contextlib
import logging
import multiprocessing
import os
import time

from .setting import each

ON_DEVICE_MIN = 0.9
"""Minimum share of device-decoded pictures in a valid row of device decoding."""

AHEAD, AHEAD_OF_SMALL, SMALL_MAX = 4, 32, 64
"""Batches that a loader has made before the first one counts; more for batches with fewer pictures."""


class Rate:
    """Rate over rounds of a minimum length: the mean, and the best round. `move()` processes some items and returns
    their number; `synchronize` waits for the device at the end of each round.
    """

    def __init__(self, move, synchronize, seconds, round_seconds):
        rates, total, begun, round_begun = [], 0, time.perf_counter(), time.perf_counter()
        cpu = cpu_seconds()
        moved = 0
        while True:
            moved += move()
            if time.perf_counter() - round_begun < round_seconds:
                continue
            synchronize()
            now = time.perf_counter()
            rates.append(moved / (now - round_begun))
            total, moved, round_begun = total + moved, 0, now
            if now - begun >= seconds:
                break
        self.mean, self.best, self.rounds = total / (now - begun), max(rates), len(rates)
        self.cpus_busy = (cpu_seconds() - cpu) / (now - begun)


def cpu_seconds():
    """Returns the CPU time of this process and of its live `multiprocessing` children."""
    return time.process_time() + sum(_cpu_seconds_of(child.pid) for child in multiprocessing.active_children())


def _cpu_seconds_of(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        # utime and stime, after the state and ten numbers.
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Endless:
    """Batches of a loader, epoch after epoch. The first ones do not count, because threads start and decoders allocate
    memory. The loader's statistics are part of the figures.
    """

    WARM_UP_BATCHES = 3

    def __init__(self, loader, synchronize, warm_seconds):
        self._loader, self._batches, self._synchronize = loader, iter(()), synchronize
        begun, taken = time.perf_counter(), 0
        while taken < self.WARM_UP_BATCHES or time.perf_counter() - begun < warm_seconds:
            self.take()
            taken += 1
        synchronize()
        self._before, self.taken = loader.stats()["counters"], 0

    def take(self):
        """Takes and drops one batch, which may belong to the next epoch."""
        self.taken = getattr(self, "taken", 0) + 1
        for _ in range(2):
            for _ in self._batches:
                return 1
            self._batches = each(self._loader)
        raise RuntimeError("an epoch without batches")

    def rate(self, seconds, round_seconds, size=1):
        """Measures batches per second, each counted as `size` items."""
        return Rate(lambda: self.take() * size, self._synchronize, seconds, round_seconds)

    def statistics(self):
        """Returns counters since the warm-up, stages, and notes."""
        stats = self._loader.stats()
        counters = {name: value - self._before.get(name, 0) for name, value in stats["counters"].items()}
        counters = {name: value for name, value in counters.items() if value}
        return {"counters": counters, "notes": stats["notes"], "stages": stats["stages"]}


def fell_back(statistics, pictures, batch):
    """Returns the reason why a row of device decoding is invalid: too many pictures were not decoded on the device.
    Some batches are prefetched beyond the counted ones.
    """
    ahead = (AHEAD_OF_SMALL if batch < SMALL_MAX else AHEAD) * batch
    decoded = sum(statistics["counters"].get(name, 0) for name in ("pictures_on_device", "pictures_shared"))
    if statistics["counters"].get("pictures_on_device", 0) and decoded + ahead >= ON_DEVICE_MIN * pictures:
        return {}
    return {"fell_back": f"{decoded} of {pictures} pictures were decoded on the device"}


@contextlib.contextmanager
def warnings(row):
    """Adds forebay's warnings to `row`. Memory that is not pinned makes the row invalid."""
    lines = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("forebay")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if lines:
            row["warnings"] = lines[:8]
        if any("pinned" in sentence for sentence in lines):
            row.setdefault("fell_back", "memory is not pinned")
