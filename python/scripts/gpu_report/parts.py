"""List of parts, the most important first."""

import dataclasses
import functools
import shutil
import time

from . import copies, data, loading, nvjpeg, peers, surroundings, training
from .checks import CHECKS
from .outcome import Skipped, so_far
from .report import Report
from .setting import Setting, scratch_folder

ROW_TRIES = 3
"""Attempts with less data, a quarter of the rows each time, if there is no room."""


class NoDevice(RuntimeError):
    """There is no device; the text is the reason."""


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
    out=None,
    arguments=None,
):
    """Runs every part with a name that is `wanted`. `photographs` are files that are measured in addition to synthetic ones.
    `know` gets all files before they are decoded, `keep` gets the document before and after each part, and `out` is the
    folder of differing samples. No part starts after `minutes`. `isolated` and `spent_seconds` as for `Report`.

    Returns:
        The document of the JSON file.

    Raises:
        NoDevice: There is no device that `framework` sees.
    """
    report, limits = Report(minutes, keep, wanted, isolated, spent_seconds), scale.limits_seconds
    report.machine["arguments"] = arguments or []
    with scratch_folder(scale.data_bytes()) as scratch:
        report.describe("the surroundings", lambda: surroundings.host(scratch), limits["the device"])
        described = report.describe("the device", lambda: surroundings.device(framework), limits["the device"])
        if described["outcome"] == "skipped" and not report.is_over():
            raise NoDevice(described["why"])
        setting = Setting(framework, device, scale, scratch, out)
        _few(report, setting, photographs, know)
        for check in CHECKS:
            at = dataclasses.replace(setting, part=check.__name__)
            report.run(f"check: {check.__name__.replace('_', ' ')}", lambda check=check, at=at: check(at), limits["check"])
        names = _large(report, setting, photographs, know)
        bare = report.run("copies: bare", lambda: copies.bare(setting), limits["copies"])
        rows = bare and bare["rows"]
        report.run("copies: the loader", lambda: copies.of_the_loader(setting, rows), limits["copies"])
        report.run("copies: rows from disk", lambda: copies.from_disk(setting), limits["copies"])
        for name in names:
            for way in loading.WAYS:
                part = f"loader, {name}: {way}"
                report.run(part, lambda name=name, way=way: loading.pictures(setting, name, way), limits["loader"])
        peers_and_training(report, setting, names)
        for name in names:
            part = f"nvJPEG alone, {name}"
            alone = functools.partial(nvjpeg_alone, report, setting, name)
            report.run(part, alone, limits["nvJPEG alone"])
        # Last, because cuFile has ended the process in some cases.
        name = "GPUDirect Storage"
        report.run(name, lambda: copies.gpu_direct_storage(setting), limits[name])
        report.describe("the device afterwards", surroundings.afterwards, limits["the device"], may_be_late=True)
    return report.document()


def nvjpeg_alone(report, setting, name):
    """Measures the decoder within the time limits of the part and of the run."""
    end = time.monotonic() + 0.8 * setting.scale.limits_seconds["nvJPEG alone"]

    def is_over():
        return report.is_over() or time.monotonic() >= end

    return nvjpeg.alone(setting.scale, setting.needs(name).files, is_over)


def peers_and_training(report, setting, names):
    """Parts that need torch and torchvision."""
    scale, limits = setting.scale, setting.scale.limits_seconds
    workers, why_fewer = peers.workers_that_fit(scale.workers, scale.batch, scale.side)
    with_workers = {"workers": workers, **({"why_fewer": why_fewer} if why_fewer else {})}

    def torchvision(name):
        _needs_torchvision(setting)
        return peers.torchvision_on_device(setting, setting.needs(name))

    def data_loader(name):
        _needs_torchvision(setting)
        return with_workers | peers.data_loader_rate(setting, setting.needs(name), workers)

    def steps(source, synthetic):
        _needs_torchvision(setting)
        found = training.training(setting, setting.needs(names[0]), source, workers, synthetic)
        return found | (with_workers if source == "DataLoader" else {})

    for name in names:
        report.run(f"peer, {name}: torchvision", lambda name=name: torchvision(name), limits["peer"])
        report.run(f"peer, {name}: DataLoader with Pillow", lambda name=name: data_loader(name), limits["peer"])
    synthetic = None
    for source in training.SOURCES:
        part = f"{scale.model} in bf16: {source}"
        found = report.run(part, lambda source=source: steps(source, synthetic), limits["training"])
        if source == "synthetic" and found:
            synthetic = found["pictures_per_s"]


def _needs_torchvision(setting):
    if not hasattr(setting.framework, "torch"):
        raise Skipped("there is no torch with CUDA")
    try:
        import torchvision  # noqa: F401
    except ImportError as error:
        raise Skipped(f"torchvision is missing: {error}") from error


def _few(report, setting, photographs, know):
    """Makes the data of the checks."""
    scale, folder = setting.scale, setting.scratch

    def make():
        _, *how = scale.sets[0]
        files = photographs or data.synthetic(scale.check_pictures, *how, processes=scale.processes)
        data.make_pictures(folder / "few", files[: scale.check_pictures])
        data.make_pictures(folder / "odd", list(data.odd().values()), list(data.odd()), times=4)
        data.make_pictures(folder / "damaged", list(data.damaged().values()), list(data.damaged()), times=8)
        return {"files": len(files)}

    if report.run("data for the checks", make, scale.limits_seconds["data"], is_needed=True):
        setting.data |= {name: data.read_pictures(folder / name) for name in ("few", "odd", "damaged")}
        for pictures in setting.data.values():
            know(pictures.files)
        know([data.colour_edges()])


def _large(report, setting, photographs, know):
    """Makes the data of the measurements; returns the names of the pictures, the most important first."""
    scale, names = setting.scale, []
    sets = {"photographs": None} if photographs else {}
    for count, width, height, quality, detail in scale.sets:
        sets[f"synthetic {width}x{height} q{quality}"] = (count, width, height, quality, detail)
    for number, (name, how) in enumerate(sets.items()):

        def make(how=how, number=number):
            files = photographs if how is None else data.synthetic(*how, processes=scale.processes)
            data.make_pictures(setting.scratch / f"set {number}", files)
            return {"files": len(files), "mean_kb": round(sum(map(len, files)) / len(files) / 1000)}

        found = report.run(f"data: {name}", make, scale.limits_seconds["data"], is_needed=True)
        if found:
            name = f"{name}, {found['mean_kb']} kB"
            setting.data[name] = data.read_pictures(setting.scratch / f"set {number}")
            know(setting.data[name].files)
        names.append(name)
    if report.run("data: rows", lambda: _rows(setting), scale.limits_seconds["data"], is_needed=True):
        setting.data["rows"] = setting.scratch / "rows"
    return names


def _rows(setting):
    """Makes as much data as there is room for."""
    folder, scale = setting.scratch / "rows", setting.scale
    for number in range(ROW_TRIES):
        count = scale.rows >> 2 * number
        try:
            data.write_rows(folder, count, scale.row_bytes)
            return {"rows": count, "row_bytes": scale.row_bytes}
        except Exception as error:
            so_far({"rows": count, "why_not": str(error)})
            shutil.rmtree(folder, ignore_errors=True)
            if number == ROW_TRIES - 1:
                raise
