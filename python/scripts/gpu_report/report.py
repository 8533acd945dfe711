"""The parts, one after the other, each with its outcome."""

import ctypes
import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import checks, data, figures, nvjpeg, outcome
from .device import Device
from .outcome import Skipped

KIB, MIB = 1 << 10, 1 << 20

LIMITS_SECONDS = {
    "the device": 60,
    "check": 45,
    "copies": 75,
    "loader": 150,
    "peer": 90,
    "training": 120,
    "nvJPEG alone": 240,
    "GPUDirect Storage": 75,
}
"""For a part in a process of its own, by its kind: some times what it should take, with a driver that starts slowly. One that hangs
leaves time for the others.
"""

QUICK_LIMIT_SECONDS = 40
"""The most with `quick`: to start the driver and to load what torch needs may be all of it."""

GRACE_SECONDS = 45
"""After the time is over, for the part that is running then. With the 8 minutes of the default that is within the ten that a machine
is often lent for, start included.
"""


class Scale:
    """How much is done: `quick` is enough to see that all of it runs."""

    def __init__(self, quick):
        self.side = 64 if quick else 224
        self.pictures = 48 if quick else 512
        self.size = (120, 90) if quick else (500, 375)
        self.check_pictures = 48 if quick else 400
        self.seconds = 0.05 if quick else 3.0
        # Each picture so many times in the loader's data: a start and an end of an epoch would count for much in two batches.
        self.times = 2 if quick else 32
        self.loader_seconds = 0.2 if quick else 8.0
        self.batch = 16 if quick else 256
        self.copies = (64 * KIB, MIB) if quick else (MIB, 16 * MIB, 37 * MIB, 147 * MIB)
        self.token_rows, self.row_bytes = (64, 4 * KIB) if quick else (4096, 147 * KIB)
        self.decoder_batches = (4, 9) if quick else (32, 64, 128, 256)
        self.shares = (0.0, 0.5, 1.0) if quick else (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
        self.model, self.warm_up, self.steps = ("resnet18", 1, 3) if quick else ("resnet50", 5, 60)
        # Fewer steps behind a source that is slow.
        self.training_seconds = 30.0
        self.workers = min(2 if quick else 16, os.cpu_count() or 1)
        self.limits_seconds = {kind: min(limit, QUICK_LIMIT_SECONDS) if quick else limit for kind, limit in LIMITS_SECONDS.items()}


class Report:
    """Runs parts, as long as there is time, and hands what they found to `keep` before and after each. With `isolated` each runs in a
    fork of this process, which must never touch CUDA itself, and within a limit; else a part that crashes or hangs is the last.
    """

    def __init__(self, minutes, keep, wanted=lambda name: True, isolated=False, spent_seconds=0.0):
        self.parts, self._wanted, self._isolated = [], wanted, isolated
        # Once: what is returned and what was written last are the same.
        self._begun = datetime.datetime.now(datetime.timezone.utc)
        self._minutes, self._end, self._keep = minutes, time.monotonic() + 60 * minutes - spent_seconds, keep
        self.machine = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)),
            "commit": _commit(),
        }

    def is_over(self):
        """Whether the time is."""
        return time.monotonic() >= self._end

    def describe(self, name, part, limit_seconds=60):
        """Runs `part`, wanted or not, and takes what it found as the machine's. Returns its entry, which is kept if it failed."""
        entry = self._run(name, part, limit_seconds)
        if entry["outcome"] == "passed":
            self.parts.remove(entry)
            self.machine.update(entry["found"])
        return entry

    def run(self, name, part, limit_seconds=60):
        """Runs `part`; a failure is kept and told, and ends nothing else."""
        if self._wanted(name):
            self._run(name, part, limit_seconds)

    def _run(self, name, part, limit_seconds):
        begun = time.perf_counter()
        entry = {"name": name, "outcome": "running", "why": "the process ended here", "seconds": 0.0}
        # Whoever reads the files of a process that was ended sees which part it was.
        self.parts.append(entry)
        self._keep(self.document())
        del entry["why"]
        entry.update(self._outcome(part, limit_seconds))
        entry["seconds"] = time.perf_counter() - begun
        print(f"{entry['outcome']:8} {name} ({entry['seconds']:.1f} s) {entry.get('why', '')}", flush=True)
        self._keep(self.document())
        return entry

    def _outcome(self, part, limit_seconds):
        if self.is_over():
            return {"outcome": "skipped", "why": f"the {self._minutes:g} minutes were over: raise --minutes"}
        if not self._isolated:
            return outcome.here(part)
        left_seconds = round(self._end + GRACE_SECONDS - time.monotonic())
        return outcome.apart(part, min(limit_seconds, left_seconds))

    def document(self):
        """What goes into the JSON."""
        return {"date": self._begun.isoformat(timespec="seconds"), "machine": self.machine, "parts": self.parts}


class NoDevice(RuntimeError):
    """There is nothing to report on; the text says why."""


def has_failed(document):
    """Whether a part has."""
    return any(part["outcome"] == "failed" for part in document["parts"])


def _commit():
    command = ["git", "-C", Path(__file__).parent, "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"
    except OSError:
        # There is no git where only the files were copied to.
        return "unknown"


def _surroundings():
    """What parts depend on: the driver's version, the library of the engines, shared memory for workers, udev for cuFile."""
    try:
        driver = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except OSError:
        driver = "unknown"
    try:
        ctypes.CDLL("libnvcuvid.so.1")
        has_engines = True
    except OSError:
        has_engines = False
    shared = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    return {
        "driver": driver,
        "libnvcuvid": has_engines,
        "shared_memory_bytes": shared.f_blocks * shared.f_frsize if shared else 0,
        "udev": os.path.isdir("/run/udev"),
    }


def _sets(scale, photographs):
    """Files to decode, by name, with their sizes."""
    made = data.synthetic(scale.pictures, *scale.size)
    sets = {f"synthetic, {scale.size[0]}x{scale.size[1]} q90, {_mean_kb(made[0])} kB": made}
    if photographs:
        sets[f"photographs, {_mean_kb(photographs[0])} kB"] = photographs
    return sets


def _mean_kb(files):
    return round(sum(map(len, files)) / len(files) / 1000)


def run(
    framework,
    scale,
    photographs=None,
    device="cuda:0",
    know=lambda files: None,
    minutes=60,
    keep=lambda document: None,
    wanted=lambda name: True,
    isolated=False,
    spent_seconds=0.0,
):
    """Runs every part whose name is `wanted`, what matters most first; `photographs` are files and their sizes to measure with beside
    synthetic ones; `know` is told all files before they are decoded, `keep` gets the document before and after each part. No part
    begins after so many minutes, of which `spent_seconds` are over. `isolated` is as `Report` has it.

    Returns:
        The document for the JSON.

    Raises:
        NoDevice: There is no device that `framework` sees.
    """
    report, limits = Report(minutes, keep, wanted, isolated, spent_seconds), scale.limits_seconds
    report.describe("the surroundings", _surroundings, limits["the device"])
    described = report.describe("the device", framework.describe, limits["the device"])
    if described["outcome"] == "skipped" and not report.is_over():
        raise NoDevice(described["why"])
    with tempfile.TemporaryDirectory(prefix="gpu-report-") as scratch:
        scratch = Path(scratch)
        sets = _sets(scale, photographs)
        (name, (files, _)), *_ = reversed(sets.items())
        for known in (*(files for files, _ in sets.values()), [data.colour_edges()]):
            know(known)
        shards = data.write_shards(scratch / "shards", files, scale.times)
        few = data.write_shards(scratch / "few", files[: scale.check_pictures])
        for check in checks.CHECKS:
            sentence = check.__name__.replace("_", " ")
            report.run(f"check: {sentence}", lambda check=check: check(few, framework, device, scale.side), limits["check"])
        report.run("copies", lambda: _copies(framework, scale, scratch, device), limits["copies"])
        report.run(f"loader, {name}", lambda: _loader(framework, scale, shards, device), limits["loader"])
        peers_and_training(report, framework, scale, scratch, shards, files, device)
        report.run("nvJPEG alone", lambda: _nvjpeg(scale, sets, report.is_over), limits["nvJPEG alone"])
        # Last: cuFile has been seen to end the process.
        name = "GPUDirect Storage"
        report.run(name, lambda: _gpu_direct_storage(framework, scale, scratch, device), limits[name])
    return report.document()


def peers_and_training(report, framework, scale, scratch, shards, files, device):
    """What needs torch and torchvision, each part by itself."""
    size, limits = (scale.batch, scale.side), scale.limits_seconds
    workers, why_fewer = figures.workers_that_fit(scale.workers, scale.batch, scale.side)
    with_workers = {"workers": workers, **({"why_fewer": why_fewer} if why_fewer else {})}

    def torchvision():
        _torch(framework)
        return figures.torchvision_on_device(framework, files, *size, scale.loader_seconds)

    def data_loader():
        _torch(framework)
        return with_workers | figures.data_loader_rate(framework, scratch / "files", files, *size, workers, scale.loader_seconds)

    report.run("peer: torchvision", torchvision, limits["peer"])
    report.run("peer: DataLoader with Pillow", data_loader, limits["peer"])
    sources = _sources(framework, scale, scratch, shards, files, device, workers)
    for name, source in sources.items():

        def training(name=name, source=source):
            _torch(framework)
            times = (scale.warm_up, scale.steps, scale.training_seconds)
            found = figures.training(framework, source, scale.model, scale.batch, *times)
            return found | (with_workers if name == "DataLoader" else {})

        report.run(f"{scale.model} in bf16: {name}", training, limits["training"])


def _copies(framework, scale, scratch, device):
    folder = data.write_tokens(scratch / "tokens", scale.token_rows, scale.row_bytes // 2)
    size = scale.batch * scale.row_bytes
    driver = Device()
    try:
        bare = figures.copies(driver, (*scale.copies, size), scale.seconds)
    finally:
        driver.close()
    ours = figures.loader_copies(folder, framework, device, scale.batch, scale.row_bytes, scale.loader_seconds)
    return {"bare": bare, "loader": [ours], "loader_of_bare": ours["bytes_per_s"] / bare[-1]["bytes_per_s"]}


def _gpu_direct_storage(framework, scale, scratch, device):
    folder = data.write_tokens(scratch / "rows", scale.token_rows, scale.row_bytes // 2)
    found = figures.gpu_direct_storage(folder, framework, device, scale.batch, scale.loader_seconds)
    if isinstance(found, str):
        raise Skipped(found)
    return {"row_bytes": scale.row_bytes, **found}


def _nvjpeg(scale, sets, is_over):
    try:
        library = nvjpeg.load([Path(folder) for folder in sys.path])
    except OSError as error:
        raise Skipped(f"nvJPEG cannot be loaded: {error}") from error
    baseline = {name: data.baseline(*files_and_sizes) for name, files_and_sizes in sets.items()}
    left_out = sum(len(files) - len(baseline[name][0]) for name, (files, _) in sets.items())
    baseline = {name: files_and_sizes for name, files_and_sizes in baseline.items() if files_and_sizes[0]}
    driver = Device()
    try:
        found = nvjpeg.figures(driver, library, baseline, scale.decoder_batches, scale.shares, scale.seconds, is_over)
    finally:
        driver.close()
    return {"progressive_left_out": left_out, **found}


def _loader(framework, scale, shards, device):
    threads = sorted({1, max(1, (os.cpu_count() or 1) // 2), os.cpu_count() or 1})
    rows = []
    for decode in (False, True):
        for count in threads:
            figure = figures.loader_pictures(
                shards, framework, device, scale.batch, scale.side, count, decode, scale.loader_seconds
            )
            rows.append(figure)
    return rows


def _torch(framework):
    if not hasattr(framework, "torch"):
        raise Skipped("there is no torch with CUDA")
    try:
        import torchvision  # noqa: F401
    except ImportError as error:
        raise Skipped(f"torchvision is missing: {error}") from error


def _sources(framework, scale, scratch, shards, files, device, workers):
    """Where a training step's batches come from, by name: functions that give pairs of pictures and labels for ever."""

    def synthetic():
        torch, shape = framework.torch, (scale.batch, 3, scale.side, scale.side)
        pictures = torch.randint(0, 256, shape, dtype=torch.uint8, device=framework.on)
        labels = torch.zeros(scale.batch, dtype=torch.int64, device=framework.on)
        while True:
            yield pictures, labels

    def forebay(device_decode):
        kwargs = {"fields": checks.fields(scale.side), "batch_size": scale.batch, "drop_last": True}
        kwargs["memory"] = "2gb" if scale.batch >= 64 else "256mb"
        with checks.loader(shards, device, "torch", device_decode=device_decode, **kwargs) as batches:
            while True:
                for batch in batches:
                    yield batch["x"], batch["y"]

    def with_data_loader():
        batches = figures.data_loader(framework, scratch / "files", files, scale.batch, scale.side, workers)
        while True:
            for pictures, labels in batches:
                yield pictures.to(framework.on, non_blocking=True), labels.to(framework.on, non_blocking=True)

    return {
        "synthetic": synthetic,
        "forebay": lambda: forebay(False),
        "forebay, device_decode": lambda: forebay(True),
        "DataLoader": with_data_loader,
    }
