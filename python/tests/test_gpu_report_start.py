"""Start of the report, from the script and from the command line, and the errors if it cannot start."""

import functools
import os
import subprocess
import sys
import zipfile

import pytest
from test_gpu_report import SCRIPTS, gpu_report  # noqa: F401


def test_without_a_gpu_the_program_lists_its_requirements(tmp_path):
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SCRIPTS), *sys.path]), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "gpu_report", "--quick", "--out", tmp_path / "report"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert asked.returncode == 1 and "gpu-report needs torch and a GPU that torch sees: torch sees no CUDA" in asked.stderr


def test_a_folder_without_photographs_is_an_error_at_once(gpu_report, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu_report", "--photographs", str(tmp_path), "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        gpu_report.main.main()
    assert "there is no JPEG in" in capsys.readouterr().err


def test_without_git_the_commit_is_unknown_unless_it_is_an_argument(gpu_report, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert gpu_report.surroundings._commit() == "unknown"
    monkeypatch.setenv("FOREBAY_COMMIT", "abc")
    assert gpu_report.surroundings._commit() == "abc"


def test_the_script_takes_the_package_from_a_wheel_and_lists_its_requirements(tmp_path):
    pytest.importorskip("torch")
    wheel = tmp_path / "forebay.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("forebay/__init__.py", "print('from the wheel')\n")
    environment = {**os.environ, "PYTHON": sys.executable, "WHEEL": str(wheel), "TMPDIR": str(tmp_path)}
    command = [SCRIPTS / "gpu_report.sh", "--help"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    assert "from the wheel" in asked.stdout and "Requirements (nothing is downloaded)" in asked.stdout
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
def test_the_script_prints_why_it_does_not_start(tmp_path, environment, sentence):
    python = tmp_path / "sh"
    python.write_text('#!/bin/sh\necho "a message of a library"\necho "sh: 0: cannot open $2" >&2\nexit 3\n')
    python.chmod(0o755)
    left = {name: value for name, value in os.environ.items() if name not in ("HOME", "PYTHON", "WHEEL")}
    left |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable, **environment}
    asked = subprocess.run([SCRIPTS / "gpu_report.sh"], env=left, capture_output=True, text=True)
    assert asked.returncode == 1 and f"error: {sentence}" in asked.stderr, asked.stderr


def test_the_time_counts_from_the_call_of_the_script(gpu_report, monkeypatch):
    report, main = gpu_report.report, gpu_report.main
    monkeypatch.setenv("GPU_REPORT_BEGUN", str(int(main.time.time() - 61)))
    assert 60 < main._spent_seconds() < 90
    assert report.Report(1, print, spent_seconds=main._spent_seconds()).is_over()
    monkeypatch.delenv("GPU_REPORT_BEGUN")
    assert main._spent_seconds() == 0 and not report.Report(1, print).is_over()


def test_a_full_disk_does_not_end_the_report(gpu_report, tmp_path, capsys):
    report, main = gpu_report.report, gpu_report.main
    (tmp_path / "file").write_text("")
    found = report.Report(1, functools.partial(main.write, out=tmp_path / "file"))
    found.run("a part", dict)
    assert found.parts[0]["outcome"] == "passed" and "could not be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", ""], "name of the folder is empty"),
        (["--minutes", "0"], "not a positive time"),
        (["--photographs", "nowhere"], "no folder nowhere"),
        (["--out", "file"], "--out"),
    ],
)
def test_a_wrong_argument_is_an_error_at_once(gpu_report, monkeypatch, tmp_path, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(sys, "argv", ["gpu_report", *arguments])
    with pytest.raises(SystemExit) as ended:
        gpu_report.main.main()
    assert ended.value.code == 2 and sentence in capsys.readouterr().err
