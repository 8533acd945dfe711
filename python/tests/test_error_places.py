"""Errors about a sample: they name its file, and its key or row, whatever the source."""

import io
import json
import os
import tarfile

import numpy as np
import pytest
from megatron_files import write as write_documents

import forebay as fb

BAD = 5


def text(number):
    return b"{" if number == BAD else b'{"x": %d}' % number


JSON = {"x": fb.Json("j", "x", dtype="int64")}


def mds(folder):
    with fb.MDSWriter(out=folder, columns={"j": "bytes"}) as writer:
        for number in range(8):
            writer.write({"j": text(number)})
    return folder, {"fields": JSON}, {"shard": "shard.00000.mds", "sample in shard": "5"}


def tars(folder, suffix="", mode="w"):
    os.makedirs(folder)
    with tarfile.open(f"{folder}/0.tar{suffix}", mode) as tar:
        for number in range(8):
            info = tarfile.TarInfo(f"part/s{number}.json")
            info.size = len(text(number))
            tar.addfile(info, io.BytesIO(text(number)))
    field = {"x": fb.Json("json", "x", dtype="int64")}
    return folder, {"fields": field}, {"shard": f"0.tar{suffix}", "key": "part/s5", "sample in shard": "5"}


def packed_tars(folder):
    return tars(folder, ".gz", "w:gz")


def pictures(folder):
    from PIL import Image

    for number in range(8):
        os.makedirs(f"{folder}/{number}")
        Image.new("L", (4, 4), number).save(f"{folder}/{number}/a.png")
    with open(f"{folder}/{BAD}/a.png", "r+b") as file:
        file.truncate(40)
    return folder, {"fields": {"x": fb.Image("file")}}, {"file": "5/a.png"}


def rows(folder):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    os.makedirs(folder)
    pq.write_table(pa.table({"j": [text(number) for number in range(8)]}), f"{folder}/a.parquet", row_group_size=4)
    return folder, {"fields": JSON}, {"file": "a.parquet", "row_group": "1", "row_in_group": "1"}


def tokens(folder):
    os.makedirs(folder)
    write_documents(f"{folder}/text", [[1] * (2 if number == BAD else 1) for number in range(8)])
    fields = {"x": fb.Array("tokens", shape=(1,), dtype="uint16")}
    return f"{folder}/text.bin", {"fields": fields}, {"shard": "text.bin", "sample in shard": "5"}


SOURCES = [mds, tars, packed_tars, pictures, rows, tokens]


@pytest.mark.parametrize("write", SOURCES, ids=lambda write: write.__name__)
def test_an_error_names_the_location_of_its_sample_in_the_stored_files(tmp_path, write, caplog):
    remote, options, place = write(str(tmp_path / "data"))
    options |= {"remote": remote, "batch_size": 2, "framework": "numpy", "order": fb.Order(num_canonical_nodes=1)}
    with fb.Loader(**options) as loader, pytest.raises(fb.Error) as caught:
        list(loader)
    context = dict(caught.value.context)
    assert context["sample"] == "5" and place.items() <= context.items(), context
    assert "files.0" not in str(caught.value) and all(value in str(caught.value) for value in place.values())
    known = {"shard", "sample in shard", "file", "key", "row_group", "row_in_group", "sample in file"}
    assert known & context.keys() == place.keys()
    with fb.Loader(**options, skip=fb.Skip(errors=1)) as loader:
        assert sum(len(np.asarray(batch["x"])) for batch in loader) == 7
    (skipped,) = [line for line in caplog.messages if "a sample was skipped" in line]
    assert all(value in skipped for value in place.values())
