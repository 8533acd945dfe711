"""The report of a machine with a GPU, on the stand-ins: every part runs, and missing requirements of peers are named.
Peers and training, which need torch's own device, run on the CPU.
"""

import contextlib
import functools
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
from fake_cuda import Consumer, Driver, NvJpeg, compile_decoder, compile_storage
from PIL import Image

MODULES = "checks compare copies data decoding frameworks nvjpeg outcome parts peers report rows scale setting surroundings".split()

SCRIPTS = pathlib.Path(__file__).parents[1] / "scripts"


@pytest.fixture
def gpu_report(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    modules = {name: importlib.import_module(f"gpu_report.{name}") for name in MODULES}
    yield types.SimpleNamespace(**modules, main=importlib.import_module("gpu_report.__main__"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpu_report"]:
        del sys.modules[name]


BFLOAT16, UNSIGNED = 4, 1
"""DLPack's numbers of types."""


class FakeFramework:
    """Batches as DLPack's consumers have them."""

    framework = "dlpack"

    def __init__(self, driver):
        self.driver = driver

    def array(self, tensor):
        return self.take(tensor, True)

    def take(self, tensor, versioned):
        consumer = Consumer(self.driver, tensor, versioned=versioned)
        managed = consumer._managed.tensor
        is_bfloat16 = managed.code == BFLOAT16
        if is_bfloat16:
            managed.code = UNSIGNED
        array = consumer.array()
        consumer.free()
        # The upper half of a float32.
        return (array.astype(np.uint32) << 16).view(np.float32) if is_bfloat16 else array

    def synchronize(self):
        self.driver.run()

    def describe(self):
        return {"gpu": "a stand-in"}


def fakes():
    """Fakes of the libraries that the environment names: a framework, the registration of files with the decoder, the
    driver, and the decoder."""
    driver, nvjpeg = Driver(os.environ["FOREBAY_CUDA_LIBRARY"]), NvJpeg(os.environ["FOREBAY_NVJPEG_LIBRARY"])
    nvjpeg.engines(2)
    driver.waits_move(True)

    def know(files):
        for file in files:
            # Damaged files are not registered, so the fake rejects them.
            with contextlib.suppress(OSError):
                nvjpeg.add(file, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))

    return FakeFramework(driver), know, driver, nvjpeg


@pytest.fixture
def fake(cuda_library, monkeypatch):
    decoder = compile_decoder(cuda_library.parent, cuda_library)
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(cuda_library))
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(decoder))
    monkeypatch.setenv("FOREBAY_CUFILE_LIBRARY", str(compile_storage(cuda_library.parent, cuda_library)))
    framework, know, driver, nvjpeg = fakes()
    yield framework, know, driver, nvjpeg
    # For the tests of this process that come later.
    left = driver.left()
    driver.waits_move(False)
    assert left == {"registered": 0, "allocated": 0, "events": 0} and nvjpeg.live() == 0


def run(gpu_report, fake, out, **kwargs):
    """The whole report on the stand-ins: the document, and its parts by name."""
    framework, know, *_ = fake
    keep = functools.partial(gpu_report.main.write, out=out)
    found = gpu_report.parts.run(framework, gpu_report.scale.Scale(quick=True), know=know, **{"keep": keep, "out": out, **kwargs})
    return found, {part["name"]: part for part in found["parts"]}


def test_every_part_runs_and_is_in_both_files(gpu_report, fake, tmp_path):
    found, parts = run(gpu_report, fake, tmp_path)
    assert not gpu_report.report.has_failed(found), [part for part in found["parts"] if part["outcome"] == "failed"]
    outcomes = {name: part["outcome"] for name, part in parts.items()}
    checks = {name.removeprefix("check: "): outcome for name, outcome in outcomes.items() if name.startswith("check: ")}
    needs_torch = {name for name in checks if any(word in name for word in ("stream", "graph", "cupy", "jax"))}
    assert {name for name, outcome in checks.items() if outcome != "passed"} == needs_torch and len(checks) - len(needs_torch) == 13
    assert [row["rows_gpu_direct"] > 0 for row in parts["GPUDirect Storage"]["found"]["rows"]] == [False, True]
    assert parts["check: device decode agrees"]["found"]["nearest_upsampling"] == "smooth"
    odd = parts["check: odd files are as on the host"]["found"]
    # All files that are neither progressive nor have four colours.
    assert odd["pictures_on_device"] >= 2 * 4 * 22 and odd["pictures_refused"] == 0
    damaged = parts["check: damaged files leave the rest as they are"]["found"]
    # The host cannot detect the damage of the scan, and the stand-in has no such file.
    assert damaged["host"]["damaged_taken"] == damaged["device"]["damaged_taken"] == {"damaged in its scan": 8}
    assert damaged["device"]["samples_skipped"] == damaged["host"]["samples_skipped"] == 16
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written == found and written["machine"]["gpu"] == "a stand-in" and written["machine"]["scratch"]["free_bytes"] > 0
    rates = [part["found"]["rates"] for name, part in parts.items() if name.startswith("nvJPEG alone")]
    assert len(rates) == 2 and all("pictures_per_s" in rate for rate in sum(rates, []))
    by_share = {(rate["engines_share"], rate["under_way"]) for rate in rates[0]}
    assert by_share == {(share, under_way) for share in (0, 0.5, 1) for under_way in (1, 2)}
    copied = parts["copies: the loader"]["found"]
    assert copied["loader_of_bare"] > 0 and copied["loader_of_bound"] > 0 and copied["rows"][0]["stages"]
    rows = [row for name, part in parts.items() if name.startswith("loader, ") for row in part["found"]["rows"]]
    assert rows and all(row["pictures_per_s"] > 0 and row["stages"] and "fell_back" not in row for row in rows), rows
    html = (tmp_path / "gpu.html").read_text()
    assert "device decode agrees" in html and "there is no torch with CUDA" in html
    assert sorted(os.listdir(tmp_path)) == ["gpu.html", "gpu.json"]
    assert fake[3].live() == 0


def test_a_failed_check_reports_the_difference_and_later_parts_run(gpu_report, fake, tmp_path):
    framework, *_ = fake
    array = framework.array
    # This decoder returns pictures upside down.
    framework.array = lambda tensor: array(tensor)[:, :, ::-1] if len(tensor.shape) == 4 else array(tensor)
    checks = ("check: copies", "check: device", "check: odd")
    found, parts = run(gpu_report, fake, tmp_path, wanted=lambda name: name.startswith(checks))
    assert gpu_report.report.has_failed(found)
    failed = parts["check: copies are exact"]
    assert failed["outcome"] == parts["check: device decode agrees"]["outcome"] == "failed"
    assert "grey levels differ" in (tmp_path / "gpu.html").read_text() and "in hold" in failed["traceback"]
    worst = failed["found"]["worst"]
    assert len(worst) == 8 and worst[0]["box"]["right"] <= 64 and worst[0]["subsampling"] == "4:2:0"
    assert [len(worst[0][name]) for name in ("difference_mean_per_channel", "expected", "got")] == [3, 8, 8]
    with np.load(tmp_path / failed["found"]["kept_in"]) as kept:
        assert sorted(kept) == sorted(f"{name}_{number}" for name in ("expected", "file", "got") for number in range(4))
        assert Image.open(io.BytesIO(kept["file_0"].tobytes())).size == (120, 90)
        assert np.array_equal(kept["expected_0"], kept["got_0"][::-1])
    assert "kind" in parts["check: odd files are as on the host"]["found"]["worst"][0]


def test_a_loader_that_decodes_on_the_host_is_not_reported_as_the_device(gpu_report, fake, tmp_path, monkeypatch):
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(tmp_path / "nowhere.so"))
    wanted = "check: device decode agrees", "check: odd files"
    _, parts = run(gpu_report, fake, tmp_path, wanted=lambda name: name.startswith(("loader, synthetic 120x90", *wanted)))
    (row, *_) = next(part for name, part in parts.items() if name.endswith(": device_decode"))["found"]["rows"]
    assert row["fell_back"].startswith("0 of") and any("decoded on the host" in note for note in row["notes"])
    assert "invalid because" in (tmp_path / "gpu.html").read_text()
    for name in ("check: device decode agrees", "check: odd files are as on the host"):
        assert parts[name]["outcome"] == "failed" and "the device decoded nothing" in parts[name]["why"]
        assert parts[name]["found"]["pictures_on_device"] == 0


def test_the_report_of_an_ended_run_names_its_part_and_a_second_run_continues(gpu_report, fake, tmp_path):
    keep = functools.partial(gpu_report.main.write, out=tmp_path)

    def ended_in_copies(document):
        keep(document)
        if document["parts"] and document["parts"][-1]["name"] == "copies: bare":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(gpu_report, fake, tmp_path, keep=ended_in_copies, wanted=lambda name: not name.startswith("check"))
    last = json.loads((tmp_path / "gpu.json").read_text())["parts"][-1]
    assert (last["name"], last["outcome"]) == ("copies: bare", "running")
    assert "the process ended here" in (tmp_path / "gpu.html").read_text()
    rest, _ = run(gpu_report, fake, tmp_path, wanted=lambda name: name.startswith("nvJPEG alone, synthetic 120"))
    outcomes = [(part["name"].partition(",")[0], part["outcome"]) for part in rest["parts"] if not part["name"].startswith("data")]
    assert outcomes == [("nvJPEG alone", "passed")]


def test_replicated_chroma_of_a_decoder_is_reported(gpu_report, fake, tmp_path):
    framework, know, _, nvjpeg = fake
    data, setting = gpu_report.data, gpu_report.setting.Setting(framework, "cuda:0", None, tmp_path)
    file = data.colour_edges()
    smooth, plain = data.upsampled(file)
    as_pillow_has_it = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    assert np.abs(smooth - as_pillow_has_it).max() <= 1 and np.abs(smooth - plain).mean() > 5
    seen = {}
    for name, pixels in (("plain", plain), ("neither", 255 - smooth), ("smooth", smooth)):
        nvjpeg.add(file, np.uint8(pixels))
        seen[name] = gpu_report.decoding._nearest_upsampling(setting, 8)
    assert seen == {name: name for name in seen}


def test_photographs_may_be_progressive_or_of_a_different_format(gpu_report, fake, tmp_path):
    _, know, *_ = fake
    data = gpu_report.data
    picture = Image.fromarray(data.photograph(1, 80, 70, 1.4))
    picture.save(tmp_path / "a.jpg", quality=90)
    picture.save(tmp_path / "b.JPEG", quality=90, progressive=True)
    picture.convert("CMYK").save(tmp_path / "c.jpg")
    picture.save(tmp_path / "d.jpg", "PNG")
    (tmp_path / "e.jpg").write_bytes(b"no picture")
    files = data.photographs(tmp_path, 10)
    assert files == [(tmp_path / name).read_bytes() for name in ("a.jpg", "b.JPEG")]
    know(files)
    found = gpu_report.nvjpeg.alone(gpu_report.scale.Scale(quick=True), files)
    assert found["progressive_left_out"] == 1
    assert found["rates"] and all(rate["pictures_per_s"] > 0 for rate in found["rates"])
    with pytest.raises(gpu_report.outcome.Skipped, match="progressive"):
        gpu_report.nvjpeg.alone(gpu_report.scale.Scale(quick=True), files[1:])


def test_the_number_of_workers_is_limited_by_shared_memory(gpu_report, monkeypatch, tmp_path):
    figures = gpu_report.peers
    batch_bytes = 4 * (3 * 32 * 32 + 8)

    def of(free_bytes, blocks=1 << 20):
        shared = types.SimpleNamespace(f_bavail=free_bytes // 512, f_frsize=512, f_blocks=blocks)
        monkeypatch.setattr(os, "statvfs", lambda folder: shared)
        return figures.workers_that_fit(4, 4, 32)

    assert of(1 << 30) == (4, None) and of(0, blocks=0) == (4, None)
    workers, why = of(2 * 3 * batch_bytes + 512)
    assert workers == 2 and "4 were wanted" in why
    assert of(batch_bytes)[0] == 0
    monkeypatch.undo()
    assert figures.workers_that_fit(4, 4, 32, tmp_path / "nowhere")[0] == 0


@pytest.fixture
def on_cpu(gpu_report, tmp_path):
    """Makes a setting in which torch's tensors are in host memory, and a report."""
    pytest.importorskip("torchvision")
    scale = gpu_report.scale.Scale(quick=True)
    scale.batch, scale.side, scale.steps, scale.loader_seconds, scale.workers = 4, 32, 2, 0.05, 1
    gpu_report.data.make_pictures(tmp_path / "set", gpu_report.data.synthetic(9, 60, 50))
    pictures = gpu_report.data.read_pictures(tmp_path / "set")
    data = {"set": pictures, "few": pictures}
    setting = gpu_report.setting.Setting(gpu_report.frameworks.Torch("cpu"), "cpu", scale, tmp_path, data=data)
    return setting, gpu_report.report.Report(10, lambda document: None)


def test_peers_and_training_run_with_torch(gpu_report, on_cpu):
    setting, report = on_cpu
    gpu_report.parts.peers_and_training(report, setting, ["set"])
    parts = {part["name"]: part for part in report.parts}
    assert {name: part.get("why") for name, part in parts.items() if part["outcome"] != "passed"} == {}
    peers = [parts[f"peer, set: {name}"]["found"] for name in ("torchvision", "DataLoader with Pillow")]
    sources = ("synthetic", "forebay", "forebay, device_decode", "DataLoader")
    steps = [parts[f"resnet18 in bf16: {name}"]["found"] for name in sources]
    assert all(figure["pictures_per_s"] > 0 and figure["cpus_busy"] > 0 for figure in peers + steps)
    assert [figure.get("workers") for figure in peers + steps] == [None, 1, None, None, None, 1]
    assert all(figure["steps"] == 2 and 0 <= figure["share_waiting_for_data"] < 1 for figure in steps)
    assert ["of_synthetic" in figure for figure in steps] == [False, True, True, True]
    # The fake device is not a device of torch, so nothing is decoded on it.
    assert ["fell_back" in figure for figure in steps] == [False, False, True, False] and steps[1]["notes"] and steps[1]["stages"]


def test_consumers_with_torch_s_tensors_get_the_host_s_values(gpu_report, on_cpu):
    setting, report = on_cpu
    for check in gpu_report.checks.CHECKS:
        if check.__module__.endswith("sharing"):
            report.run(check.__name__, functools.partial(check, setting))
    outcomes = {part["name"]: (part["outcome"], part.get("why", "")) for part in report.parts}
    failed = {name: why for name, (outcome, why) in outcomes.items() if outcome == "failed"}
    assert not failed and sum(outcome == "passed" for outcome, _ in outcomes.values()) >= 3
    assert all("cannot be imported" in why for outcome, why in outcomes.values() if outcome == "skipped")


def test_rows_and_every_type_of_torch_s_tensors_are_compared(gpu_report, on_cpu):
    setting, _ = on_cpu
    fields = gpu_report.decoding._every_type_and_layout(gpu_report.decoding.fb.Resize(40), gpu_report.decoding.fb.CenterCrop(32))
    comparison, _ = gpu_report.compare.against_host(setting, setting.needs("few"), fields=fields, epochs=1)
    # Of half the bits.
    assert comparison.hold(0.2, 0.5)["samples"] == 10 * 9
    assert gpu_report.decoding._is_channels_last(setting, fields["uint8 NHWC"])
    setting.data["rows"] = gpu_report.data.write_rows(setting.scratch / "rows", 32, 64 << 10)
    setting.scale.row_bytes = 64 << 10
    found = gpu_report.copies.of_the_loader(setting, [{"bytes": 4 * (64 << 10), "bytes_per_s": 1e9, "best_bytes_per_s": 1e9}])
    assert found["loader_of_bare"] > 0 and found["loader_of_bound"] > 0
    (expected, _), _ = gpu_report.rows.digests(setting.data["rows"], 4, epochs=2)
    with setting.on_device(setting.data["rows"], fields=gpu_report.rows.fields(), batch_size=4) as batches:
        gpu_report.rows.assert_equal(setting, batches, expected, "torch")
        with pytest.raises(AssertionError, match="in 8 of 8 batches"):
            gpu_report.rows.assert_equal(setting, batches, expected, "another epoch")


def test_without_torchvision_its_parts_are_skipped(gpu_report, on_cpu, monkeypatch):
    setting, report = on_cpu
    monkeypatch.setitem(sys.modules, "torchvision", None)
    gpu_report.parts.peers_and_training(report, setting, ["set"])
    assert all(part["outcome"] == "skipped" and "torchvision is missing" in part["why"] for part in report.parts)


def test_parts_without_remaining_time_are_skipped_and_both_files_are_written(gpu_report, fake, tmp_path):
    run(gpu_report, fake, tmp_path, minutes=0)
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert {part["outcome"] for part in written["parts"]} == {"skipped"}
    assert all("raise --minutes" in part["why"] for part in written["parts"])
    assert sorted(os.listdir(tmp_path)) == ["gpu.html", "gpu.json"]


def test_data_that_cannot_be_created_fails_only_its_part(gpu_report, fake, tmp_path, monkeypatch):
    def full(folder, count, row_bytes):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(gpu_report.data, "write_rows", full)
    _, parts = run(gpu_report, fake, tmp_path, wanted=lambda name: name.startswith("copies"))
    assert parts["data: rows"]["outcome"] == "failed" and parts["data: rows"]["found"]["rows"] == 4
    assert (parts["copies: bare"]["outcome"], parts["copies: the loader"]["outcome"]) == ("passed", "skipped")


def test_scratch_folders_of_ended_processes_are_removed(gpu_report, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_report.setting.tempfile, "gettempdir", lambda: str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"gpu-report-{gone.pid}-abcd1234", f"gpu-report-{os.getpid()}-abcd1234", "gpu-report-of-mine"]
    for name in names:
        (tmp_path / name).mkdir()
    with gpu_report.setting.scratch_folder(1) as folder:
        assert folder.parent == tmp_path and sorted(os.listdir(tmp_path)) == sorted([*names[1:], folder.name])
    assert sorted(os.listdir(tmp_path)) == sorted(names[1:])


def test_parts_in_separate_processes_end_soon_after_the_time_limit(gpu_report, monkeypatch):
    report, limits = gpu_report.report, []
    monkeypatch.setattr(report.outcome, "apart", lambda part, seconds: limits.append(seconds) or {"outcome": "passed", "found": {}})
    found = report.Report(1, lambda document: None, isolated=True)
    found.run("short", dict, 45)
    found.run("long", dict, 1000)
    assert limits[0] == 45 and report.GRACE_SECONDS < limits[1] <= 60 + report.GRACE_SECONDS
    scale = gpu_report.scale
    assert max(scale.Scale(quick=True).limits_seconds.values()) == scale.QUICK_LIMIT_SECONDS


def test_measurements_of_the_decoder_end_at_the_time_limit(gpu_report, fake):
    _, know, *_ = fake
    files = gpu_report.data.synthetic(4, 60, 50)
    know(files)
    calls = iter(range(100))
    found = gpu_report.nvjpeg.alone(gpu_report.scale.Scale(quick=True), files, lambda: next(calls) >= 2)
    assert found["cut_short"] and len(found["rates"]) == 2


def test_a_rate_that_the_driver_or_the_library_rejects_is_reported_and_the_remaining_rates_stay(gpu_report, fake):
    _, know, driver, nvjpeg = fake
    files = gpu_report.data.synthetic(4, 80, 70)
    know(files)
    nvjpeg.fail("nvjpegDecodeBatchedEx", 3)
    driver.fail("cuMemAlloc_v2", 2)
    rates = gpu_report.nvjpeg.alone(gpu_report.scale.Scale(quick=True), files)["rates"]
    failed = [rate["failed"] for rate in rates if "failed" in rate]
    assert failed == ["cuMemAlloc_v2 answered 2", "nvjpegDecodeBatchedEx answered 3"] and len(rates) > 10
