"""Figures of copies to the device: bare copies, and the loader's batches without decoding."""

import time

import numpy as np

from . import rates, rows, surroundings
from .device import Device
from .outcome import Skipped, so_far
from .rates import Endless, Rate
from .setting import each, loader

RING_BYTES = 256 << 20
"""Page-locked memory that bare copies cycle through, like a loader's; repeated copies of the same bytes would be
cached."""

IN_A_ROW = 8
"""Bare copies in flight."""


def bare(setting):
    """Measures bytes per second of bare copies from page-locked memory by size; the last size is a batch's."""
    scale, found = setting.scale, []
    device = Device()
    try:
        for size in (*scale.copies, scale.batch * scale.row_bytes):
            rate = _bare(device, size, scale)
            found.append({"bytes": size, "bytes_per_s": rate.mean, "best_bytes_per_s": rate.best, "rounds": rate.rounds})
            so_far({"rows": found})
    finally:
        device.close()
    return {"rows": found}


def _bare(device, size, scale):
    arrays = [np.zeros(size, np.uint8) for _ in range(max(1, min(IN_A_ROW, RING_BYTES // size)))]
    address, stream = device.allocate(size), device.stream()
    for array in arrays:
        device.register(array)

    def move():
        for number in range(IN_A_ROW):
            device.copy(address, arrays[number % len(arrays)], stream)
        device.synchronize()
        return IN_A_ROW * size

    try:
        move()
        return Rate(move, device.synchronize, scale.seconds, scale.round_seconds)
    finally:
        for array in arrays:
            device.unregister(array)
        device.end_stream(stream)
        device.free(address)


def of_the_loader(setting, bare_rows):
    """Measures the loader's batches of rows from the page cache, to the device and to host memory, against `bare_rows`.
    One of the two paths limits the rate. Epochs are so long that their start does not matter.
    """
    scale, found = setting.scale, {"rows": []}
    for device, framework in ((setting.device, setting.framework.framework), ("cpu", "numpy")):
        found["rows"].append(_of_the_loader(setting, device, framework))
        so_far(found)
    ours, host = found["rows"]
    if bare_rows and bare_rows[-1]["bytes"] == scale.batch * scale.row_bytes and "fell_back" not in ours:
        theirs = bare_rows[-1]
        found["loader_of_bare"] = ours["bytes_per_s"] / theirs["bytes_per_s"]
        found["loader_of_bare_best"] = ours["best_bytes_per_s"] / theirs["best_bytes_per_s"]
        found["loader_of_bound"] = ours["bytes_per_s"] / min(theirs["bytes_per_s"], host["bytes_per_s"])
    return found


def _of_the_loader(setting, device, framework):
    scale, row = setting.scale, {"to": "host memory" if device == "cpu" else "the device"}
    size, synchronize = scale.batch * scale.row_bytes, (lambda: None) if device == "cpu" else setting.framework.synchronize
    kwargs = {"fields": rows.fields(), "batch_size": scale.batch, "drop_last": True, "engine": {"memory": setting.memory()}}
    with rates.warnings(row), loader(setting.needs("rows"), device, framework, times=scale.times, **kwargs) as batches:
        endless = Endless(batches, synchronize, scale.warm_seconds)
        rate = endless.rate(scale.loader_seconds, scale.round_seconds, size)
        row |= {"bytes": size, "bytes_per_s": rate.mean, "best_bytes_per_s": rate.best, "rounds": rate.rounds}
        row |= {"cpus_busy": rate.cpus_busy, **endless.statistics()}
    return row


def from_disk(setting):
    """Measures rows from disk: through read slots, directly to the device, and to host memory."""
    found, folder = {"rows": []}, setting.needs("rows")
    for device, framework in ((setting.device, setting.framework.framework), ("cpu", "numpy")):
        found["rows"].append(_from_disk(setting, folder, device, framework))
        so_far(found)
    if not any(row["forgotten"] for row in found["rows"]):
        raise Skipped("the page cache keeps the shards here, so nothing is read from disk")
    return found


def _from_disk(setting, folder, device, framework):
    scale, row = setting.scale, {"to": "host memory" if device == "cpu" else "the device", "forgotten": True}
    seconds, moved, epochs, cpu = 0.0, 0, 0, 0.0
    kwargs = {"fields": rows.fields(), "batch_size": scale.batch, "drop_last": True, "engine": {"memory": setting.memory()}}
    with rates.warnings(row), loader(folder, device, framework, **kwargs) as batches:
        while seconds < scale.loader_seconds or epochs < 2:
            row["forgotten"] &= rows.forget(folder) is True
            begun, cpu_begun = time.perf_counter(), rates.cpu_seconds()
            for batch in each(batches):
                moved += scale.batch * scale.row_bytes
                del batch
            if device != "cpu":
                setting.framework.synchronize()
            seconds, cpu, epochs = seconds + time.perf_counter() - begun, cpu + rates.cpu_seconds() - cpu_begun, epochs + 1
        stats = batches.stats()
    counters = {name: stats["counters"].get(name, 0) for name in rows.COUNTERS}
    row |= {"bytes_per_s": moved / seconds, "epochs": epochs, "cpus_busy": cpu / seconds, "counters": counters}
    row |= {"notes": stats["notes"], "stages": stats["stages"]}
    if device != "cpu" and not counters["rows_copied_early"]:
        row["fell_back"] = "no row was copied directly from its read slot"
    return row


def gpu_direct_storage(setting):
    """Measures bytes per second of rows through host memory (usually from the page cache) and by GPUDirect Storage."""
    scale, folder, found = setting.scale, setting.needs("rows"), {"row_bytes": setting.scale.row_bytes, "rows": []}
    (expected,), size = rows.digests(folder, scale.batch)
    for name, direct in (("host memory", False), ("GPUDirect Storage", True)):
        row = {"by": name}
        engine = {"memory": setting.memory(), "gpu_direct_storage": direct}
        kwargs = {"fields": rows.fields(), "batch_size": scale.batch, "engine": engine}
        with rates.warnings(row), setting.on_device(folder, **kwargs) as batches:
            rows.assert_equal(setting, batches, expected, name)
            stats = batches.stats()
            if direct and not stats["counters"].get("rows_gpu_direct"):
                so_far({**found, "notes": stats["notes"]})
                notes = " ".join(note for note in stats["notes"] if "GPUDirect" in note)
                raise Skipped(notes or "cuFile rejected every row")
            endless = Endless(batches, setting.framework.synchronize, scale.warm_seconds)
            # The last batch of an epoch may be incomplete.
            rate = endless.rate(scale.loader_seconds, scale.round_seconds, size / len(expected))
            counters = {name: count for name, count in batches.stats()["counters"].items() if "gpu_direct" in name}
            row |= {"bytes_per_s": rate.mean, "best_bytes_per_s": rate.best, "cpus_busy": rate.cpus_busy}
            row |= {**counters, **endless.statistics(), "libraries": surroundings.libraries()}
        found["rows"].append(row)
        so_far(found)
    return found
