"""Errors about sources that name the change: addresses, columns, weights and streams that do not fit together."""

import logging
import pathlib

import numpy as np
import pytest
from tar_sets import END, tar, write_set

import forebay as fb
from forebay import index

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet/presence.parquet"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """Folder of tars."""
    write_set(tmp_path / "wds", (3, 2))
    return tmp_path / "wds"


@pytest.fixture
def shards(tmp_path):
    """Folder of MDS with a number, a text and a weight."""
    with fb.MDSWriter(out=tmp_path / "set", columns={"label": "int", "name": "str", "weight": "float32"}) as writer:
        for number in range(8):
            writer.write({"label": number % 4, "name": f"n{number}", "weight": np.float32(number - 1)})
    return str(tmp_path / "set")


def error(**arguments):
    """The error of a loader's first batch."""
    with pytest.raises(fb.Error) as caught:
        with fb.Loader(**{"batch_size": 2, "framework": "numpy"} | arguments) as loader:
            next(iter(loader))
    return caught.value


def test_a_filter_has_lists_as_in_python(shards):
    def kept(condition):
        with fb.Loader(remote=shards, batch_size=8, filter=condition, fields={"y": fb.Scalar("label")}, framework="numpy") as loader:
            return sorted(loader_batch for batch in loader for loader_batch in batch["y"].tolist())

    assert kept("label in [1, 2]") == kept("label in (1, 2)") == [1, 1, 2, 2]
    assert kept("label not in [0] and name is not None") == [1, 1, 2, 2, 3, 3]
    assert "write `and`" in str(error(remote=shards, filter="label > 1 & label < 3"))
