"""Compressed files in tars: the values that WebDataset's decoder gives."""

import gzip
import io
import json

import numpy as np
import pytest
import webdataset
from PIL import Image
from tar_sets import END, tar

import forebay as fb
from forebay.to_mds import convert


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def png(number):
    out = io.BytesIO()
    Image.new("RGB", (8, 4), (number, 0, 0)).save(out, "png")
    return out.getvalue()


def plain(number):
    """Files of a sample before they are compressed."""
    return {
        "txt": f"täxt {number}".encode(),
        "json": json.dumps({"n": number, "box": [number, 2.5]}).encode(),
        "cls": b"%d" % number,
        "npy": npy(np.arange(number + 1)),
        "png": png(number),
        "bin": bytes(range(number)),
    }


@pytest.fixture
def packed(tmp_path):
    """Tar of five samples with compressed files alone."""
    samples = [(f"a/{n}", {f"{name}.gz": gzip.compress(data) for name, data in plain(n).items()}) for n in range(5)]
    (tmp_path / "0.tar").write_bytes(tar(samples) + END)
    return tmp_path / "0.tar"


def test_values_equal_the_values_of_webdataset(packed):
    fields = {
        "text": fb.Text("txt.gz"),
        "n": fb.Json("json.gz", "n", "int64"),
        "box": fb.Json("json.gz", "box", "float32", shape=(2,)),
        "all": fb.Text("json.gz"),
        "cls": fb.Scalar("cls.gz"),
        "values": fb.Array("npy.gz"),
        "x": fb.Image("png.gz"),
    }
    expected = list(webdataset.WebDataset(str(packed), shardshuffle=False).decode("rgb8"))
    assert len(expected) == 5
    with fb.Loader(remote=packed, batch_size=1, fields=fields, framework="numpy") as loader:
        for batch, sample in zip(loader, expected, strict=True):
            document = sample["json.gz"]
            assert batch["text"] == [sample["txt.gz"]]
            assert batch["n"].tolist() == [document["n"]] and batch["box"].tolist() == [document["box"]]
            assert json.loads(batch["all"][0]) == document
            assert batch["cls"].tolist() == [sample["cls.gz"]]
            assert np.array_equal(batch["values"][0], sample["npy.gz"])
            assert np.array_equal(np.moveaxis(batch["x"][0], 0, -1), sample["png.gz"])


def test_bytes_and_conversions_have_the_files_as_they_are_stored(packed, tmp_path):
    fields = {"t": fb.Bytes("txt.gz"), "b": fb.Bytes("bin.gz")}
    with fb.Loader(remote=packed, batch_size=5, fields=fields) as loader:
        (batch,) = loader
    assert [gzip.decompress(bytes(data)) for data in batch["t"]] == [plain(n)["txt"] for n in range(5)]
    assert [gzip.decompress(bytes(data)) for data in batch["b"]] == [plain(n)["bin"] for n in range(5)]
    with fb.Loader(remote=packed, batch_size=5) as loader:
        assert gzip.decompress(bytes(next(iter(loader))["json.gz"][3])) == plain(3)["json"]
    convert(packed, tmp_path / "out", threads=1)
    assert gzip.decompress(fb.ShardReader(tmp_path / "out")[3]["json.gz"]) == plain(3)["json"]


def test_a_column_has_the_first_of_several_fields_packed_or_not(tmp_path):
    samples = [("0", {"txt": b"plain"}), ("1", {"txt.gz": gzip.compress(b"packed")}), ("2", {"txt.gz": gzip.compress(b"no"), "txt": b"first"})]
    (tmp_path / "0.tar").write_bytes(tar(samples) + END)
    with fb.Loader(remote=tmp_path / "0.tar", batch_size=3, fields={"t": fb.Text("txt;txt.gz")}) as loader:
        assert next(iter(loader))["t"] == ["plain", "packed", "first"]


def test_a_filter_and_defaults_know_packed_files(tmp_path):
    samples = [(f"{n}", {"cls": b"%d" % n} | ({"json.gz": gzip.compress(json.dumps({"n": n}).encode())} if n % 3 else {})) for n in range(6)]
    (tmp_path / "0.tar").write_bytes(tar(samples) + END)
    options = {"remote": tmp_path / "0.tar", "batch_size": 6}
    with fb.Loader(**options, fields={"n": fb.Json("json.gz", "n", "int64", default=-1)}) as loader:
        assert next(iter(loader))["n"].tolist() == [-1, 1, 2, -1, 4, 5]
    with fb.Loader(**options, fields={"c": fb.Scalar("cls")}, select=fb.Select(filter="`json.gz.n` >= 2")) as loader:
        assert next(iter(loader))["c"].tolist() == [2, 4, 5]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"no gzip", "gz"),
        (gzip.compress(b"text" * 100)[:-9], "gz"),
        (gzip.compress(bytes(1 << 20)) * 300, "decompression bomb"),
    ],
    # The bytes have the time in them.
    ids=["no gzip", "cut", "bomb"],
)
def test_a_damaged_file_is_an_error_that_names_its_sample_and_is_left_out(tmp_path, content, message):
    samples = [("a/0", {"txt.gz": gzip.compress(b"good")}), ("a/1", {"txt.gz": content})]
    (tmp_path / "0.tar").write_bytes(tar(samples) + END)
    options = {"remote": tmp_path / "0.tar", "batch_size": 1, "fields": {"t": fb.Text("txt.gz")}}
    with fb.Loader(**options) as loader:
        with pytest.raises(fb.Error, match=f"{message}(?s:.)*a/1") as caught:
            list(loader)
        assert "txt.gz" in str(caught.value)
    with fb.Loader(**options, skip=fb.Skip(errors=1)) as loader:
        assert [batch["t"] for batch in loader] == [["good"]]
