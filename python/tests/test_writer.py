"""The writer's checks: a value is stored as it is, or rejected with its column."""

import gc
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image, ImageDraw

import forebay as fb

SURROGATE = "\ud800"


def stored(folder, encoding, value):
    """Writes one value and reads it back."""
    with fb.MDSWriter(out=folder, columns={"a": encoding}) as writer:
        writer.write({"a": value})
    return fb.ShardReader(folder)[0]["a"]


def test_a_key_that_is_no_column_is_an_error_and_not_left_out(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"image": "bytes", "label": "int"}) as writer:
        for sample, message in [
            ({"image": b"", "label": 1, "caption": "x"}, r"not every key of the sample is a column: it has 'caption'; name each in"),
            ({"image": b"", "label": 1, "labels": 2}, r"it has 'labels' \(did you mean 'label'\?\); .*leave it out"),
            ({"image": b"", "lable": 1}, r"no column 'label': it has 'lable' \(did you mean 'label'\?\)"),
            ({"image": b""}, r"the sample has no column 'label'$"),
            ({"image": b"", "label": 1, **dict.fromkeys(range(30), 0)}, r"it has 0, 1, .*19, \.\.\.; name"),
        ]:
            with pytest.raises(fb.ConfigError, match=message):
                writer.write(sample)
        writer.write({"label": 3, "image": b"kept"})
    assert [dict(sample) for sample in fb.ShardReader(tmp_path / "set")] == [{"image": b"kept", "label": 3}]


@pytest.mark.parametrize("encoding", ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("value", [3.7, np.float32(0.5), np.float64(-0.5), float("nan"), float("inf"), 2**70, -(2**63) - 1])
def test_a_number_that_an_integer_type_cannot_hold_is_rejected_with_its_range(tmp_path, encoding, value):
    with pytest.raises(fb.ConfigError, match=rf"`{encoding}`, which holds whole numbers from .*\d \(column a\)$"):
        stored(tmp_path, encoding, value)


@pytest.mark.parametrize(
    ("encoding", "value", "message"),
    [
        ("float16", 1e6, r"1000000\.0 cannot be stored as `float16`, which holds numbers from -6\.5504e4 to 6\.5504e4"),
        ("float16", 65520, "65520 cannot be stored as `float16`"),
        ("float32", np.float64(1e39), r"1e\+39 cannot be stored as `float32`"),
        ("float64", 10**400, "1000000000000000000000000000000000000000... cannot be stored as `float64`"),
        ("uint8", 256, "256 cannot be stored as `uint8`, which holds whole numbers from 0 to 255"),
        ("int8", np.int64(200), "200 cannot be stored as `int8`, which holds whole numbers from -128 to 127"),
        ("int", 2**63, "9223372036854775808 cannot be stored as `int`, which holds whole numbers from -9223372036854775808"),
        pytest.param("str_int", 10**5000, "column 'a': the value is too large", id="digits"),
        ("int", np.longdouble(1), "column 'a': a longdouble cannot be stored as 'int'"),
        ("str", SURROGATE, "column 'a' is text in UTF-8"),
        ("str_decimal", SURROGATE, "column 'a' is text in UTF-8"),
        ("ndarray", np.array([True]), "column 'a': arrays of bool cannot be stored: convert them, such as with .astype"),
        ("ndarray", [[1, 2], [3]], "column 'a': the value is no array: "),
        ("ndarray", np.ma.masked_array([1, 2], [0, 1]), "column 'a': an array's mask cannot be stored"),
        ("jpeg", Image.new("RGBA", (2, 2)), "column 'a': the picture cannot be stored as 'jpeg': cannot write mode RGBA"),
        ("list[jpeg]", 3, r"column 'a': the value is no list, which 'list\[jpeg\]' stores"),
        ("pkl", lambda: 0, "column 'a': the value cannot be pickled"),
    ],
)
def test_a_value_that_cannot_be_stored_names_its_column_and_the_reason(tmp_path, encoding, value, message):
    with pytest.raises(fb.ConfigError, match=message) as caught:
        stored(tmp_path, encoding, value)
    assert "'a'" in str(caught.value) or "column a" in str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "value", "back"),
    [
        ("uint8", 3.0, np.uint8(3)),
        ("uint8", np.bool_(True), np.uint8(1)),
        ("int8", np.float32(-128), np.int8(-128)),
        ("uint64", float(2**63), np.uint64(2**63)),
        ("float16", 0.1, np.float16(0.1)),
        ("float16", float("-inf"), np.float16("-inf")),
        ("float32", np.uint64(2**64 - 1), np.float32(2**64)),
        ("float64", 2**70, np.float64(2**70)),
    ],
)
def test_a_number_of_a_different_type_is_stored_if_its_value_is_kept_or_rounded(tmp_path, encoding, value, back):
    ours = stored(tmp_path, encoding, value)
    assert ours == back and type(ours) is type(back)


def test_a_jpeg_that_was_opened_keeps_its_file_unless_it_was_changed(tmp_path):
    path = tmp_path / "x.jpg"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 30, 3), np.uint8)).save(path, quality=50)
    original = path.read_bytes()
    assert stored(tmp_path / "1", "jpeg", Image.open(path)) == original
    loaded = Image.open(path)
    loaded.load()
    assert stored(tmp_path / "2", "jpeg", loaded) == original
    smaller = Image.open(path)
    smaller.thumbnail((10, 10))
    with fb.MDSWriter(out=tmp_path / "3", columns={"a": "jpeg", "b": "png"}) as writer:
        writer.write({"a": smaller, "b": smaller})
    (tmp_path / "small.jpg").write_bytes(fb.ShardReader(tmp_path / "3")[0]["a"])
    assert Image.open(tmp_path / "small.jpg").size == smaller.size
    draft = Image.open(path)
    draft.draft("L", (8, 10))
    assert stored(tmp_path / "5", "jpeg", draft) != original
    ImageDraw.Draw(loaded).rectangle((0, 0, 20, 20), fill=(255, 0, 0))
    assert stored(tmp_path / "4", "jpeg", loaded) != original


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"out": ("a", "b")}, r"out is a path, or the address of a folder of a store, but it is \('a', 'b'\)"),
        ({"out": b"a"}, "out is a path, or the address of a folder of a store"),
        ({"out": SURROGATE}, "out is a path, or the address of a folder of a store in UTF-8"),
        ({"compression": 3}, "compression is text, but it is 3"),
        ({"hashes": 3}, r'hashes is a list, such as \["xxh64"\], but it is 3'),
        ({"hashes": [3]}, r"hashes\[0\] is text, but it is 3"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(tmp_path, arguments, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.MDSWriter(**{"out": tmp_path, "columns": {"a": "int"}, **arguments})


@pytest.mark.parametrize("path", [("a", "b"), b"a", 3, None])
def test_a_folder_of_a_wrong_type_is_named(tmp_path, path):
    with pytest.raises(fb.ConfigError, match="local is the path of a local folder"):
        fb.ShardReader(path)
    with pytest.raises(fb.ConfigError, match="path is the path of a local folder"):
        fb.read_index(path)
    if path is not None:
        with pytest.raises(fb.ConfigError, match="split is text"):
            fb.ShardReader(tmp_path, path)


def test_a_writer_that_is_dropped_before_finish_warns_about_its_samples(tmp_path):
    writer = fb.MDSWriter(out=tmp_path / "set", columns={"a": "int"})
    for i in range(3):
        writer.write({"a": i})
    with pytest.raises(fb.ConfigError):
        writer.write({"a": "3"})
    with pytest.warns(RuntimeWarning, match=rf"the 3 samples .* {tmp_path}/set has no index\.json") as caught:
        del writer
        gc.collect()
    assert len(caught) == 1 and os.listdir(tmp_path / "set") == []


def test_a_writer_without_lost_samples_does_not_warn(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fb.MDSWriter(out=tmp_path / "none", columns={"a": "int"})
        with fb.MDSWriter(out=tmp_path / "finished", columns={"a": "int"}) as writer:
            writer.write({"a": 1})
            writer.finish()
        with pytest.raises(KeyError), fb.MDSWriter(out=tmp_path / "failed", columns={"a": "int"}) as writer:
            writer.write({"a": 1})
            raise KeyError
        del writer
        gc.collect()
    assert len(fb.ShardReader(tmp_path / "finished")) == 1
    assert [str(warning.message) for warning in caught if "finish()" in str(warning.message)] == []


FORGETFUL = """
import os, sys
from {module} import MDSWriter

writer = MDSWriter(out=sys.argv[1], columns={{"a": "int"}})
writer.write({{"a": 1}})
if os.fork() == 0:
    sys.exit()
os.wait()
"""


@pytest.mark.parametrize("module", ["forebay", "forebay.streaming"])
def test_a_writer_that_is_alive_at_the_end_of_the_program_warns_in_its_own_process(tmp_path, module):
    program = [sys.executable, "-c", FORGETFUL.format(module=module), tmp_path / "set"]
    shown = subprocess.run(program, capture_output=True, text=True, check=True, timeout=600).stderr
    assert shown.count("RuntimeWarning: a MDSWriter was dropped before finish()") == 1, shown
    assert "the 1 samples that it got" in shown and f"{tmp_path}/set has no index.json" in shown


FORKED = """
import os, sys
import forebay as fb

writer = fb.MDSWriter(out=sys.argv[1], columns={"a": "int"}, size_limit=100)
for i in range(100):
    writer.write({"a": i})
if os.fork() == 0:
    for call in (lambda: writer.write({"a": 1}), writer.finish):
        try:
            call()
        except fb.ClosedError as error:
            print(error, flush=True)
    sys.exit()
assert os.wait()[1] == 0
writer.finish()
assert len(fb.ShardReader(sys.argv[1])) == 100
"""


def test_a_forked_child_cannot_use_its_parents_writer_and_ends_without_it(tmp_path):
    program = subprocess.run([sys.executable, "-c", FORKED, tmp_path / "set"], capture_output=True, text=True, timeout=600)
    assert program.returncode == 0 and program.stderr == ""
    assert program.stdout.count("this is a forked child: make one here, for a different folder") == 2
