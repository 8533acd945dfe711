"""TensorFlow's record files: the values that TensorFlow reads, in forebay's order.

`tests/data/tfrecord` has files that TensorFlow wrote, with the values that it reads.
"""

import contextlib
import gzip
import itertools
import os
import shutil
import zlib

import numpy as np
import pytest
from range_server import RangeHandler, Served
from record_rows import FIELDS, SAMPLES, check_values, rows, write_set
from record_rows import TFRECORDS as MADE
from source_matrix import Case, SourceMatrix, opened
from tf_examples import example, field, record, samples, varint

import forebay as fb
from forebay.to_mds import convert

_prefixes = itertools.count()


class OfRecords(SourceMatrix):
    CACHE_LIMIT = 60_000
    end = ""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("records")
        write_set(folder, end=cls.end)
        return folder

    @pytest.fixture
    def case(self, folder, bucket):
        prefix, names = f"records-{next(_prefixes)}", f"x.tfrecord-*{self.end}"
        bucket.objects.update({f"{prefix}/{path.name}": path.read_bytes() for path in folder.iterdir()})
        return Case(f"{folder}/{names}", f"s3://bucket/{prefix}/{names}", {"fields": FIELDS}, rows, SAMPLES, self.end or "00010")


class TestRecords(OfRecords):
    def test_files_of_this_machine_are_read_where_they_are(self, case, folder, cache):
        names = sorted(path.name for path in folder.iterdir())
        for place in ({"remote": case.remote}, {"local": case.remote}):
            with fb.Loader(**place, batch_size=8, framework="numpy", **case.options) as loader:
                assert sum(map(rows, loader), []) == SAMPLES
        assert sorted(path.name for path in folder.iterdir()) == names
        assert {path.name for path in cache.rglob("*") if path.is_file()} == {"index.json"}

    def test_a_file_that_was_replaced_is_counted_again(self, case, tmp_path):
        names = write_set(tmp_path / "set")
        with opened(case, f"{tmp_path}/set/{names}"):
            pass
        write_set(tmp_path / "set", list(samples(118)))
        with opened(case, f"{tmp_path}/set/{names}") as loader:
            assert sum(map(rows, loader), []) == SAMPLES[:118]

    @pytest.mark.parametrize("name", ["{}.idx", "{}.index"])
    def test_an_index_of_dali_or_the_package_tfrecord_saves_the_pass(self, case, bucket, bucket_environment, tmp_path, name):
        prefix = case.stored.removeprefix("s3://bucket/").split("/")[0]
        for key in [key for key in bucket.objects if key.startswith(prefix)]:
            bucket.objects[name.format(key)] = index_of(bucket.objects[key])
        bucket.seen.clear()
        names = case.stored.replace("*", "{00000..00009}-of-00010")
        with opened(case, names, local=tmp_path / "local") as loader:
            read = [request.key for request in bucket.seen if request.key.endswith("-of-00010")]
            # Of each file its length and the heads of three records, and of one the first records.
            assert len(read) == 10 * 4 + 1
            assert sum(map(rows, loader), []) == SAMPLES


class TestPackedRecords(OfRecords):
    end = ".gz"


def same_size(numbers, size):
    """A file of records with these numbers that has `size` bytes."""
    for pad in range(size):
        body = b"".join(record(example({"number": [n], "text": [b"x" * (pad if n == numbers[0] else 1)]})) for n in numbers)
        if len(body) == size:
            return body
    raise AssertionError("no such size")


def index_of(body):
    """The index of DALI's tfrecord2idx."""
    at, lines = 0, []
    while at < len(body):
        size = 16 + int.from_bytes(body[at : at + 8], "little")
        lines.append(f"{at} {size}\n")
        at += size
    return "".join(lines).encode()


@pytest.fixture(params=["folder", "copied folder", "bucket", "http"])
def place(request, tmp_path, bucket, bucket_environment):
    """Address of record files, options of a loader, and a function that writes one, always at a later time."""
    times, prefix = itertools.count(1_600_000_000), f"rewritten-{next(_prefixes)}"

    def write(name, body):
        if request.param == "bucket":
            bucket.objects[f"{prefix}/{name}"] = body
            return
        (tmp_path / name).write_bytes(body)
        os.utime(tmp_path / name, (at := next(times), at))

    with contextlib.ExitStack() as stack:
        remote, options = tmp_path, {"local": tmp_path / "local"} if request.param != "folder" else {}
        if request.param == "bucket":
            remote = f"s3://bucket/{prefix}"
        elif request.param == "http":
            remote = stack.enter_context(contextlib.closing(Served(tmp_path, RangeHandler))).url
        yield remote, options, write, request.param


def numbers_of(remote, **options):
    with fb.Loader(remote=remote, batch_size=1, fields={"n": fb.Scalar("number")}, **options) as loader:
        return [int(batch["n"][0]) for batch in loader]


def test_files_that_were_written_again_with_the_same_size_are_read_again(place):
    remote, options, write, kind = place
    if kind == "http":
        pytest.skip("a web server has no listing, and so no versions before a request")
    names = "x.tfrecord-*-of-00002"
    write("x.tfrecord-00000-of-00002", same_size([1, 2, 3], 200))
    write("x.tfrecord-00001-of-00002", same_size([4], 200))
    assert numbers_of(f"{remote}/{names}", **options) == [1, 2, 3, 4]
    write("x.tfrecord-00000-of-00002", same_size([5, 6], 200))
    assert numbers_of(f"{remote}/{names}", **options) == [5, 6, 4]
    # As many records, of new values.
    write("x.tfrecord-00000-of-00002", same_size([7, 8], 200))
    assert numbers_of(f"{remote}/{names}", **options) == [7, 8, 4]
    assert numbers_of(f"{remote}/{names}", **options, select=fb.Select(filter="number >= 5")) == [7, 8]
    write("x.tfrecord-00001-of-00002", same_size([9], 200))
    assert numbers_of(f"{remote}/{names}", **options, select=fb.Select(filter="number >= 5")) == [7, 8, 9]


@pytest.mark.parametrize("stale", [[1], [1, 2], [1, 2, 3, 4], "longer"])
def test_an_index_of_a_different_file_is_not_used(place, stale, caplog):
    remote, options, write, _ = place
    write("x.tfrecord-00000-of-00002", same_size([1, 2, 3], 300))
    write("x.tfrecord-00001-of-00002", same_size([4], 300))
    write("x.tfrecord-00001-of-00002.idx", index_of(same_size([4], 300)))
    index = index_of(same_size([1, 2, 3], 400) if stale == "longer" else same_size(stale, 300))
    write("x.tfrecord-00000-of-00002.idx", index)
    assert numbers_of(f"{remote}/x.tfrecord-{{00000..00001}}-of-00002", **options) == [1, 2, 3, 4]
    assert "the index of x.tfrecord-00000-of-00002 belongs to a different file" in caplog.text
    assert "1 TFRecord files are read once" in caplog.text


def test_a_cached_copy_is_the_users_file_if_local_is_its_folder(tmp_path):
    """Nothing is removed there."""
    for number in (1, 2):
        path = tmp_path / "x.tfrecord-00000-of-00001"
        path.write_bytes(same_size([number], 100))
        os.utime(path, (number, number))
        assert numbers_of(tmp_path / "x.tfrecord-*", local=tmp_path) == [number]
        assert path.exists()


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_a_compressed_file_of_any_name_is_unpacked(tmp_path, compress):
    files = [f"set.tfrecord-{number:05}-of-00003" for number in range(3)]
    for name in files:
        (tmp_path / name).write_bytes(compress((MADE / name).read_bytes()))
    check_values(tmp_path / "set.tfrecord-*", files)
    check_values(tmp_path / "set.tfrecord-*", files, local=tmp_path / "local")
    names = {path.name for path in (tmp_path / "local").rglob("*") if path.is_file()}
    assert {f"{name}.unpacked" for name in files} <= names


def test_plain_files_after_a_compressed_one_are_read_from_the_cache(tmp_path):
    files = [f"set.tfrecord-{number:05}-of-00003" for number in range(3)]
    for name in files:
        shutil.copy(MADE / name, tmp_path)
    (tmp_path / files[0]).write_bytes(zlib.compress((MADE / files[0]).read_bytes()))
    check_values(tmp_path / "set.tfrecord-*", files)
    (tmp_path / files[1]).write_bytes(zlib.compress((MADE / files[1]).read_bytes()))
    shutil.copy(MADE / files[0], tmp_path)
    with pytest.raises(fb.Error, match=r"is compressed, but the first one of the list is not.*00001-of-00003"):
        fb.Loader(remote=tmp_path / "set.tfrecord-0000?-of-00003", batch_size=1)


def test_without_fields_a_batch_has_the_features_of_all_records():
    with fb.Loader(remote=MADE / "set.tfrecord-0000?-of-00003", batch_size=1) as loader:
        assert sorted(next(iter(loader))) == ["box", "ids", "image", "label", "names", "score", "text"]


def test_a_record_without_a_wanted_feature_is_an_error_or_left_out(tmp_path):
    names, fields = MADE / "set.tfrecord-0000?-of-00003", {"caption": fb.Text("caption")}
    with pytest.raises(fb.Error, match=r"no value of this feature.*column caption"):
        list(fb.Loader(remote=names, batch_size=1, fields=fields))
    with fb.Loader(remote=names, batch_size=1, fields=fields, skip=fb.Skip(errors=9)) as loader:
        assert [batch["caption"][0] for batch in loader] == [f"c{n}" for n in [*range(17), 20] if n % 4]


def test_a_feature_that_the_indexed_records_may_lack_is_looked_for(tmp_path):
    """An index of DALI shows no features, and the first records all have this one."""
    items = [{"n": [i]} | ({"txt": [b"t"]} if i < 6 or i % 3 else {}) for i in range(24)]
    for number, part in enumerate((items[:6], items[6:])):
        body = b"".join(record(example(item)) for item in part)
        (tmp_path / f"{number}.tfrecord").write_bytes(body)
        (tmp_path / f"{number}.tfrecord.idx").write_bytes(index_of(body))
    fields = {"n": fb.Scalar("n"), "t": fb.Text("txt")}
    with fb.Loader(remote=f"{tmp_path}/{{0..1}}.tfrecord", batch_size=1, fields=fields, skip=fb.Skip(missing=True)) as loader:
        assert [int(batch["n"][0]) for batch in loader] == [n for n, item in enumerate(items) if "txt" in item]


def late_features(folder):
    """Files with indexes next to them. The second file has features that the first lacks, and longer lists."""
    items = [[{"a": [n], "b": [float(n)]} for n in range(6)], [{"a": [n, n], "late": [b"text"], "record": [n]} for n in range(4)]]
    for number, part in enumerate(items):
        body = b"".join(record(example(item)) for item in part)
        (folder / f"{number}.tfrecord").write_bytes(body)
        (folder / f"{number}.tfrecord.idx").write_bytes(index_of(body))
    return f"{folder}/{{0..1}}.tfrecord"


def test_a_feature_that_only_later_records_have_needs_their_count(tmp_path):
    fields = {"late": fb.Bytes("late")}
    options = {"batch_size": 1, "fields": fields, "skip": fb.Skip(missing=True)}
    with pytest.raises(fb.ConfigError, match="no sample is known to have this column.*ignore_counts=True"):
        fb.Loader(remote=late_features(tmp_path), **options)
    with fb.Loader(streams=[fb.Stream(remote=late_features(tmp_path), ignore_counts=True)], **options) as loader:
        assert len(list(loader)) == 4


def test_a_conversion_has_features_that_only_later_files_have(tmp_path):
    source = late_features(tmp_path)
    assert convert(source, tmp_path / "out").samples == 10
    found = [{name: getattr(value, "tolist", lambda v=value: v)() for name, value in sample.items() if name != "__fields__"}
             for sample in fb.ShardReader(tmp_path / "out")]
    expected = [{"a": [n], "b": float(n)} for n in range(6)]
    assert found == expected + [{"a": [n, n], "late": "text", "record": n} for n in range(4)]
    # The index is not used any more, and a pass finds the columns.
    for name in ("0", "1"):
        (tmp_path / f"{name}.tfrecord.idx").unlink()
    convert(source, tmp_path / "again")
    assert [dict(s) for s in map(str_of, fb.ShardReader(tmp_path / "again"))] == [dict(s) for s in map(str_of, fb.ShardReader(tmp_path / "out"))]


def str_of(sample):
    return {name: str(value) for name, value in sample.items()}


def test_counts_of_foreign_programs_are_ignored_if_asked(tmp_path):
    source = late_features(tmp_path)
    fields = {"late": fb.Text("late", default="none"), "r": fb.Scalar("record", default=-1)}
    with pytest.raises(fb.ConfigError, match="no such column.*late"):
        fb.Loader(remote=source, batch_size=1, fields=fields)
    for place in ({}, {"local": tmp_path / "local"}):
        streams = [fb.Stream(remote=source, ignore_counts=True, **place)]
        with fb.Loader(streams=streams, batch_size=1, fields=fields) as loader:
            found = [(batch["late"][0], int(batch["r"][0])) for batch in loader]
        assert found == [("none", -1)] * 6 + [("text", n) for n in range(4)]
        # Not the index that was made before, also in one folder.
        with pytest.raises(fb.ConfigError, match="no such column.*late"):
            fb.Loader(streams=[fb.Stream(remote=source, **place)], batch_size=1, fields=fields)


def test_a_feature_called_record_is_not_taken_for_the_whole_record(tmp_path):
    """Where no record has such a feature, the column is the whole one."""
    items = [{"record": [n], "other": [1]} if n % 2 else {"other": [2]} for n in range(6)]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(record(example(item)) for item in items))
    with fb.Loader(remote=tmp_path / "x.tfrecord", batch_size=6, fields={"r": fb.Scalar("record", default=-1)}) as loader:
        assert next(iter(loader))["r"].tolist() == [-1, 1, -1, 3, -1, 5]
    convert(tmp_path / "x.tfrecord", tmp_path / "out")
    assert [sample.get("record") for sample in fb.ShardReader(tmp_path / "out")] == [None, 1, None, 3, None, 5]
    with fb.Loader(
        remote=tmp_path / "x.tfrecord", batch_size=1, fields={"o": fb.Scalar("other")}, select=fb.Select(filter="record > 1")
    ) as loader:
        assert [int(batch["o"][0]) for batch in loader] == [1, 1]


def test_a_feature_with_the_name_of_the_list_of_fields_is_refused(tmp_path):
    (tmp_path / "x.tfrecord").write_bytes(record(example({"__fields__": [1], "a": [2]})))
    for use in (lambda: fb.Loader(remote=tmp_path / "x.tfrecord", batch_size=1), lambda: convert(tmp_path / "x.tfrecord", tmp_path / "out")):
        with pytest.raises(fb.UnsupportedError, match="rename the feature in the files.*feature __fields__"):
            use()


def test_sequence_examples_are_bytes():
    with fb.Loader(remote=MADE / "sequence.tfrecord", batch_size=1) as loader:
        (batch,) = loader
    body = (MADE / "sequence.tfrecord").read_bytes()
    assert sorted(batch) == ["record"] and bytes(batch["record"][0]) == body[12:-4]
    with pytest.raises(fb.ConfigError, match=r"record"):
        fb.Loader(remote=MADE / "sequence.tfrecord", batch_size=1, fields={"x": fb.Bytes("x")})


def test_records_of_examples_can_be_read_as_bytes():
    body = (MADE / "set.tfrecord-00002-of-00003").read_bytes()
    fields = {"all": fb.Bytes("record"), "label": fb.Scalar("label")}
    with fb.Loader(remote=MADE / "set.tfrecord-00002-of-00003", batch_size=1, fields=fields) as loader:
        (batch,) = loader
    assert bytes(batch["all"][0]) == body[12:-4] and batch["label"].tolist() == [18]


def test_a_conversion_keeps_the_values_of_records_and_their_absence(tmp_path):
    files = [f"set.tfrecord-{number:05}-of-00003" for number in range(3)]
    assert convert(MADE / "set.tfrecord-0000?-of-00003", tmp_path / "out").samples == 18
    check_values(tmp_path / "out", files)
    fields = {"caption": fb.Text("caption", default="none")}
    with fb.Loader(remote=tmp_path / "out", batch_size=1, fields=fields) as loader:
        captions = [batch["caption"][0] for batch in loader]
    assert captions == [f"c{n}" if n % 4 else "none" for n in [*range(17), 20]]
    assert convert(MADE / "plain.tfrecord", tmp_path / "plain").samples == 3
    with fb.Loader(remote=tmp_path / "plain", batch_size=3) as loader:
        assert list(map(bytes, next(iter(loader))["record"])) == [b"no example", b"", b"\xff" * 300]


def test_single_samples_are_read():
    reader = fb.ShardReader(MADE / "set.tfrecord-0000?-of-00003")
    assert len(reader) == 18
    assert reader[17]["label"] == 18 and bytes(reader[17]["image"]) == b"\xff\x14" * 20


def test_a_file_that_is_listed_twice_is_an_error(tmp_path):
    shutil.copy(MADE / "set.tfrecord-00002-of-00003", tmp_path / "x.tfrecord")
    (tmp_path / "x.tfrecord.gz").write_bytes(gzip.compress((tmp_path / "x.tfrecord").read_bytes()))
    with pytest.raises(fb.ConfigError, match="as it is and compressed"):
        fb.Loader(remote=f"{tmp_path}/x.tfrecord::{tmp_path}/x.tfrecord.gz", batch_size=1)


def test_features_of_two_types_are_an_error(tmp_path):
    write_set(tmp_path, [{"a": [1]}, {"a": [1.5]}], per_file=1)
    with pytest.raises(fb.FormatError, match="differs between records: int64 and float"):
        fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1)


def test_a_damaged_record_is_found_when_it_is_read_and_a_damaged_length_by_the_pass(tmp_path):
    write_set(tmp_path)
    path = tmp_path / "x.tfrecord-00000-of-00010"
    body = bytearray(path.read_bytes())
    with fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1, fields=FIELDS):
        pass
    body[40] ^= 1
    path.write_bytes(body)
    with pytest.raises(fb.Error, match="does not match its CRC"):
        list(fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1, fields=FIELDS))
    with fb.Loader(remote=path, batch_size=1, fields=FIELDS) as loader:
        with pytest.raises(fb.FormatError, match="does not match its CRC.*x.tfrecord-00000"):
            list(loader)
    body[40] ^= 1
    path.write_bytes(body[:-1])
    with pytest.raises(fb.FormatError, match="ends inside a record"):
        fb.Loader(remote=path, batch_size=1, fields=FIELDS)


FEW = [{"n": [number], "label": [5.0] if number % 2 else [], "box": [number] if number % 3 else []} for number in range(6)]
"""Records with lists of at most one value, but for `n`, which has one."""


@pytest.fixture
def few(tmp_path):
    (tmp_path / "x.tfrecord").write_bytes(b"".join(record(example(item)) for item in FEW))
    return tmp_path / "x.tfrecord"


@pytest.mark.parametrize("place", ["here", "cache"])
def test_a_feature_with_at_most_one_value_is_read_as_an_array(few, tmp_path, place):
    fields = {"n": fb.Array("n"), "label": fb.Array("label", "float32"), "box": fb.Array("box", pad=-1), "mask": fb.AttentionMask("box")}
    fields |= {"ids": fb.Tokens("box", pad=7), "length": fb.Length("label")}
    local = {"local": tmp_path / "local"} if place == "cache" else {}
    with fb.Loader(remote=few, batch_size=6, fields=fields, framework="numpy", **local) as loader:
        (batch,) = loader
    assert batch["n"].shape == (6, 1) and batch["n"].tolist() == [item["n"] for item in FEW], "every record has one value"
    assert [row.tolist() for row in batch["label"]] == [item["label"] for item in FEW] and batch["label"][1].dtype == np.float32
    assert batch["box"].tolist() == [item["box"] or [-1] for item in FEW]
    assert batch["mask"].tolist() == [[bool(item["box"])] for item in FEW]
    assert batch["ids"].tolist() == [item["box"] or [7] for item in FEW]
    assert batch["length"].tolist() == [len(item["label"]) for item in FEW]


def test_a_feature_of_one_value_has_the_shape_that_it_is_given(few):
    with fb.Loader(remote=few, batch_size=6, fields={"n": fb.Array("n", "int32", shape=(1,))}, framework="numpy") as loader:
        (batch,) = loader
    assert batch["n"].dtype == np.int32 and batch["n"].tolist() == [item["n"] for item in FEW]


def test_a_feature_that_is_also_read_as_a_number_is_no_array(few):
    with pytest.raises(fb.ConfigError, match="an Array field needs a column of arrays"):
        fb.Loader(remote=few, batch_size=6, fields={"n": fb.Array("n"), "number": fb.Scalar("n")})


def test_a_list_that_an_index_shows_as_single_numbers_is_read_as_an_array(tmp_path):
    """An index of DALI shows no features, and the first records have one value each."""
    items = [{"a": [number]} for number in range(6)], [{"a": [1]}, {"b": [1.0]}]
    for number, part in enumerate(items):
        body = b"".join(record(example(item)) for item in part)
        (tmp_path / f"{number}.tfrecord").write_bytes(body)
        (tmp_path / f"{number}.tfrecord.idx").write_bytes(index_of(body))
    fields = {"a": fb.Array("a", "int64", default=[])}
    with fb.Loader(remote=f"{tmp_path}/{{0..1}}.tfrecord", batch_size=8, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert [row.tolist() for row in batch["a"]] == [*([n] for n in range(6)), [1], []]


def with_unknown(data, where):
    """An Example with fields that a later version of its definition may have."""
    unknown = [field(15, b"later"), varint(16 << 3) + varint(300), varint(17 << 3 | 1) + bytes(8), varint(18 << 3 | 5) + bytes(4)]
    # A group, which has a field with the number of the features.
    unknown.append(varint(19 << 3 | 3) + field(1, b"not these") + varint(19 << 3 | 4))
    # A field of a known number and a different type.
    unknown.append(varint(1 << 3) + varint(5))
    return data + b"".join(unknown) if where == "end" else b"".join(unknown) + data


@pytest.mark.parametrize("where", ["front", "end"])
@pytest.mark.parametrize("which", [{0}, {2}, set(range(6))])
def test_fields_that_no_example_has_are_ignored(tmp_path, where, which):
    records = [example(item) for item in FEW]
    records = [with_unknown(data, where) if number in which else data for number, data in enumerate(records)]
    (tmp_path / "x.tfrecord").write_bytes(b"".join(map(record, records)))
    fields = {"n": fb.Scalar("n"), "label": fb.Array("label")}
    with fb.Loader(remote=tmp_path / "x.tfrecord", batch_size=6, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert batch["n"].tolist() == list(range(6))
    assert [row.tolist() for row in batch["label"]] == [item["label"] for item in FEW]


def test_unknown_fields_of_every_message_are_ignored(tmp_path):
    def noisy(content):
        return with_unknown(content, "end")

    ints = noisy(field(1, varint(3) + varint(4)))
    feature = noisy(field(3, ints))
    entry = field(9, b"?") + field(1, b"ids") + field(2, feature) + varint(10 << 3) + varint(1)
    data = field(7, b"x") + field(1, field(8, b"y") + field(1, entry))
    (tmp_path / "x.tfrecord").write_bytes(record(data) * 3)
    with fb.Loader(remote=tmp_path / "x.tfrecord", batch_size=3, fields={"ids": fb.Array("ids")}, framework="numpy") as loader:
        (batch,) = loader
    # The last field has the numbers of a single one, which the list has as well.
    assert batch["ids"].tolist() == [[3, 4, 5]] * 3


@pytest.mark.parametrize(
    "files, words",
    [
        (["train-00000-of-00002", "train-00001-of-00002"], ["as in FOLDER/train-*-of-*"]),
        (["x.tfrecord"], ["as in FOLDER/*.tfrecord"]),
        (["README.md", "part-r-00000", "part-r-00001"], ["part-r-00000 is a TFRecord file", "as in FOLDER/*.tfrecord"]),
        (["train.records"], ["train.records is a TFRecord file", "known by its name"]),
        (["deep/train"], ["deep/train is a TFRecord file"]),
    ],
)
@pytest.mark.parametrize("where", ["remote", "local", "bucket"])
def test_a_folder_of_record_files_names_the_change(tmp_path, bucket, bucket_environment, files, words, where):
    prefix = f"folder-{next(_prefixes)}"
    for name in files:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(record(example({"n": [1]})))
        bucket.objects[f"{prefix}/{name}"] = path.read_bytes()
    options = {"remote": f"s3://bucket/{prefix}"} if where == "bucket" else {where: tmp_path / "set"}
    with pytest.raises(fb.NotFoundError) as caught:
        fb.Loader(batch_size=1, **options)
    text = str(caught.value)
    assert all(word in text for word in words) and "MDSWriter makes one" not in text, text
