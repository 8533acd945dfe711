"""The report of a machine with a GPU, over the stand-ins: all of it runs, and what peers need is said to be missing."""

import importlib
import io
import json
import pathlib
import sys

import numpy as np
import pytest
from fake_cuda import Consumer, Driver, NvJpeg, compile_decoder
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


@pytest.fixture
def stand_in(cuda_library, monkeypatch):
    decoder = compile_decoder(cuda_library.parent, cuda_library)
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(cuda_library))
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(decoder))
    driver, nvjpeg = Driver(cuda_library), NvJpeg(decoder)
    nvjpeg.engines(2)
    driver.waits_move(True)

    def know(files):
        for file in files:
            nvjpeg.add(file, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))

    yield StandIn(driver), know, driver, nvjpeg
    driver.waits_move(False)


def test_everything_runs_and_lands_in_both_files(gpu_report, stand_in, tmp_path):
    report, main = gpu_report
    framework, know, _, nvjpeg = stand_in
    found = report.run(framework, report.Scale(quick=True), know=know)
    assert main.write(found, tmp_path) == 0
    outcomes = {part["name"]: part["outcome"] for part in found["parts"]}
    assert [outcome for name, outcome in outcomes.items() if name.startswith("check: ")] == ["passed"] * 5
    assert outcomes["copies"] == outcomes["nvJPEG alone"] == "passed"
    assert outcomes["peers"] == outcomes["ResNet-50 in bf16"] == "skipped"
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
    found = report.run(framework, report.Scale(quick=True), know=know)
    assert main.write(found, tmp_path) == 1
    outcomes = {part["name"]: part["outcome"] for part in found["parts"]}
    assert outcomes["check: copies are exact"] == outcomes["check: device decode agrees"] == "failed"
    assert outcomes["copies"] == "passed"
    assert "grey levels differ" in (tmp_path / "gpu.html").read_text()


def test_without_a_gpu_the_program_says_what_it_needs(gpu_report, monkeypatch):
    _, main = gpu_report
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_report"])
    with pytest.raises(SystemExit, match="gpu-report needs torch and a GPU"):
        main.main()
