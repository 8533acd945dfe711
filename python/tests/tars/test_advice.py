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


@pytest.mark.parametrize(
    ("source", "name", "meant", "effect"),
    [("tars", "clss", "cls", "cls, txt"), ("mds", "lable", "label", "label, name"), ("parquet", "som", "some", "some")],
)
def test_a_column_with_a_mistake_in_its_name_is_an_error_in_each_way(source, name, meant, effect, folder, shards):
    remote = {"tars": str(folder), "mds": shards, "parquet": str(PARQUET)}[source]
    for field, options, sentence in [
        (fb.Bytes(name), {}, "no such column"),
        (fb.Bytes(name), {"on_missing": "skip"}, 'no such column, so on_missing="skip" would leave out all samples'),
        (fb.Bytes(name, default=b""), {}, "no such column, so all samples would have the field's default"),
        (fb.Bytes(name, default=b""), {"on_missing": "skip"}, "no such column, so all samples would have the field's default"),
    ]:
        found = error(remote=remote, fields={"y": field}, **options)
        assert isinstance(found, fb.ConfigError)
        message = str(found)
        assert sentence in message and message.endswith(f"did you mean `{meant}`?"), message
        assert effect in message and "__fields__" not in message and "filter" not in message, message


def test_a_column_that_the_counted_samples_lack_is_a_warning_with_the_near_name(tmp_path, caplog):
    (tmp_path / "0.tar").write_bytes(tar([(f"{i}", {"cls": b"%d" % i}) for i in range(3)]) + END)
    (tmp_path / "sizes.json").write_text('{"0.tar": 3}')
    fields = {"y": fb.Bytes("clss", default=b"-")}
    with caplog.at_level(logging.WARNING, "forebay"):
        with fb.Loader(remote=f"{tmp_path}/0.tar", batch_size=3, fields=fields, framework="numpy") as loader:
            assert list(map(bytes, next(iter(loader))["y"])) == [b"-"] * 3
    assert "no sample is known to have the column clss" in caplog.text and "did you mean `cls`?" in caplog.text
    assert "so on_missing=" in str(error(remote=f"{tmp_path}/0.tar", fields={"y": fb.Bytes("clss")}, on_missing="skip"))


def test_a_filter_has_lists_as_in_python(shards):
    def kept(condition):
        with fb.Loader(remote=shards, batch_size=8, filter=condition, fields={"y": fb.Scalar("label")}, framework="numpy") as loader:
            return sorted(loader_batch for batch in loader for loader_batch in batch["y"].tolist())

    assert kept("label in [1, 2]") == kept("label in (1, 2)") == [1, 1, 2, 2]
    assert kept("label not in [0] and name is not None") == [1, 1, 2, 2, 3, 3]
    assert "write `and`" in str(error(remote=shards, filter="label > 1 & label < 3"))
