"""A small `make run`, and the package's docstrings."""

import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import forebay as fb

ROOT = pathlib.Path(__file__).parents[2]
DEMO = ROOT / "python" / "examples" / "demo"


def test_the_demo_trains_and_writes_its_report(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("torchvision")
    command = [sys.executable, str(DEMO), "--folder", str(tmp_path / "demo"), "--report", str(tmp_path / "page.html")]
    command += ["--pictures", "48", "--batch-size", "8", "--steps", "2"]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert "training: 2 steps" in first.stdout and "cached epoch: 48 images" in first.stdout
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 7 and "nan" not in page and "http" not in page


def test_the_report_s_rate_of_steady_batches_is_constant():
    sys.path.insert(0, str(DEMO))
    try:
        from report import rates
    finally:
        sys.path.remove(str(DEMO))
    # A batch each tenth of a second is a flat line; the incomplete group at the end is dropped.
    steady = rates([(0.1 * i, 64) for i in range(1, 103)], bins=20)
    assert len(steady) == 17 and [rate for _, rate in steady] == pytest.approx([640] * 17)
    assert rates([(0.5, 8)]) == [(0.25, 16)] and rates([]) == []


# Several runs, because the imports take longer: the status and the output of each.
RUNS = """
import contextlib, io, json, runpy, sys
demo, results = sys.argv[1], []
for arguments in json.loads(sys.argv[2]):
    sys.argv, shown, status = [demo, *arguments], io.StringIO(), 0
    with contextlib.redirect_stdout(shown):
        try:
            runpy.run_path(demo, run_name="__main__")
        except SystemExit as end:
            status = end.code
    results.append([status, shown.getvalue()])
print(json.dumps(results))
"""


def test_the_user_s_own_data_is_read_and_unreadable_data_is_a_message_without_a_traceback(tmp_path, packed):
    pytest.importorskip("matplotlib")
    common = ["--report", str(tmp_path / "page.html"), "--batch-size", "8", "--steps", "0", "--data"]
    runs = [[*common, packed], [*common, str(tmp_path / "none")], [*common, packed, "--image-column", "jpg"]]
    done = subprocess.run([sys.executable, "-c", RUNS, str(DEMO), json.dumps(runs)], capture_output=True, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    (status, shown), *unreadable = json.loads(done.stdout)
    assert status == 0 and "cached epoch: 200 images" in shown and "photos" not in shown
    assert (tmp_path / "page.html").exists()
    for (status, _), part in zip(unreadable, ("index.json", "no such column"), strict=True):
        assert status.startswith("\nerror: ") and part in status


def test_every_public_name_has_a_docstring_and_the_loader_documents_every_argument():
    for name in fb.__all__:
        value = getattr(fb, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
    for name in inspect.signature(fb.Loader).parameters:
        assert re.search(rf"^    +{name}: ", fb.Loader.__doc__, re.M), name


def test_the_package_has_a_py_typed_marker():
    folder = pathlib.Path(fb.__file__).parent
    assert (folder / "py.typed").exists() and os.path.exists(folder / "_forebay.pyi")


def test_the_report_shows_work_and_names_the_bottleneck():
    pytest.importorskip("matplotlib")
    sys.path.insert(0, str(DEMO))
    try:
        import report
    finally:
        sys.path.remove(str(DEMO))
    idle = {"busy_s": 0.0, "input_s": 900.0, "output_s": 0.0, "items": 0, "bytes": 0}
    stages = {
        "unpack": idle,
        "read": idle | {"busy_s": 1.5, "items": 8},
        "decode": idle | {"busy_s": 70.0, "items": 8},
    }
    stats = {"stages": stages, "counters": {}, "notes": [], "bottleneck": "decoding: its threads were busy 99% of the time"}
    phase = report.Phase("cached epoch", "", 1.0, 8, [(0.5, 8)], stats, 0.5)
    page = report.render(report.Results("t", [], [phase], None, ""))
    assert "<b>Bottleneck</b>: decoding: its threads were busy 99% of the time" in page
    chart = page[page.index("Bottleneck") : page.index("<details>")]
    assert chart.index(">decode<") < chart.index(">read<") and "unpack" not in chart and "900" not in chart
