"""Short texts for people: `python -m forebay`, `help(Loader)`, and the line about the bottleneck."""

import importlib.util
import os
import pydoc
import subprocess
import sys

import pytest
from loaders import numbers, ordered

import forebay as fb
from forebay.__main__ import main
from forebay.bottleneck import bottleneck


def test_the_package_as_a_program_names_the_machine_and_its_commands():
    shown = subprocess.run([sys.executable, "-m", "forebay"], check=True, capture_output=True, text=True, timeout=120).stdout
    assert shown.startswith(f"forebay {fb.__version__}, Python ")
    for name in ("CPUs", "NUMA nodes", "memory", "vectors", "io_uring", "locked memory", "open files", "CUDA", "libraries", "stores"):
        assert f"\n{name} " in shown, name
    for command in ("python -m forebay.index", "python -m forebay.streaming.alias"):
        assert command in shown
        assert importlib.util.find_spec(command.split()[-1])


def test_the_program_prints_the_version_alone(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{fb.__version__}\n"


def test_the_program_reports_a_wrong_variable(tmp_path):
    env = {**os.environ, "FOREBAY_VECTORS": "sse9"}
    ended = subprocess.run([sys.executable, "-m", "forebay"], env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and "FOREBAY_VECTORS" in ended.stderr and "Traceback" not in ended.stderr


def test_help_has_lines_of_a_readable_width():
    shown = pydoc.plain(pydoc.render_doc(fb.Loader)).splitlines()
    of_loader = shown[: shown.index(" |  Data descriptors defined here:")]
    assert len(of_loader) < 185
    assert [line for line in shown if len(line) > 124] == []
    assert any("batch_size, drop_last=False" in line for line in of_loader)


def figures(waited=0.0, items=10, **stages):
    """Statistics of ten seconds; `stages` has busy and input seconds."""
    every = dict.fromkeys(("shard", "fetch", "unpack", "publish", "read", "decode", "place"), (0.0, 0.0)) | stages
    table = {name: {"busy_s": busy, "input_s": idle, "output_s": 0.0, "items": 1} for name, (busy, idle) in every.items()}
    table["next"] = {"busy_s": 0.0, "input_s": waited, "output_s": 0.0, "items": items}
    return {"elapsed_s": 10.0, "stages": table}


@pytest.mark.parametrize(
    ("stats", "line"),
    [
        (figures(items=0), "unknown: no batch was delivered yet"),
        (figures(waited=0.1, decode=(5, 5)), "the training step: the loop waited 0.1 of 10.0 s for batches"),
        (figures(waited=4, decode=(9, 1)), "decoding, by the CPUs: its threads were busy 90% of the time, and the loop waited 4.0"),
        (figures(waited=8, decode=(2, 18), fetch=(12, 0), read=(1, 3)), "the network or the store: downloads took 12.0 s"),
        (figures(waited=8, decode=(2, 18), unpack=(6, 0), fetch=(3, 0)), "decompression of shards: it took 6.0 s"),
        (figures(waited=8, decode=(2, 18), publish=(6, 0), fetch=(3, 0)), "the local disk's write rate: checking and writing"),
        (figures(waited=8, decode=(2, 18), read=(1, 9)), "the local disk's read rate: reads waited 9.0 s"),
        (figures(waited=8, decode=(2, 2)), "unclear: decode threads were busy 50% of the time, and the loop waited 8.0 of 10.0 s"),
    ],
)
def test_the_bottleneck_is_one_line(stats, line):
    found = bottleneck(stats)
    assert found.startswith(line) and "\n" not in found


def test_the_figures_of_several_devices_are_divided_by_their_number():
    assert bottleneck(figures(waited=0.8, decode=(9, 1)), loaders=2).startswith("the training step: the loop waited 0.4 of 10.0 s")


def test_stats_begin_with_the_bottleneck(pictures):
    with ordered(pictures) as loader:
        assert loader.stats()["bottleneck"] == "unknown: no batch was delivered yet"
        numbers(loader)
        stats = loader.stats()
    assert list(stats) == ["bottleneck", "elapsed_s", "stages", "counters", "notes"]
    assert " s for batches" in stats["bottleneck"]
