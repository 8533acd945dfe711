"""The scripts of the bench's scenario `dropin`, on a data set of a few samples: each times its subject."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from forebay.streaming import MDSWriter

SCRIPTS = pathlib.Path(__file__).parents[3] / "bench" / "scripts"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench") / "data"
    columns = {"number": "int", "tokens": "ndarray:uint16:8"}
    with MDSWriter(out=str(folder), columns=columns, size_limit=1 << 9) as writer:
        for number in range(40):
            writer.write({"number": number, "tokens": np.full(8, number, np.uint16)})
    return str(folder)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The scripts in one folder, as the bench unpacks them."""
    folder = tmp_path_factory.mktemp("scripts")
    for script in [SCRIPTS / "child.py", *(SCRIPTS / "dropin").iterdir()]:
        (folder / script.name).write_text(script.read_text())
    return folder


CHILDREN = """
import json, os, runpy, sys
# Once for all children. The import of either takes longer than a child.
import streaming, forebay.streaming

for script, side, config, epochs, out in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT), 1)
        reads, writes = os.pipe()
        os.write(writes, b"epoch\\n" * epochs)
        os.close(writes)
        os.dup2(reads, 0)
        sys.argv = [script, side, json.dumps(config)]
        sys.stdin = os.fdopen(0)
        runpy.run_path(script, run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)
"""

WAYS = ("loader", "index", "local", "reader")

CASES = {
    **{f"{side}, {way}": (side, 2, {"way": way}) for side in ("ours", "reference") for way in WAYS},
    "ready": ("ready", 2, {"way": "loader", "workers": 2}),
    "a batch": ("ours", 1, {"way": "loader", "workers": 1, "batches_max": 1}),
}
"""Side, number of epochs, and configuration."""


@pytest.fixture(scope="module")
def events(scripts, folder, tmp_path_factory):
    """The events of each case."""
    out = tmp_path_factory.mktemp("events")
    common = {"cpus": sorted(os.sched_getaffinity(0)), "batch": 4, "workers": 0, "fresh": False, "batches_max": None, "data": folder}
    cases = [
        (str(scripts / "child.py"), side, {**common, **config}, epochs, str(out / name))
        for name, (side, epochs, config) in CASES.items()
    ]
    subprocess.run([sys.executable, "-c", CHILDREN], input=json.dumps(cases), text=True, check=True, timeout=600)
    return {name: [json.loads(line) for line in (out / name).read_text().splitlines()] for name in CASES}


@pytest.mark.parametrize("way", WAYS)
def test_both_loaders_deliver_the_same_samples(events, way):
    found = {side: events[f"{side}, {way}"] for side in ("ours", "reference")}
    for side, said in found.items():
        assert [one["event"] for one in said] == ["ready", "first", "epoch", "epoch"], said
        assert [one["items"] for one in said[2:]] == [40, 40]
        assert 0 < said[1]["open_seconds"] < said[1]["seconds"]
        assert said[2]["first_seconds"] == said[1]["seconds"] < said[2]["seconds"]
    what = [{key: said[1][key] for key in ("shape", "dtype", "mean")} for said in found.values()]
    assert what[0] == what[1]


def test_the_bare_dataloader_delivers_the_same_number_of_samples(events):
    assert [one.get("items") for one in events["ready"][2:]] == [40, 40]
    assert [one.get("items") for one in events["a batch"][2:]] == [4]
