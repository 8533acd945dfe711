"""Short texts for people: `python -m forebay`, `help(Loader)`, and the line about the bottleneck."""

import importlib.util
import os
import pydoc
import re
import subprocess
import sys

from loaders import numbers, ordered

import forebay as fb
from forebay.__main__ import main


def test_the_package_as_a_program_names_the_machine_and_its_commands():
    shown = subprocess.run([sys.executable, "-m", "forebay"], check=True, capture_output=True, text=True, timeout=600).stdout
    assert shown.startswith(f"forebay {fb.__version__}, Python ")
    for name in ("CPUs", "NUMA nodes", "memory", "vectors", "io_uring", "locked memory", "open files", "CUDA", "libraries", "stores"):
        assert f"\n{name} " in shown, name
    stores = shown[shown.index("\nstores ") : shown.index("\nCommands:")]
    assert all(scheme in stores for scheme in ("s3://", "gs://", "azure://", "hf://", "sftp://", "fsspec"))
    assert re.search(r"\nlibraries  .*(no )?tensorflow", shown)
    for command in ("python -m forebay.index", "python -m forebay.streaming.alias"):
        assert command in shown
        assert importlib.util.find_spec(command.split()[-1])


def test_the_program_prints_the_version_alone(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{fb.__version__}\n"


def test_the_program_reports_a_wrong_variable(tmp_path):
    env = {**os.environ, "FOREBAY_VECTORS": "sse9"}
    ended = subprocess.run([sys.executable, "-m", "forebay"], env=env, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 1 and "FOREBAY_VECTORS" in ended.stderr and "Traceback" not in ended.stderr


def test_help_has_lines_of_a_readable_width():
    shown = pydoc.plain(pydoc.render_doc(fb.Loader)).splitlines()
    of_loader = shown[: shown.index(" |  " + "-" * 70)]
    assert of_loader.index(" |  Method resolution order:") <= 100
    assert [line for line in shown if len(line) > 124] == []
    assert any("drop_last=False, shuffle=False" in line for line in of_loader)


def test_stats_begin_with_the_bottleneck(pictures):
    with ordered(pictures) as loader:
        assert loader.stats()["bottleneck"] == "unknown: no batch was delivered yet"
        numbers(loader)
        stats = loader.stats()
    assert list(stats) == ["bottleneck", "elapsed_s", "stages", "counters", "notes"]
    assert " s for batches" in stats["bottleneck"]
