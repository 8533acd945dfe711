"""The report of a machine with a GPU, over the stand-ins: all of it runs, and what peers need is said to be missing. Peers and
training, which need torch's own device, run on the CPU.
"""

import functools
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys
import types
import zipfile

import numpy as np
import pytest
from fake_cuda import Consumer, Driver, NvJpeg, compile_decoder, compile_storage
from PIL import Image

SCRIPTS = pathlib.Path(__file__).parents[1] / "scripts"


@pytest.fixture
def gpu_report(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("gpu_report.report"), importlib.import_module("gpu_report.__main__")
    for name in [name for name in sys.modules if name.partition(".")[0] == "gpu_report"]:
        del sys.modules[name]


class StandIn:
    """Batches as DLPack's consumers have them."""

    framework = "dlpack"

    def __init__(self, driver):
        self.driver = driver

    def array(self, tensor):
        consumer = Consumer(self.driver, tensor)
        array = consumer.array()
        consumer.free()
        return array

    def synchronize(self):
        self.driver.run()

    def describe(self):
        return {"gpu": "a stand-in"}


def stand_ins():
    """Over the libraries that the environment names: a framework, what tells the decoder of files, the driver, and the decoder."""
    driver, nvjpeg = Driver(os.environ["FOREBAY_CUDA_LIBRARY"]), NvJpeg(os.environ["FOREBAY_NVJPEG_LIBRARY"])
    nvjpeg.engines(2)
    driver.waits_move(True)

    def know(files):
        for file in files:
            nvjpeg.add(file, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))

    return StandIn(driver), know, driver, nvjpeg


@pytest.fixture
def stand_in(cuda_library, monkeypatch):
    decoder = compile_decoder(cuda_library.parent, cuda_library)
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(cuda_library))
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(decoder))
    monkeypatch.setenv("FOREBAY_CUFILE_LIBRARY", str(compile_storage(cuda_library.parent, cuda_library)))
    framework, know, driver, nvjpeg = stand_ins()
    yield framework, know, driver, nvjpeg
    driver.waits_move(False)


def test_everything_runs_and_lands_in_both_files(gpu_report, stand_in, tmp_path):
    report, main = gpu_report
    framework, know, _, nvjpeg = stand_in
    found = report.run(framework, report.Scale(quick=True), know=know, keep=functools.partial(main.write, out=tmp_path))
    assert not report.has_failed(found)
    outcomes = {part["name"]: part["outcome"] for part in found["parts"]}
    assert [outcome for name, outcome in outcomes.items() if name.startswith("check: ")] == ["passed"] * 7
    assert outcomes["copies"] == outcomes["nvJPEG alone"] == "passed"
    direct = next(part for part in found["parts"] if part["name"] == "GPUDirect Storage")
    assert [row["rows_gpu_direct"] > 0 for row in direct["found"]["rows"]] == [False, True] and direct["outcome"] == "passed"
    agrees = next(part for part in found["parts"] if part["name"] == "check: device decode agrees")
    assert agrees["found"]["nearest_upsampling"] == "smooth"
    assert outcomes["peer: torchvision"] == outcomes["resnet18 in bf16: forebay, device_decode"] == "skipped"
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert written == found and written["machine"]["gpu"] == "a stand-in"
    rates = next(part for part in written["parts"] if part["name"] == "nvJPEG alone")["found"]["rates"]
    assert {rate["engines_share"] for rate in rates} == {0.0, 0.5, 1.0} and all("pictures_per_s" in rate for rate in rates)
    html = (tmp_path / "gpu.html").read_text()
    assert "device decode agrees" in html and "there is no torch with CUDA" in html
    assert nvjpeg.live() == 0


def test_a_check_that_fails_is_told_and_ends_nothing_else(gpu_report, stand_in, tmp_path):
    report, main = gpu_report
    framework, know, driver, _ = stand_in
    array = framework.array
    # Somebody reads pictures upside down.
    framework.array = lambda tensor: array(tensor)[:, :, ::-1] if len(tensor.shape) == 4 else array(tensor)
    found = report.run(framework, report.Scale(quick=True), know=know, keep=functools.partial(main.write, out=tmp_path))
    assert report.has_failed(found)
    outcomes = {part["name"]: part["outcome"] for part in found["parts"]}
    assert outcomes["check: copies are exact"] == outcomes["check: device decode agrees"] == "failed"
    assert outcomes["copies"] == "passed"
    assert "grey levels differ" in (tmp_path / "gpu.html").read_text()


def test_a_run_that_is_ended_leaves_which_part_it_was_and_another_goes_on(gpu_report, stand_in, tmp_path):
    report, main = gpu_report
    framework, know, *_ = stand_in
    keep = functools.partial(main.write, out=tmp_path)
    names = []

    def ended_in_copies(document):
        keep(document)
        names.append(document["parts"][-1]["name"])
        if names[-1] == "copies":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report.run(framework, report.Scale(quick=True), know=know, keep=ended_in_copies)
    last = json.loads((tmp_path / "gpu.json").read_text())["parts"][-1]
    assert (last["name"], last["outcome"]) == ("copies", "running")
    assert "the process ended here" in (tmp_path / "gpu.html").read_text()
    rest = report.run(framework, report.Scale(quick=True), know=know, wanted=lambda name: name == "nvJPEG alone")
    assert [(part["name"], part["outcome"]) for part in rest["parts"]] == [("nvJPEG alone", "passed")]


def test_without_a_gpu_the_program_says_what_it_needs(tmp_path):
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPTS), *sys.path]), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "gpu_report", "--quick", "--out", tmp_path / "report"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert asked.returncode == 1 and "gpu-report needs torch and a GPU that it sees: torch sees no CUDA" in asked.stderr


def test_colours_that_a_decoder_repeats_are_told(gpu_report, stand_in, tmp_path):
    framework, know, _, nvjpeg = stand_in
    data, checks = (importlib.import_module(f"gpu_report.{name}") for name in ("data", "checks"))
    file = data.colour_edges()
    smooth, plain = data.upsampled(file)
    as_pillow_has_it = np.asarray(Image.open(io.BytesIO(file)).convert("RGB")).astype(int)
    assert np.abs(smooth - as_pillow_has_it).max() <= 1 and np.abs(smooth - plain).mean() > 5
    seen = {}
    for name, pixels in (("plain", plain), ("neither", 255 - smooth), ("smooth", smooth)):
        nvjpeg.add(file, np.uint8(pixels))
        seen[name] = checks._nearest_upsampling(tmp_path, framework, "cuda:0", 8)
    assert seen == {name: name for name in seen}


def test_photographs_may_be_progressive_or_no_photographs_at_all(gpu_report, stand_in, tmp_path):
    report, _ = gpu_report
    _, know, *_ = stand_in
    data = importlib.import_module("gpu_report.data")
    picture = Image.fromarray(data.photograph(1, 80, 70, 1.4))
    picture.save(tmp_path / "a.jpg", quality=90)
    picture.save(tmp_path / "b.JPEG", quality=90, progressive=True)
    picture.convert("CMYK").save(tmp_path / "c.jpg")
    picture.save(tmp_path / "d.jpg", "PNG")
    (tmp_path / "e.jpg").write_bytes(b"no picture")
    files, sizes = data.photographs(tmp_path, 10)
    assert files == [(tmp_path / name).read_bytes() for name in ("a.jpg", "b.JPEG")] and sizes == [(80, 70)] * 2
    know(files)
    sets = {"all": (files, sizes), "progressive alone": (files[1:], sizes[1:])}
    found = report._nvjpeg(report.Scale(quick=True), sets, lambda: False)
    assert found["progressive_left_out"] == 2
    assert found["rates"] and all(rate["pictures"] == "all" and rate["pictures_per_s"] > 0 for rate in found["rates"])


def test_a_folder_without_photographs_is_told_at_once(gpu_report, monkeypatch, tmp_path, capsys):
    _, main = gpu_report
    monkeypatch.setattr(sys, "argv", ["gpu_report", "--photographs", str(tmp_path)])
    with pytest.raises(SystemExit):
        main.main()
    assert "there is no JPEG in" in capsys.readouterr().err


def test_workers_are_so_many_as_shared_memory_has_room_for(gpu_report, monkeypatch, tmp_path):
    figures = importlib.import_module("gpu_report.figures")
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


def test_peers_and_training_run_with_torch(gpu_report, tmp_path):
    report, _ = gpu_report
    pytest.importorskip("torchvision")
    frameworks, data = (importlib.import_module(f"gpu_report.{name}") for name in ("frameworks", "data"))
    scale = report.Scale(quick=True)
    scale.batch, scale.side, scale.steps, scale.loader_seconds, scale.workers = 4, 32, 2, 0.05, 1
    files, _ = data.synthetic(9, 60, 50)
    shards = data.write_shards(tmp_path / "shards", files)
    framework = frameworks.Torch("cpu")
    found = report.Report(10, lambda document: None)
    report.peers_and_training(found, framework, scale, tmp_path, shards, files, "cpu")
    parts = {part["name"]: part for part in found.document()["parts"]}
    assert {name: part.get("why") for name, part in parts.items() if part["outcome"] != "passed"} == {}
    peers = [parts[name]["found"] for name in ("peer: torchvision", "peer: DataLoader with Pillow")]
    steps = [parts[f"resnet18 in bf16: {name}"]["found"] for name in ("synthetic", "forebay", "forebay, device_decode", "DataLoader")]
    assert all(figure["pictures_per_s"] > 0 for figure in peers + steps)
    assert [figure.get("workers") for figure in peers + steps] == [None, 1, None, None, None, 1]
    assert all(figure["steps"] == 2 and 0 <= figure["share_waiting_for_data"] < 1 for figure in steps)


def test_without_torchvision_its_parts_are_left_out(gpu_report, monkeypatch, tmp_path):
    report, _ = gpu_report
    pytest.importorskip("torch")
    framework = importlib.import_module("gpu_report.frameworks").Torch("cpu")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    found = report.Report(10, lambda document: None)
    report.peers_and_training(found, framework, report.Scale(quick=True), tmp_path, "nowhere", [], "cpu")
    assert all(part["outcome"] == "skipped" and "torchvision is missing" in part["why"] for part in found.parts)


def test_parts_for_which_there_is_no_time_are_left_out_and_both_files_are_there(gpu_report, stand_in, tmp_path):
    report, main = gpu_report
    framework, know, *_ = stand_in
    keep = functools.partial(main.write, out=tmp_path)
    report.run(framework, report.Scale(quick=True), know=know, minutes=0, keep=keep)
    written = json.loads((tmp_path / "gpu.json").read_text())
    assert {part["outcome"] for part in written["parts"]} == {"skipped"}
    assert all("raise --minutes" in part["why"] for part in written["parts"])
    assert sorted(os.listdir(tmp_path)) == ["gpu.html", "gpu.json"]


def test_no_part_in_a_process_of_its_own_goes_on_for_long_after_the_time_is_over(gpu_report, monkeypatch):
    report, _ = gpu_report
    limits = []
    monkeypatch.setattr(report.outcome, "apart", lambda part, seconds: limits.append(seconds) or {"outcome": "passed", "found": {}})
    found = report.Report(1, lambda document: None, isolated=True)
    found.run("short", dict, 45)
    found.run("long", dict, 1000)
    assert limits[0] == 45 and report.GRACE_SECONDS < limits[1] <= 60 + report.GRACE_SECONDS
    assert max(report.Scale(quick=True).limits_seconds.values()) == report.QUICK_LIMIT_SECONDS


def test_rates_of_the_decoder_end_when_the_time_is_over(gpu_report, stand_in):
    report, _ = gpu_report
    _, know, *_ = stand_in
    data = importlib.import_module("gpu_report.data")
    files, sizes = data.synthetic(4, 60, 50)
    know(files)
    calls = iter(range(100))
    found = report._nvjpeg(report.Scale(quick=True), {"few": (files, sizes)}, lambda: next(calls) >= 2)
    assert found["cut_short"] and len(found["rates"]) == 2


def test_without_git_the_commit_is_not_known(gpu_report, monkeypatch):
    report, _ = gpu_report
    monkeypatch.setenv("PATH", "/nowhere")
    assert report._commit() == "unknown"


def test_the_script_takes_the_package_from_a_wheel_and_says_what_it_needs(tmp_path):
    pytest.importorskip("torch")
    wheel = tmp_path / "forebay.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("forebay/__init__.py", "print('from the wheel')\n")
    environment = {**os.environ, "PYTHON": sys.executable, "WHEEL": str(wheel), "TMPDIR": str(tmp_path)}
    command = [SCRIPTS / "gpu_report.sh", "--help"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    assert "from the wheel" in asked.stdout and "What must be there beforehand" in asked.stdout
    assert os.listdir(tmp_path) == ["forebay.whl"]
    (tmp_path / "forebay.whl").write_bytes(b"")
    assert subprocess.run(command, env=environment, capture_output=True).returncode != 0


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"PYTHON": "/no/python"}, "there is no program /no/python"),
        ({"PYTHON": "sh"}, "sh has no numpy, Pillow or torch that can be used (sh: 0: cannot open import numpy, PIL, torch)"),
        ({"WHEEL": "nowhere"}, "there is no file nowhere"),
    ],
)
def test_the_script_says_why_it_does_not_start(tmp_path, environment, sentence):
    python = tmp_path / "sh"
    python.write_text('#!/bin/sh\necho "what a library says"\necho "sh: 0: cannot open $2" >&2\nexit 3\n')
    python.chmod(0o755)
    left = {name: value for name, value in os.environ.items() if name not in ("HOME", "PYTHON", "WHEEL")}
    left |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable, **environment}
    asked = subprocess.run([SCRIPTS / "gpu_report.sh"], env=left, capture_output=True, text=True)
    assert asked.returncode == 1 and f"error: {sentence}" in asked.stderr, asked.stderr


def test_the_time_counts_from_the_call_of_the_script(gpu_report, monkeypatch):
    report, main = gpu_report
    monkeypatch.setenv("GPU_REPORT_BEGUN", str(int(main.time.time() - 61)))
    assert 60 < main._spent_seconds() < 90
    assert report.Report(1, print, spent_seconds=main._spent_seconds()).is_over()
    monkeypatch.delenv("GPU_REPORT_BEGUN")
    assert main._spent_seconds() == 0 and not report.Report(1, print).is_over()


def test_a_disk_that_is_full_ends_nothing(gpu_report, tmp_path, capsys):
    report, main = gpu_report
    (tmp_path / "file").write_text("")
    found = report.Report(1, functools.partial(main.write, out=tmp_path / "file"))
    found.run("goes on", dict)
    assert found.parts[0]["outcome"] == "passed" and "could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", ""], "it is empty"),
        (["--minutes", "0"], "no time to measure in"),
        (["--photographs", "nowhere"], "no folder nowhere"),
        (["--out", "file"], "--out"),
    ],
)
def test_a_wrong_argument_is_told_at_once(gpu_report, monkeypatch, tmp_path, capsys, arguments, sentence):
    _, main = gpu_report
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["gpu_report", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2 and sentence in capsys.readouterr().err
