"""Parts of the report in separate processes. All of it runs in a Python without torch that the tests start:
pytest's own process has run threads that do not outlive a fork.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from fake_cuda import compile_decoder, compile_storage
from PIL import Image

TESTS = pathlib.Path(__file__).parent
SCRIPTS = TESTS.parent / "scripts"

TRIVIAL = """
import json, os, pathlib, signal, subprocess, sys, time
import numpy as np
from gpu_report import __main__ as main, frameworks, isolated, outcome, parts, report

out = pathlib.Path(sys.argv.pop(1))

def remember(*pids):
    new = out / "pids.new"
    new.write_text(json.dumps(pids))
    os.replace(new, out / "pids")

def hangs():
    print("from the part that hangs", flush=True)
    remember(os.getpid(), subprocess.Popen(["sleep", "60"]).pid)
    time.sleep(60)
"""

PARTS = """
def skips():
    raise outcome.Skipped("nothing to see")

def raises():
    raise ValueError("as it must")

def crashes():
    os.kill(os.getpid(), signal.SIGSEGV)

def leaves_a_child():
    # The grandchild also holds the pipe; it ends only if the whole process group is ended.
    if (child := os.fork()) == 0:
        time.sleep(60)
    return {"child": child}

def counts_and_hangs():
    for number in range(3):
        outcome.so_far({"rows": list(range(number))})
    time.sleep(60)

def finds_and_raises():
    outcome.so_far({"worst": 7})
    raise ValueError("too much")

def talks():
    os.write(2, b"from a library\\n")
    print("x" * 100_000)
    print("the last word")

def hangs_at_its_end():
    os._exit = lambda code: time.sleep(60)
    return {"number": 1}

isolated.LEAVE_SECONDS = 0.2
found = report.Report(5, lambda document: None, isolated=True)
found.describe("machine", lambda: {"gpu": "none"})
found.run("returns", lambda: {"single": np.float32(1.5), "whole": np.int64(3), "many": np.arange(3), "pair": (1, 2)})
found.run("skips", skips)
found.run("raises", raises)
found.run("crashes", crashes)
found.run("exits", lambda: sys.exit(3))
found.run("hangs", hangs, 4)
found.run("large", lambda: {"text": "x" * 1_000_000})
found.run("cannot be written", lambda: {"what": object()})
found.run("leaves a child", leaves_a_child)
found.run("hangs at its end", hangs_at_its_end)
found.run("counts and hangs", counts_and_hangs, 4)
found.run("finds and raises", finds_and_raises)
found.run("talks", talks)
found.run("last", lambda: {"pid": os.getpid(), "parent": os.getppid()})
(out / "found").write_text(json.dumps({"pid": os.getpid(), **found.document()}))
"""

PROGRAM = """
def run(framework, scale, photographs, *, minutes, keep, wanted, isolated, spent_seconds, out, arguments):
    found = report.Report(minutes, keep, wanted, isolated, spent_seconds)
    found.run("returns", lambda: {"number": 1})
    found.run("hangs", hangs)
    return found.document()

frameworks.Torch, parts.run = lambda: None, run
sys.exit(main.main())
"""

STAND_IN = """
import functools, sys
from gpu_report import __main__ as main, frameworks, parts
from test_gpu_report import fakes

framework, know, *_ = fakes()
frameworks.Torch, parts.run = lambda: framework, functools.partial(parts.run, know=know)
sys.exit(main.main())
"""


def start(script, *arguments, **environment):
    paths = os.pathsep.join([str(SCRIPTS), str(TESTS), *sys.path])
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths, **environment}, **pipes)


def is_alive(pid):
    try:
        # The state follows the name, which may contain any character.
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def assert_gone(pids):
    """Waits until the processes have ended: a signal takes effect with a delay."""
    end = time.monotonic() + 600
    while any(map(is_alive, pids)):
        assert time.monotonic() < end, "a process is still there"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def trivial(tmp_path_factory):
    """Outcomes of the trivial parts, by name, and the remaining lines."""
    out = tmp_path_factory.mktemp("trivial")
    process = start(TRIVIAL + PARTS, out)
    output = process.communicate()
    assert process.returncode == 0, output
    found = json.loads((out / "found").read_text())
    return {part["name"]: part for part in found["parts"]}, found, output, json.loads((out / "pids").read_text())


def test_every_part_has_its_own_outcome(trivial):
    parts, found, *_ = trivial
    assert {name: (part["outcome"], part.get("why")) for name, part in parts.items()} == {
        "returns": ("passed", None),
        "skips": ("skipped", "nothing to see"),
        "raises": ("failed", "ValueError: as it must"),
        "crashes": ("failed", "ended by signal SIGSEGV"),
        "exits": ("failed", "ended with status 1 and no result"),
        "hangs": ("failed", "took longer than 4 seconds"),
        "large": ("passed", None),
        "cannot be written": ("failed", "TypeError: object cannot be stored"),
        "leaves a child": ("passed", None),
        "hangs at its end": ("passed", None),
        "counts and hangs": ("failed", "took longer than 4 seconds"),
        "finds and raises": ("failed", "ValueError: too much"),
        "talks": ("passed", None),
        "last": ("passed", None),
    }
    assert found["machine"]["gpu"] == "none"


def test_the_result_of_a_part_is_returned_unchanged(trivial):
    parts, found, *_ = trivial
    assert parts["returns"]["found"] == {"single": 1.5, "whole": 3, "many": [0, 1, 2], "pair": [1, 2]}
    assert parts["large"]["found"] == {"text": "x" * 1_000_000}
    assert parts["hangs at its end"]["found"] == {"number": 1}
    assert parts["last"]["found"]["parent"] == found["pid"] != parts["last"]["found"]["pid"]


def test_the_stack_of_a_hang_or_crash_is_reported(trivial):
    parts, _, (stdout, stderr), _ = trivial
    assert "Segmentation fault" in parts["crashes"]["stack"] and "in crashes" in parts["crashes"]["stack"]
    assert "in hangs" in parts["hangs"]["stack"] and parts["hangs"]["stack"] in stderr
    assert stdout.count("from the part that hangs\n") == 1 and "ValueError: as it must" in stdout
    assert "in raises" in parts["raises"]["traceback"]
    assert not any("stack" in part for part in parts.values() if part["outcome"] == "passed")


def test_results_before_a_crash_or_hang_are_kept(trivial):
    parts, *_ = trivial
    assert parts["counts and hangs"]["found"] == {"rows": [0, 1]} and parts["finds and raises"]["found"] == {"worst": 7}
    assert "found" not in parts["hangs"]


def test_the_end_of_a_part_s_output_is_kept(trivial):
    parts, _, (stdout, _), _ = trivial
    assert parts["hangs"]["output"] == "from the part that hangs\n" and "output" not in parts["returns"]
    assert parts["talks"]["output"].endswith("the last word\n") and len(parts["talks"]["output"]) == 16 << 10
    assert "from a library\n" in stdout and "x" * 100_000 in stdout


def test_all_processes_of_a_part_end_with_it(trivial):
    parts, _, _, pids = trivial
    assert_gone([*pids, parts["leaves a child"]["found"]["child"]])


def hanging_program(out):
    """The program with a part that hangs, once it does, and the numbers of that part's processes."""
    process = start(TRIVIAL + PROGRAM, out, "--out", out / "report")
    while not (out / "pids").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process, json.loads((out / "pids").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_ends_the_program_ends_its_part_and_leaves_both_files_whole(tmp_path, number):
    process, pids = hanging_program(tmp_path)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert process.returncode == 1 and f"was ended by {number.name}" in stderr and "Traceback" not in stderr
    assert_gone(pids)
    parts = json.loads((tmp_path / "report/gpu.json").read_text())["parts"]
    assert [(part["name"], part["outcome"]) for part in parts] == [("returns", "passed"), ("hangs", "running")]
    assert "the process ended here" in (tmp_path / "report/gpu.html").read_text()
    assert sorted(os.listdir(tmp_path / "report")) == ["gpu.html", "gpu.json"]


def test_a_part_does_not_outlive_a_program_that_is_killed(tmp_path):
    process, pids = hanging_program(tmp_path)
    process.kill()
    # Processes that the part started are not ended here: workers of real parts watch their parent themselves.
    assert_gone(pids[:1])
    os.kill(pids[1], signal.SIGKILL)
    process.communicate()


def test_a_signal_to_the_script_reaches_the_program(tmp_path):
    python, wheel = tmp_path / "python", tmp_path / "forebay.whl"
    program = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print('runs', flush=True); time.sleep(60)"
    # It has all packages, and the program waits for its end.
    python.write_text(f'#!/bin/sh\n[ "$2" != gpu_report ] || exec {sys.executable} -c "{program}"\n')
    python.chmod(0o755)
    wheel.write_bytes(b"")
    environment = {**os.environ, "PYTHON": str(python), "WHEEL": str(wheel), "TMPDIR": str(tmp_path)}
    script = subprocess.Popen([SCRIPTS / "gpu_report.sh"], env=environment, stdout=subprocess.PIPE, text=True)
    assert script.stdout.readline() == "runs\n"
    script.terminate()
    assert script.wait() == 7
    script.stdout.close()
    assert sorted(os.listdir(tmp_path)) == ["forebay.whl", "python"]


def test_the_whole_program_runs_with_fakes(cuda_library, tmp_path):
    decoder, storage = (compile_library(tmp_path, cuda_library) for compile_library in (compile_decoder, compile_storage))
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    rng = np.random.default_rng(0)
    for number in range(48):
        Image.fromarray(rng.integers(0, 256, (70, 80, 3), np.uint8)).save(photographs / f"{number}.jpg")
    process = start(
        STAND_IN,
        *("--quick", "--out", tmp_path / "report", "--photographs", photographs),
        FOREBAY_CUDA_LIBRARY=str(cuda_library),
        FOREBAY_NVJPEG_LIBRARY=str(decoder),
        FOREBAY_CUFILE_LIBRARY=str(storage),
    )
    output = process.communicate()
    assert process.returncode == 0, output
    written = json.loads((tmp_path / "report/gpu.json").read_text())
    outcomes = {part["name"]: part["outcome"] for part in written["parts"]}
    assert [name.partition(",")[0] for name in outcomes if "photographs" in name] == [
        *["data: photographs"],
        *["loader"] * 3,
        *["peer"] * 2,
        "nvJPEG alone",
    ]
    assert {outcome for name, outcome in outcomes.items() if name.startswith("check: ")} == {"passed", "skipped"}
    assert not [part for part in written["parts"] if part["outcome"] == "failed"]
    assert {outcomes[name] for name in outcomes if name.startswith(("copies", "nvJPEG alone", "GPUDirect"))} == {"passed"}
    assert {outcomes[name] for name in outcomes if name.startswith(("peer", "resnet18"))} == {"skipped"}
    machine = written["machine"]
    assert machine["gpu"] == "a stand-in" and "shared_memory_bytes" in machine and "--quick" in machine["arguments"]
    agrees = next(part for part in written["parts"] if part["name"] == "check: device decode agrees")["found"]
    assert {name.rpartition("/")[2] for name in agrees["libraries"]} >= {"libcuda.so", "libnvjpeg.so.12"}
    html = (tmp_path / "report/gpu.html").read_text()
    assert "a stand-in" in html and "In short" in html and "DALI" in html
    assert not list(pathlib.Path(tempfile.gettempdir()).glob(f"gpu-report-{process.pid}-*"))
