"""How fast something goes, and what it says of itself: rates, CPU time, counters, notes and warnings."""

import contextlib
import logging
import multiprocessing
import os
import time

from .setting import each

ON_DEVICE_MIN = 0.9
"""A row is not one of decoding on the device if fewer of its pictures were decoded there."""

AHEAD, AHEAD_OF_SMALL, SMALL_MAX = 4, 32, 64
"""Batches that a loader makes ahead of the one that is taken, and that one; more where a batch has less than so many pictures."""


class Rate:
    """Rounds of at least so many seconds each, for so many seconds: the mean, and the best of them. `move()` moves some of whatever
    is counted, and says how many; `synchronize` waits for the device, at the end of each round.
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
    """Of this process and of those that it started by `multiprocessing`, which are alive."""
    return time.process_time() + sum(_cpu_seconds_of(child.pid) for child in multiprocessing.active_children())


def _cpu_seconds_of(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        # utime and stime, behind the state and ten numbers.
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Endless:
    """A loader's batches, epoch after epoch, of which the first do not count: they wait for threads that start, and decoders make
    their memory. What the loader says of itself comes with the figures.
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
        """One batch more, which is dropped; it may be the next epoch's."""
        self.taken = getattr(self, "taken", 0) + 1
        for _ in range(2):
            for _ in self._batches:
                return 1
            self._batches = each(self._loader)
        raise RuntimeError("an epoch without batches")

    def rate(self, seconds, round_seconds, size=1):
        """Batches per second, each of which counts for `size`."""
        return Rate(lambda: self.take() * size, self._synchronize, seconds, round_seconds)

    def told(self):
        """Counters since the warm-up, stages, and notes."""
        stats = self._loader.stats()
        counters = {name: value - self._before.get(name, 0) for name, value in stats["counters"].items()}
        counters = {name: value for name, value in counters.items() if value}
        return {"counters": counters, "notes": stats["notes"], "stages": stats["stages"]}


def fell_back(told, pictures, batch):
    """What keeps a row from being what it says, of a loader that decodes on the device: too many of so many pictures were not
    decoded there. Some batches are ahead of those that were taken.
    """
    ahead = (AHEAD_OF_SMALL if batch < SMALL_MAX else AHEAD) * batch
    decoded = sum(told["counters"].get(name, 0) for name in ("pictures_on_device", "pictures_shared"))
    if told["counters"].get("pictures_on_device", 0) and decoded + ahead >= ON_DEVICE_MIN * pictures:
        return {}
    return {"fell_back": f"{decoded} of {pictures} pictures were decoded on the device"}


@contextlib.contextmanager
def warnings(row):
    """Puts what forebay warns of meanwhile into `row`; memory that is not pinned makes it another figure than it should be."""
    said = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("forebay")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        if said:
            row["warnings"] = said[:8]
        if any("pinned" in sentence for sentence in said):
            row.setdefault("fell_back", "memory is not pinned")
