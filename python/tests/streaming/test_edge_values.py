"""Edge values of every encoding: three writers make equal files, and five readers read the same bits from them."""

import filecmp
import io
import math
import os
import pickle
import struct
from decimal import Decimal

import numpy as np
import pytest
from PIL import Image

import forebay as fb
from forebay.streaming import MDSWriter, StreamingDataset
from forebay.streaming.base.local import LocalDataset

INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
TEXTS = ["", "\0", " ", "\r\n", "é", "e\u0301", "\u2028", "漢字", "😀", "\U0010ffff", "a" * 70_000]
NAN = float("nan")


def floats(dtype):
    """Edge values of a type of floats, among them NaNs with a sign and with a payload."""
    info = np.finfo(dtype)
    values = [0.0, -0.0, info.max, info.min, info.tiny, info.smallest_subnormal, np.inf, -np.inf, np.nan, -np.nan]
    payload = np.array([-1], f"i{info.bits // 8}").view(dtype)
    return [*(dtype(value) for value in values), payload[0], 0.1, -0.0, 1e-300, NAN, -math.inf, 2**11 + 1, 1]


def integers(dtype):
    info = np.iinfo(dtype)
    return [info.min, info.max, dtype(info.min), dtype(info.max), 0, dtype(1), np.int8(7), True]


def arrays(dtype):
    """Arrays of shapes around the widths of a dimension in the header, of different memory orders and of edge values."""
    edges = np.array([integers, floats][dtype in (np.float16, np.float32, np.float64)](dtype)[:4], dtype)
    shapes = [(1,), (255,), (256,), (65_535, 1), (65_536,), (1,) * 32, (2, 3, 4)]
    return [edges, *(np.ones(shape, dtype) for shape in shapes), np.asfortranarray(np.ones((2, 3), dtype)), np.ones(9, dtype)[::2]]


def picture(mode, size):
    """A picture with bytes of all values."""
    length = len(Image.new(mode, size).tobytes())
    return Image.frombytes(mode, size, bytes(i * 37 % 256 for i in range(length)))


def file(form, mode="RGB", size=(5, 6)):
    out = io.BytesIO()
    picture(mode, size).save(out, form)
    return out.getvalue()


MODES = ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16", "LA")
VALUES = {
    "bytes": [b"", b"\0", bytes(range(256)), b"\xff" * 70_000],
    "str": [*TEXTS, b"", "é".encode()],
    "int": [0, -1, -(2**63), 2**63 - 1, True],
    **{name: integers(getattr(np, name)) for name in INTEGERS},
    **{name: floats(getattr(np, name)) for name in FLOATS},
    "str_int": [0, -1, 10**30, -(10**30), 2**63, -(2**63)],
    "str_float": [0.0, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 1e15, 1e-4, 1e-5, 0.1, NAN, math.inf, -math.inf],
    "str_decimal": [Decimal(text) for text in ("0", "-0", "-0.00", "1E+400", "1E-400", "NaN", "-sNaN12", "Infinity", "-Infinity", "9" * 60)],
    "json": [None, True, 0, -0.0, 10**30, 1e400, "", *TEXTS, [], {}, [[[]]], {"": {"é": [None]}}, [NAN], {"a": "\ud800"}],
    "ndarray": [array for name in (*INTEGERS, *FLOATS) for array in arrays(getattr(np, name))],
    **{f"ndarray:{name}": arrays(getattr(np, name)) for name in (*INTEGERS, *FLOATS)},
    **{f"ndarray:{name}:2,3": [np.ones((2, 3), name), np.zeros((3, 2), name).T] for name in (*INTEGERS, *FLOATS)},
    "ndarray:uint8:1": [np.zeros(1, np.uint8)],
    "pil": [picture(mode, size) for mode in MODES for size in ((1, 1), (9, 1), (1, 300))] + [Image.new("L", (0, 0))],
    "jpeg": [*(picture(mode, size) for mode in ("L", "RGB", "CMYK") for size in ((1, 1), (17, 33))), file("JPEG")],
    "png": [*(picture(mode, size) for mode in ("1", "L", "P", "RGB", "RGBA", "I;16", "LA") for size in ((1, 1), (9, 1)))],
    "jpeg_array": [[file("JPEG")], [file("JPEG", size=(1, 1)), file("JPEG", "L")]],
    "jpegarray": [[file("JPEG")] * 300],
    "list[pil]": [[], [picture("RGB", (1, 1))], [picture(mode, (2, 3)) for mode in MODES]],
    "list[jpeg]": [[], [picture("L", (1, 1))], [picture("RGB", (2, 3))] * 300],
    "list[png]": [[], [picture("RGBA", (1, 1)), picture("1", (9, 2))]],
    "pkl": [None, "", (), {"a": [1]}, NAN, np.arange(3), 10**30],
}


def written(writer, folder, encoding):
    with writer(out=str(folder), columns={"v": encoding}, hashes=["sha1", "xxh64"], size_limit=1 << 18) as out:
        for value in VALUES[encoding]:
            out.write({"v": value})
    return str(folder)


def bits(value):
    """A value in a form that is equal only for equal types and bits."""
    if isinstance(value, (list, tuple)):
        return type(value), [bits(item) for item in value]
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, float):
        return struct.pack("<d", value)
    return type(value), repr(value)


def opened(value, encoding):
    """A value of `forebay.ShardReader`, which does not decode pictures and pickles, as the remaining readers return it."""
    if isinstance(value, list) and encoding.startswith(("list", "jpeg")):
        return [opened(item, encoding.removeprefix("list[").removesuffix("]").partition("_")[0]) for item in value]
    if encoding in ("jpeg", "jpegarray", "png"):
        return Image.open(io.BytesIO(value))
    return pickle.loads(value) if encoding == "pkl" else value


def test_every_encoding_has_edge_values(reference):
    bases = {encoding.partition(":")[0] for encoding in VALUES}
    assert bases == reference("base.format.mds.encodings").get_mds_encodings()


@pytest.mark.parametrize("encoding", VALUES)
def test_edge_values_are_written_and_read_as_by_the_reference(reference, tmp_path, encoding):
    writers = {"theirs": reference("base.format").MDSWriter, "ours": fb.MDSWriter, "drop-in": MDSWriter}
    folders = {name: written(writer, tmp_path / name, encoding) for name, writer in writers.items()}
    names = sorted(os.listdir(folders["theirs"]))
    for name in ("ours", "drop-in"):
        assert sorted(os.listdir(folders[name])) == names
        assert filecmp.cmpfiles(folders["theirs"], folders[name], names, shallow=False) == (names, [], []), name

    theirs = [bits(sample["v"]) for sample in reference("base.local").LocalDataset(folders["ours"])]
    assert len(theirs) == len(VALUES[encoding])
    folder = folders["theirs"]
    streamed = StreamingDataset(local=folder, batch_size=1, allow_unsafe_types=True)
    assert [bits(sample["v"]) for sample in LocalDataset(folder)] == theirs
    assert [bits(sample["v"]) for sample in streamed] == theirs
    assert [bits(opened(sample["v"], encoding)) for sample in fb.ShardReader(folder)] == theirs
    if encoding in ("bytes", "str", "int", "str_float", *INTEGERS, *FLOATS) or encoding.startswith("ndarray"):
        # `forebay.Loader` returns these as they are; the rest as fields, or undecoded.
        expected = [sample["v"] for sample in LocalDataset(folder)]
        rows = [batch["v"][0] for batch in fb.Loader(local=folder, batch_size=1, framework="numpy")]
        assert [bits(np.asarray(row)) for row in rows] == [bits(np.asarray(value)) for value in expected]


@pytest.mark.parametrize("value", [np.array(1), np.float32(1), np.zeros(0), np.zeros((2, 0, 3)), np.array([True]), np.array(["a"])])
def test_an_array_that_cannot_be_stored_is_rejected_by_all_writers(reference, tmp_path, value):
    for name, writer in {"theirs": reference("base.format").MDSWriter, "ours": fb.MDSWriter, "drop-in": MDSWriter}.items():
        with writer(out=str(tmp_path / name), columns={"v": "ndarray"}) as out, pytest.raises(ValueError):
            out.write({"v": value})
