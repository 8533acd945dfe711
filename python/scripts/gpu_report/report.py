"""The parts, one after the other, each with its outcome."""

import datetime
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from . import checks, data, figures, nvjpeg
from .device import Device

KIB, MIB = 1 << 10, 1 << 20


class Scale:
    """How much is done: `quick` is enough to see that all of it runs."""

    def __init__(self, quick):
        self.side = 64 if quick else 224
        self.pictures = 48 if quick else 512
        self.size = (120, 90) if quick else (500, 375)
        self.check_pictures = 48 if quick else 400
        self.seconds = 0.05 if quick else 3.0
        self.loader_seconds = 0.2 if quick else 8.0
        self.batch = 16 if quick else 256
        self.copies = (64 * KIB, MIB) if quick else (MIB, 16 * MIB, 37 * MIB, 147 * MIB)
        self.token_rows, self.row_bytes = (64, 4 * KIB) if quick else (4096, 147 * KIB)
        self.decoder_batches = (4, 9) if quick else (32, 64, 128, 256)
        self.shares = (0.0, 0.5, 1.0) if quick else (0.0, 0.25, 0.5, 0.625, 0.75, 0.875, 1.0)
        self.steps = 3 if quick else 60
        self.workers = min(2 if quick else 16, os.cpu_count() or 1)


class Report:
    """Runs parts and keeps what they found."""

    def __init__(self, describe):
        self.parts = []
        self.machine = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "cpus": len(os.sched_getaffinity(0)),
            "commit": _commit(),
            **describe,
        }

    def run(self, name, part):
        """Runs `part`; a failure is kept and told, and ends nothing else."""
        begun = time.perf_counter()
        entry = {"name": name}
        try:
            entry["found"], entry["outcome"] = part(), "passed"
        except Skipped as skipped:
            entry["why"], entry["outcome"] = str(skipped), "skipped"
        except Exception as error:
            traceback.print_exc()
            entry["why"], entry["outcome"] = f"{type(error).__name__}: {error}", "failed"
        entry["seconds"] = time.perf_counter() - begun
        self.parts.append(entry)
        print(f"{entry['outcome']:8} {name} ({entry['seconds']:.1f} s) {entry.get('why', '')}", flush=True)

    def document(self):
        """What goes into the JSON."""
        now = datetime.datetime.now(datetime.timezone.utc)
        return {"date": now.isoformat(timespec="seconds"), "machine": self.machine, "parts": self.parts}


class Skipped(Exception):
    """A part cannot run here; the text says why."""


def _commit():
    here = Path(__file__).parent
    asked = subprocess.run(["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True)
    return asked.stdout.strip() or "unknown"


def _sets(scale, folder):
    """Files to decode, by name, with their sizes."""
    made = data.synthetic(scale.pictures, *scale.size)
    sets = {f"synthetic, {scale.size[0]}x{scale.size[1]} q90, {_mean_kb(made[0])} kB": made}
    if folder:
        files, sizes = data.photographs(folder, scale.pictures)
        if files:
            sets[f"photographs, {_mean_kb(files)} kB"] = (files, sizes)
    return sets


def _mean_kb(files):
    return round(sum(map(len, files)) / len(files) / 1000)


def run(framework, scale, photographs=None, device="cuda:0", know=lambda files: None):
    """Runs everything; `know` is told all files before they are decoded.

    Returns:
        The document for the JSON.
    """
    report = Report(framework.describe())
    with tempfile.TemporaryDirectory(prefix="gpu-report-") as scratch:
        scratch = Path(scratch)
        sets = _sets(scale, photographs)
        (name, (files, _)), *_ = reversed(sets.items())
        for known, _ in sets.values():
            know(known)
        shards = data.write_shards(scratch / "shards", files)
        few = data.write_shards(scratch / "few", files[: scale.check_pictures])
        for check in checks.CHECKS:
            sentence = check.__name__.replace("_", " ")
            report.run(f"check: {sentence}", lambda check=check: check(few, framework, device, scale.side))
        report.run("copies", lambda: _copies(framework, scale, scratch, device))
        report.run("nvJPEG alone", lambda: _nvjpeg(scale, sets))
        report.run(f"loader, {name}", lambda: _loader(framework, scale, shards, device))
        report.run("peers", lambda: _peers(framework, scale, scratch, files))
        report.run("ResNet-50 in bf16", lambda: _training(framework, scale, scratch, shards, files, device))
    return report.document()


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


def _nvjpeg(scale, sets):
    try:
        library = nvjpeg.load([Path(folder) for folder in sys.path])
    except OSError as error:
        raise Skipped(f"nvJPEG cannot be loaded: {error}") from error
    driver = Device()
    try:
        return nvjpeg.figures(driver, library, sets, scale.decoder_batches, scale.shares, scale.seconds)
    finally:
        driver.close()


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


def _peers(framework, scale, scratch, files):
    _torch(framework)
    found = {}
    try:
        found["torchvision"] = figures.torchvision_on_device(framework, files, scale.batch, scale.side, scale.loader_seconds)
    except RuntimeError as error:
        found["torchvision_failed"] = str(error)
    found["DataLoader"] = figures.data_loader_rate(
        framework, scratch / "files", files, scale.batch, scale.side, scale.workers, scale.loader_seconds
    )
    return found


def _training(framework, scale, scratch, shards, files, device):
    _torch(framework)
    torch = framework.torch

    def synthetic():
        pictures = torch.randint(0, 256, (scale.batch, 3, scale.side, scale.side), dtype=torch.uint8, device="cuda")
        labels = torch.zeros(scale.batch, dtype=torch.int64, device="cuda")
        while True:
            yield pictures, labels

    def forebay(device_decode):
        kwargs = {"fields": checks.fields(scale.side), "batch_size": scale.batch, "drop_last": True, "memory": "2gb"}
        with checks.loader(shards, device, "torch", device_decode=device_decode, **kwargs) as batches:
            while True:
                for batch in batches:
                    yield batch["x"], batch["y"]

    def with_data_loader():
        batches = figures.data_loader(framework, scratch / "files", files, scale.batch, scale.side, scale.workers)
        while True:
            for pictures, labels in batches:
                yield pictures.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)

    sources = {
        "synthetic": synthetic,
        "forebay": lambda: forebay(False),
        "forebay, device_decode": lambda: forebay(True),
        "DataLoader": with_data_loader,
    }
    rows = []
    for name, source in sources.items():
        rows.append({"data": name, **figures.training(framework, source, scale.batch, scale.side, scale.steps)})
    return rows
