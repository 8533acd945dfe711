"""Maps in interpreters. Python 3.13 has them too, as an internal module, which is used instead of the public module of 3.14."""

import random
import sys
import types

import numpy as np
import pytest
from map_functions import draws
from plain_functions import counts, fails_at_three, plain_rows
from map_loops import STORED, mapped

import forebay as fb
from forebay._mapping import interpreters as ours
from forebay._forebay import function_key

FIELDS = {"number": fb.Scalar("number"), "x": fb.Image("image", fb.Resize((4, 5))), "name": fb.Text("name")}


@pytest.fixture
def interpreters(monkeypatch):
    """The module of interpreters."""
    if sys.version_info >= (3, 14):
        return
    internal = pytest.importorskip("test.support.interpreters", exc_type=ImportError)
    if sys.version_info < (3, 13):
        pytest.skip("this Python's interpreters differ from the interpreters of 3.14")
    stand_in = types.ModuleType("concurrent.interpreters")
    stand_in.create, stand_in.ExecutionFailed = internal.create, internal.ExecutionFailed
    monkeypatch.setitem(sys.modules, "concurrent.interpreters", stand_in)
    monkeypatch.setattr(ours, "_VERSION", (3, 13))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="this Python has interpreters")
def test_an_older_python_is_named(pictures):
    with pytest.raises(fb.ConfigError, match='kind="interpreters" needs Python 3.14 or newer, and this is 3.'):
        mapped(pictures, draws, kind="interpreters")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_equal_a_plain_loop(interpreters, pictures, workers):
    options = {"fields": FIELDS, **STORED}
    with fb.Loader(local=pictures, batch_size=16, framework="numpy", extra=["sample_draws"], **options) as plain:
        expected = list(plain)
    with mapped(pictures, counts, kind="interpreters", workers=workers, **options) as loader:
        batches = list(loader)
    assert len(batches) == len(expected)
    for batch, rows in zip(batches, expected):
        assert batch["number"].tolist() == rows["number"].tolist()
        assert batch["text"] == [name.upper() for name in rows["name"]]
        assert np.array_equal(batch["doubled"], np.minimum(rows["x"].astype(int) * 2, 255))
        assert batch["shape"] == [(3, 4, 5)] * len(rows["x"])
        assert batch["unit"].tolist() == [random.Random(function_key(5, *row)).random() for row in rows["sample_draws"].tolist()]


def test_an_error_names_its_sample(interpreters, pictures):
    with mapped(pictures, fails_at_three, kind="interpreters", workers=1, fields=FIELDS, **STORED) as loader:
        with pytest.raises(fb.MapError, match="fails_at_three failed for a sample: ValueError: the number 3 is bad") as caught:
            list(loader)
        assert "plain_functions.py" in str(caught.value.__cause__) and caught.value.context["row"] == "3"


def test_a_function_that_needs_numpy_is_a_config_error(interpreters, pictures):
    with mapped(pictures, draws, kind="interpreters", workers=1) as loader:
        with pytest.raises(fb.ConfigError, match="an interpreter cannot load draws"):
            list(loader)
    with pytest.raises(fb.ConfigError, match="cannot be pickled"):
        mapped(pictures, lambda sample, rng: sample, kind="interpreters")


def test_arrays_that_are_passed_on_are_a_list_and_lists_are_padded(interpreters, tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"a": "ndarray:int32"}) as writer:
        for length in (1, 2, 3, 3):
            writer.write({"a": np.full(length, length, np.int32)})
    options = {"fields": {"a": fb.Array("a")}, "batch_size": 2, **STORED}
    with mapped(tmp_path / "set", plain_rows, kind="interpreters", workers=1, pad={"ids": 5}, **options) as loader:
        first, second = loader
    assert isinstance(second["a"], list) and [row.tolist() for row in second["a"]] == [[3] * 3] * 2
    assert first["ids"].tolist() == [[1, 5], [1, 1]] and second["ids"].shape == (2, 0)
