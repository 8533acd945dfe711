"""Writers and readers, against the reference package where it is installed."""

import decimal
import filecmp
import io
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import forebay as fb

COLUMNS = {
    "text": "str",
    "raw": "bytes",
    "count": "int",
    "small": "uint8",
    "half": "float16",
    "wide": "uint64",
    "digits": "str_int",
    "fraction": "str_float",
    "money": "str_decimal",
    "any": "ndarray",
    "typed": "ndarray:int32",
    "tokens": "ndarray:uint16:4",
    "pixels": "pil",
    "picture": "jpeg",
    "lossless": "png",
    "document": "json",
    "pictures": "list[jpeg]",
}


def picture(seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def sample(i):
    return {
        "text": f"número {i}",
        "raw": bytes([i]) * i,
        "count": -i,
        "small": np.uint8(i),
        "half": np.float16(i / 7),
        "wide": np.uint64(2**64 - 1 - i),
        "digits": 10**30 + i,
        "fraction": i / 3,
        "money": decimal.Decimal(i) / 100,
        "any": np.arange(6, dtype=np.float64).reshape(2, 3) + i,
        "typed": np.full((i + 1,), i, np.int32),
        "tokens": np.arange(4, dtype=np.uint16) + i,
        "pixels": picture(i),
        "picture": picture(i),
        "lossless": picture(i),
        "document": {"i": i, "list": [1, 2.5, None]},
        "pictures": [picture(i), picture(i + 1)],
    }


def write(folder, writer=fb.MDSWriter, samples=40, **kwargs):
    kwargs.setdefault("size_limit", 1 << 14)
    with writer(out=str(folder), columns=COLUMNS, **kwargs) as out:
        for i in range(samples):
            out.write(sample(i))
    return str(folder)


def assert_same(ours, i):
    expected = sample(i)
    assert list(ours) == sorted(COLUMNS)
    for name, value in ours.items():
        if name in ("picture", "lossless"):
            want = io.BytesIO()
            expected[name].save(want, format="JPEG" if name == "picture" else "PNG")
            assert value == want.getvalue(), name
        elif name == "pictures":
            assert [Image.open(io.BytesIO(v)).size for v in value] == [(5, 6), (5, 6)]
        elif name == "pixels":
            assert value.tobytes() == expected[name].tobytes()
        elif name == "document":
            assert value == {"i": i, "list": [1, 2.5, None]}
        elif isinstance(value, np.ndarray):
            assert value.dtype == expected[name].dtype and (value == expected[name]).all(), name
        else:
            assert value == expected[name] and type(value) is type(expected[name]), name


@pytest.mark.parametrize("compression", [None, "zstd:7", "gz", "bz2", "br:3", "snappy"])
def test_written_samples_are_read_back(tmp_path, compression):
    folder = write(tmp_path / "set", compression=compression, hashes=["xxh64", "sha1"])
    reader = fb.ShardReader(folder)
    assert len(reader) == 40 and len(fb.read_index(folder)) > 2
    assert repr(reader) == f"<forebay.ShardReader, 40 samples, {folder}>"
    for i in (0, 39, 17, 5):
        assert_same(reader[i], i)
    assert_same(reader[-1], 39)
    assert [s["count"] for s in reader[3:6]] == [-3, -4, -5]
    assert [s["count"] for s in reader] == [-i for i in range(40)]
    with pytest.raises(IndexError):
        reader[40]


def test_raw_shards_equal_the_reference_byte_for_byte(mosaicml, tmp_path):
    theirs = write(tmp_path / "theirs", mosaicml.MDSWriter, hashes=["sha1", "xxh64"])
    ours = write(tmp_path / "ours", hashes=["sha1", "xxh64"])
    names = sorted(os.listdir(theirs))
    assert sorted(os.listdir(ours)) == names and len(names) > 2
    assert filecmp.cmpfiles(ours, theirs, names, shallow=False) == (names, [], [])


def test_each_package_reads_the_files_of_both(mosaicml, tmp_path):
    theirs = write(tmp_path / "theirs", mosaicml.MDSWriter, compression="zstd:3")
    reader = fb.ShardReader(theirs)
    assert_same(reader[21], 21)
    ours = mosaicml.LocalDataset(write(tmp_path / "ours"))
    assert len(ours) == 40
    assert ours[21]["text"] == "número 21" and (ours[21]["tokens"] == sample(21)["tokens"]).all()


def test_an_exception_in_the_block_leaves_no_index(tmp_path):
    with pytest.raises(KeyError), fb.MDSWriter(out=str(tmp_path), columns={"a": "int"}) as writer:
        writer.write({"a": 1})
        raise KeyError
    assert "index.json" not in os.listdir(tmp_path)


def test_a_value_that_does_not_fit_names_its_column(tmp_path):
    with fb.MDSWriter(out=str(tmp_path), columns={"a": "int", "b": "uint8"}) as writer:
        with pytest.raises(fb.ConfigError, match="'b'"):
            writer.write({"a": 1})
        with pytest.raises(fb.ConfigError, match="b"):
            writer.write({"a": 1, "b": 256})
        with pytest.raises(fb.ConfigError, match="'a'.*cannot be stored"):
            writer.write({"a": object(), "b": 1})
        writer.write({"a": 1, "b": 255})
    assert [dict(s) for s in fb.ShardReader(str(tmp_path))] == [{"a": 1, "b": 255}]


def test_arrays_inside_a_document_become_lists(tmp_path):
    with fb.MDSWriter(out=str(tmp_path), columns={"a": "json"}) as writer:
        writer.write({"a": {"x": np.arange(3)}})
        with pytest.raises(fb.ConfigError, match="'a'"):
            writer.write({"a": object()})
    assert fb.ShardReader(tmp_path)[0] == {"a": {"x": [0, 1, 2]}}


def test_a_folder_that_is_not_empty_is_rejected_and_named(tmp_path):
    (tmp_path / "precious").write_text("")
    with pytest.raises(fb.ConfigError, match="not empty") as caught:
        fb.MDSWriter(out=str(tmp_path), columns={"a": "int"})
    assert caught.value.context == {"directory": str(tmp_path)}
    fb.MDSWriter(out=str(tmp_path), columns={"a": "int"}, exist_ok=True).finish()
    assert os.listdir(tmp_path) == ["index.json"] or not (tmp_path / "precious").exists()


def test_a_broken_index_names_file_and_field(tmp_path):
    (tmp_path / "index.json").write_text('{"version": 2, "shards": [{"format": "mds"}]}')
    with pytest.raises(fb.FormatError, match="index.json"):
        fb.read_index(tmp_path)
    with pytest.raises(FileNotFoundError):
        fb.ShardReader(tmp_path / "nowhere")


def test_a_truncated_shard_is_named(tmp_path):
    folder = write(tmp_path / "set")
    shard = os.path.join(folder, "shard.00001.mds")
    os.truncate(shard, 100)
    reader = fb.ShardReader(folder)
    with pytest.raises(fb.ChecksumError, match="size differs from the index.*bytes 100.*shard.00001.mds"):
        list(reader)


@pytest.mark.parametrize(
    ("name", "message"),
    # A pipe and a device have no size, which is compared before a shard is opened.
    [("index.json", "not a regular file"), ("shard.00000.mds", "size differs from the index.*bytes 0, expected")],
    ids=["index", "shard"],
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/zero", path)], ids=["pipe", "device"])
def test_a_loader_rejects_a_pipe_or_a_device_instead_of_a_file(tmp_path, name, message, make):
    folder = write(tmp_path / "set")
    os.remove(os.path.join(folder, name))
    make(os.path.join(folder, name))
    with pytest.raises(fb.Error, match=message) as error:
        list(fb.Loader(local=str(folder), batch_size=1, fields={"n": fb.Scalar("count")}))
    assert name in str(error.value)


def test_indexing_a_reader_by_a_column_is_an_error(packed):
    with pytest.raises(TypeError, match=r"samples have numbers and columns have names: use reader\[0\], not reader\['number'\]"):
        fb.ShardReader(packed)["number"]


@pytest.mark.parametrize(
    ("encoding", "value", "kind"),
    [
        # Python limits the digits of an int, and Pillow knows no such mode.
        ("str_int", b"9" * 5000, fb.DecodeError),
        ("pil", np.array([5, 5, 3], np.uint32).tobytes() + b"XYZ" + bytes(75), fb.DecodeError),
        ("str_decimal", b"much", fb.FormatError),
        ("json", b"{", fb.FormatError),
    ],
    ids=["digits", "mode", "decimal", "json"],
)
def test_a_value_that_cannot_be_converted_names_column_sample_and_shard(tmp_path, encoding, value, kind):
    with fb.MDSWriter(out=tmp_path, columns={"v": encoding}) as writer:
        writer.write({"v": value})
    with pytest.raises(kind) as caught:
        fb.ShardReader(tmp_path)[0]
    assert isinstance(caught.value, ValueError)
    place = {"column": "v", "sample": "0", "shard": "shard.00000.mds"}
    assert place.items() <= caught.value.context.items()
    assert all(f"{name} {fact}" in str(caught.value) for name, fact in place.items())


def test_a_number_beyond_the_end_is_an_index_error_of_the_package(packed):
    reader = fb.ShardReader(packed)
    for number in (len(reader), -len(reader) - 1, 1 << 70):
        with pytest.raises(fb.SampleIndexError, match=rf"no sample {number}: the data set has {len(reader)} \(folder ") as caught:
            reader[number]
        assert isinstance(caught.value, (IndexError, fb.NotFoundError))


def test_files_that_cannot_be_read_are_errors_of_the_package(tmp_path):
    folder = write(tmp_path / "set", samples=4)
    shard = os.path.join(folder, "shard.00000.mds")

    def failure(kind, message):
        with pytest.raises(kind, match=f"{message}.*file {shard}"):
            fb.ShardReader(folder)[0]

    os.remove(shard)
    failure(fb.NotFoundError, "a shard is missing")
    os.mkfifo(shard)
    failure(fb.ChecksumError, "a shard's size differs")
    os.remove(shard)
    os.mkdir(shard)
    failure(fb.ChecksumError, "a shard's size differs")
    os.rmdir(shard)
    with pytest.raises(fb.ConfigError, match="null character"):
        fb.ShardReader("a\0b")


# In its own process: a limit of this process would also stop servers and threads of other tests.
OPENED_WITHOUT_DESCRIPTORS = """
import resource
import sys

import forebay as fb

reader = fb.ShardReader(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    reader[0]
except fb.FullError as error:
    sys.stdout.write(str(error))
"""


def test_too_many_open_files_are_an_error_with_its_remedy(tmp_path):
    folder = write(tmp_path / "set", samples=4)
    ended = subprocess.run([sys.executable, "-c", OPENED_WITHOUT_DESCRIPTORS, folder], capture_output=True, text=True, check=False)
    assert ended.stdout.startswith("too many files are open: raise the limit (ulimit -n)"), ended.stderr
