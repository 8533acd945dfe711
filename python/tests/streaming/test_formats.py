"""Readers, writers and encodings: files are the reference's byte for byte, and each package reads the files of both."""

import io
import json
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import forebay as fb
from forebay.streaming import StreamingDataset
from forebay.streaming.base import format as formats
from forebay.streaming.base.format.json import encodings as json_encodings
from forebay.streaming.base.format.mds import encodings
from forebay.streaming.base.format.xsv import encodings as xsv_encodings
from forebay.streaming.base.local import LocalDataset

RNG = np.random.default_rng(0)
PICTURE = Image.fromarray(RNG.integers(0, 256, (6, 5, 3), np.uint8))


def jpeg(quality=80):
    out = io.BytesIO()
    PICTURE.save(out, "JPEG", quality=quality)
    return out.getvalue()


VALUES = {
    "bytes": [b"", b"abc"],
    "str": ["", "é"],
    "int": [0, -1, 2**63 - 1, True],
    "uint8": [0, 255],
    "int16": [-5, 7.9],
    "uint64": [2**64 - 1],
    "float16": [0.1],
    "float32": [1e-30],
    "float64": [-0.0],
    "str_int": [10**30],
    "str_float": [1e-5],
    "str_decimal": [Decimal("-1.50")],
    "ndarray": [np.arange(6, dtype=np.int16).reshape(2, 3), np.ones((300, 1), np.float64)],
    "ndarray:uint16": [np.arange(4, dtype=np.uint16)],
    "ndarray:float32:2,2": [np.eye(2, dtype=np.float32)],
    "pil": [PICTURE, PICTURE.convert("L")],
    "jpeg": [PICTURE],
    "png": [PICTURE],
    "jpeg_array": [[jpeg(), bytearray(jpeg(30))]],
    "list[pil]": [[], [PICTURE]],
    "list[png]": [[PICTURE, PICTURE]],
    "pkl": [{"a": [1, 2]}],
    "json": [{"a": [1, None, "é"]}, np.arange(3)],
}


def same(a, b):
    if isinstance(a, list) and not isinstance(b, list):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.flags.writeable == b.flags.writeable and (a == b).all()
    if isinstance(a, Image.Image):
        return type(a) is type(b) and a.mode == b.mode and a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


def test_every_value_has_the_reference_s_bytes_and_reads_back_equal(reference):
    theirs = reference("base.format.mds.encodings")
    assert encodings.get_mds_encodings() == theirs.get_mds_encodings()
    for name, values in VALUES.items():
        assert encodings.is_mds_encoding(name)
        assert encodings.get_mds_encoded_size(name) == theirs.get_mds_encoded_size(name), name
        assert encodings.is_mds_encoding_safe(name) == theirs.is_mds_encoding_safe(name), name
        for value in values:
            data = encodings.mds_encode(name, value)
            assert data == theirs.mds_encode(name, value), name
            assert same(encodings.mds_decode(name, data), theirs.mds_decode(name, data)), name


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("str", 1, AttributeError),
        ("int", np.int64(1), AttributeError),
        ("int", 2**63, OverflowError),
        ("str_float", 1, AttributeError),
        ("pil", "x", AttributeError),
        ("list[png]", (PICTURE,), AttributeError),
        ("ndarray", np.array([]), ValueError),
        ("ndarray", np.array(1), ValueError),
        ("ndarray", np.array([True]), ValueError),
        ("ndarray:int8", np.arange(2), ValueError),
        ("ndarray:int64:3", np.arange(2), ValueError),
        ("jpeg_array", 1, TypeError),
        ("nothing", "x", ValueError),
        ("nothing:1", "x", KeyError),
        ("int:8", 1, AttributeError),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(either, name, value, error):
    with pytest.raises(error):
        either("base.format.mds.encodings").mds_encode(name, value)


def test_a_big_endian_array_reads_back_with_its_values():
    # The reference stores its bytes as they are under a little-endian dtype.
    array = np.array([1, 2], ">i4")
    assert encodings.mds_decode("ndarray", encodings.mds_encode("ndarray", array)).tolist() == [1, 2]


def test_a_picture_opened_from_a_file_is_stored_with_the_bytes_of_the_file(either, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    with Image.open(path) as picture:
        assert either("base.format.mds.encodings").mds_encode("jpeg", picture) == path.read_bytes()


def test_text_encodings_check_their_types(either):
    for module, call in (("json", "is_json_encoded"), ("xsv", "xsv_encode")):
        found = either(f"base.format.{module}.encodings")
        with pytest.raises(AttributeError):
            getattr(found, call)("int", "1")
    assert either("base.format.xsv.encodings").xsv_encode("float", 1.5) == "1.5"
    assert either("base.format.xsv.encodings").xsv_decode("int", "12") == 12
    assert either("base.format.json.encodings").is_json_encoding("bytes") is False


def test_each_kind_of_encoding_lists_its_names():
    assert json_encodings.is_json_encoded("str", "a")
    assert not xsv_encodings.is_xsv_encoding("bytes")


class Reverse(encodings.Encoding):
    """An encoding that a user wrote."""

    def encode(self, obj):
        return obj[::-1].encode()

    def decode(self, data):
        return data.decode()[::-1]


def test_a_custom_encoding_is_written_and_read(monkeypatch, tmp_path):
    monkeypatch.setitem(encodings._encodings, "reverse", Reverse)
    with formats.MDSWriter(out=str(tmp_path), columns={"text": "reverse"}) as writer:
        writer.write({"text": "abc"})
    assert b"cba" in (tmp_path / "shard.00000.mds").read_bytes()
    assert LocalDataset(str(tmp_path))[0] == {"text": "abc"}


class Pixels(encodings.Encoding):
    """Arrays of any length under the name of a number, as in the reference's example of imagenet.int8."""

    size = None

    def encode(self, obj):
        return obj.tobytes()

    def decode(self, data):
        return np.frombuffer(data, np.uint8)


class Quad(Pixels):
    """Four bytes under the name of a number of two."""

    size = 4


def test_encodings_under_known_names_with_new_sizes_are_written_and_read(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setitem(encodings._encodings, "uint8", Pixels)
        patch.setitem(encodings._encodings, "uint16", Quad)
        columns = {"image": "uint8", "n": "int", "quad": "uint16"}
        with formats.MDSWriter(out=str(tmp_path), columns=columns) as writer:
            for i in range(3):
                writer.write({"image": np.arange(i, dtype=np.uint8), "n": i, "quad": np.full(4, i, np.uint8)})
        index = json.loads((tmp_path / "index.json").read_text())
        assert index["shards"][0]["column_sizes"] == [None, 8, 4]
        sample = LocalDataset(str(tmp_path))[2]
        assert (sample["image"].tolist(), sample["n"], sample["quad"].tolist()) == ([0, 1], 2, [2] * 4)
        dataset = StreamingDataset(local=str(tmp_path), batch_size=1)
        assert [row["image"].size for row in dataset] == [0, 1, 2]
    # A process without the registration decodes as the reference does: by the name.
    assert LocalDataset(str(tmp_path))[1]["quad"] == 257

    fields = {"quad": fb.Bytes("quad"), "image": fb.Bytes("image"), "n": fb.Scalar("n")}
    batch = next(iter(fb.Loader(local=str(tmp_path), batch_size=3, fields=fields)))
    assert list(batch["quad"]) == [bytes([i]) * 4 for i in range(3)]
    assert [len(row) for row in batch["image"]] == [0, 1, 2]
    with pytest.raises(fb.ConfigError, match="its size in the index, 4, is not the size of the built-in `uint16`"):
        fb.Loader(local=str(tmp_path), batch_size=3, fields={"x": fb.Scalar("quad")})


TEXT = {"n": "int", "x": "float", "s": "str"}
CASES = [
    ("MDSWriter", {"columns": {"s": "str", "n": "int", "a": "ndarray:uint8:3", "f": "float32"}}),
    ("JSONWriter", {"columns": TEXT}),
    ("JSONWriter", {"columns": TEXT, "newline": "\r\n"}),
    ("XSVWriter", {"columns": TEXT, "separator": "||"}),
    ("CSVWriter", {"columns": TEXT, "newline": ";\n"}),
    ("TSVWriter", {"columns": TEXT}),
]
SETTINGS = [
    {},
    {"size_limit": 400, "hashes": ["sha1", "xxh64"]},
    {"size_limit": "1kb", "compression": "snappy", "hashes": ["xxh3_64"]},
    {"size_limit": 60},
    {"size_limit": None, "compression": "bz2:1"},
]


def sample(i):
    words = " ".join(["word"] * (i * 7 % 31))
    return {"s": f"é{words}", "n": i, "x": i / 3, "a": np.full(3, i, np.uint8), "f": i / 7}


def write(module, name, folder, arguments, samples=60):
    with getattr(module, name)(out=str(folder), **arguments) as writer:
        for i in range(samples):
            writer.write(sample(i))
    return writer


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("name", "arguments"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_writers_write_the_reference_s_files(reference, tmp_path, name, arguments, settings):
    theirs = reference("base.format")
    mine = write(formats, name, tmp_path / "ours", {**arguments, **settings})
    other = write(theirs, name, tmp_path / "theirs", {**arguments, **settings})
    assert mine.get_config() == other.get_config()
    assert mine.shards == other.shards
    assert mine.extra_bytes_per_sample == other.extra_bytes_per_sample
    ours = files(tmp_path / "ours")
    expected = files(tmp_path / "theirs")
    assert ours.keys() == expected.keys()
    for file in ours:
        # Compressed bytes depend on the library's version; their hashes and sizes were compared above.
        assert ours[file] == expected[file], file


@pytest.mark.parametrize(("name", "arguments"), CASES, ids=lambda case: case if isinstance(case, str) else "")
def test_each_package_reads_the_files_of_both(reference, tmp_path, name, arguments):
    theirs = reference("base.format")
    local = reference("base.local").LocalDataset
    for writers in (formats, theirs):
        folder = tmp_path / writers.__name__
        write(writers, name, folder, {**arguments, "size_limit": 500})
        mine, other = LocalDataset(str(folder)), local(str(folder))
        assert len(mine) == len(other) == 60
        assert mine.size == 60
        for i in (*range(60), -1):
            one, two = mine[i], other[i]
            assert list(one) == list(two)
            assert all(same(one[key], two[key]) for key in one)
        assert mine[5:1:-2][0]["n"] == 5


def test_an_index_is_checked_as_strictly_as_by_the_reference(either, tmp_path):
    module = either("base.format")
    write(module, "MDSWriter", tmp_path, CASES[0][1])
    shard = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    reader = module.reader_from_json(str(tmp_path), None, shard)
    assert type(reader).__name__ == "MDSReader" and reader.samples == 60 and reader.get_zip_size() is None
    assert reader.get_max_size() == reader.get_raw_size() == reader.get_persistent_size(True)
    with pytest.raises(TypeError):
        module.reader_from_json(str(tmp_path), None, {**shard, "new": 1})
    with pytest.raises(ValueError, match="Unsupported data format"):
        type(reader).from_json(str(tmp_path), None, {**shard, "format": "csv"})
    with pytest.raises(ValueError, match="Unsupported streaming data version: 3"):
        type(reader).from_json(str(tmp_path), None, {**shard, "version": 3})
    with pytest.raises(IndexError):
        reader.get_sample_data(60)
    assert reader.evict() == reader.raw_data.bytes
    with pytest.raises(FileNotFoundError):
        reader[0]


def test_a_truncated_shard_names_the_file_and_the_sample(tmp_path):
    write(formats, "MDSWriter", tmp_path, CASES[0][1])
    shard = tmp_path / "shard.00000.mds"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"shard.00000.mds ends within sample 59"):
        LocalDataset(str(tmp_path))[59]
    shard.write_bytes(shard.read_bytes()[:5])
    with pytest.raises(ValueError, match=r"shard.00000.mds ends before the offsets of sample 59"):
        LocalDataset(str(tmp_path))[59]


def test_a_pickle_is_rejected_unless_it_is_allowed(either, tmp_path):
    module = either("base.format")
    with module.MDSWriter(out=str(tmp_path), columns={"p": "pkl"}) as writer:
        writer.write({"p": {1}})
    shard = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    reader = module.reader_from_json(str(tmp_path), None, shard)
    reader.validate(allow_unsafe_types=True)
    with pytest.raises(ValueError, match="contains an unsafe type: pkl"):
        reader.validate(allow_unsafe_types=False)


def test_a_reader_can_be_pickled_to_a_new_process(tmp_path):
    write(formats, "MDSWriter", tmp_path, CASES[0][1])
    dataset = LocalDataset(str(tmp_path))
    first = dataset[3]
    assert pickle.loads(pickle.dumps(dataset))[3]["s"] == first["s"]


def test_set_up_removes_the_compressed_file_and_keeps_the_raw_one(tmp_path):
    # The reference removes the raw file, and then counts a file that is not there.
    write(formats, "MDSWriter", tmp_path, {**CASES[0][1], "compression": "zstd"})
    shard = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    reader = formats.reader_from_json(str(tmp_path), None, shard)
    raw = tmp_path / "shard.00000.mds"
    raw.write_bytes(bytes(reader.get_raw_size()))
    listing = {str(path) for path in tmp_path.iterdir()}
    assert reader.set_up_local(listing, safe_keep_zip=False) == reader.get_raw_size()
    assert raw.exists() and not (tmp_path / "shard.00000.mds.zstd").exists()


def test_one_file_of_a_two_file_shard_is_removed(either, tmp_path):
    module = either("base.format")
    write(module, "CSVWriter", tmp_path, {"columns": TEXT})
    shard = json.loads((tmp_path / "index.json").read_text())["shards"][0]
    reader = module.reader_from_json(str(tmp_path), None, shard)
    (tmp_path / "shard.00000.csv.meta").unlink()
    assert reader.set_up_local({str(path) for path in tmp_path.iterdir()}, safe_keep_zip=False) == 0
    assert not (tmp_path / "shard.00000.csv").exists()
