"""Figures of the loader: pictures per second, decoded on the host and on the device, and the CPUs that it keeps
busy."""

from . import rates
from .outcome import so_far
from .rates import Endless
from .scale import cpus
from .setting import crops

WAYS = {
    "decoded on the host": {},
    "device_decode": {"device_decode": True},
    "device_decode, share_decode": {"device_decode": True, "share_decode": True},
}
"""Options of `fb.Engine` by the device that decodes."""


def thread_counts(way):
    """Returns the numbers of threads to measure: all, and a few if the device decodes."""
    all_of_them = cpus()
    return sorted({1, max(1, all_of_them // 2), all_of_them}) if way != "device_decode, share_decode" else [all_of_them]


def pictures(setting, name, way):
    """Measures the pictures `name`, by threads."""
    found = []
    for threads in thread_counts(way):
        found.append(_row(setting, setting.needs(name), way, threads))
        so_far({"rows": found})
    return {"rows": found}


def _row(setting, data, way, threads):
    scale, row = setting.scale, {"decode": way, "batch": setting.scale.batch, "threads": threads}
    kwargs = {"fields": crops(scale.side), "batch_size": scale.batch, "drop_last": True}
    engine = {"memory": setting.memory(), **WAYS[way]}
    with rates.warnings(row), setting.on_device(data.folder, threads=threads, times=scale.times, engine=engine, **kwargs) as batches:
        endless = Endless(batches, setting.framework.synchronize, scale.warm_seconds)
        before = endless.taken
        rate = endless.rate(scale.loader_seconds, scale.round_seconds, scale.batch)
        statistics = endless.statistics()
        if WAYS[way]:
            row |= rates.fell_back(statistics, (endless.taken - before) * scale.batch, scale.batch)
        row |= {"pictures_per_s": rate.mean, "best_pictures_per_s": rate.best, "cpus_busy": rate.cpus_busy, **statistics}
    return row
