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


def events(scripts, side, epochs=2, **config):
    config = {"cpus": sorted(os.sched_getaffinity(0)), "batch": 4, "workers": 0, "fresh": False, "batches_max": None, **config}
    command = [sys.executable, str(scripts / "child.py"), side, json.dumps(config)]
    child = subprocess.run(command, input="epoch\n" * epochs, capture_output=True, text=True, timeout=120)
    return [json.loads(line) for line in child.stdout.splitlines()]


@pytest.mark.parametrize("way", ["loader", "index", "local", "reader"])
def test_both_loaders_deliver_the_same_samples(scripts, folder, way):
    found = {side: events(scripts, side, way=way, data=folder) for side in ("ours", "reference")}
    for side, said in found.items():
        assert [one["event"] for one in said] == ["ready", "first", "epoch", "epoch"], said
        assert [one["items"] for one in said[2:]] == [40, 40]
        assert 0 < said[1]["open_seconds"] < said[1]["seconds"]
        assert said[2]["first_seconds"] == said[1]["seconds"] < said[2]["seconds"]
    what = [{key: said[1][key] for key in ("shape", "dtype", "mean")} for said in found.values()]
    assert what[0] == what[1]


def test_the_bare_dataloader_delivers_the_same_number_of_samples(scripts, folder):
    said = events(scripts, "ready", way="loader", data=folder, workers=2)
    assert [one.get("items") for one in said[2:]] == [40, 40]
    said = events(scripts, "ours", epochs=1, way="loader", data=folder, workers=1, batches_max=1)
    assert [one.get("items") for one in said[2:]] == [4]
