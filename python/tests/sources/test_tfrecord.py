"""TensorFlow's record files: the values that TensorFlow reads, in forebay's order.

`tests/data/tfrecord` has files that TensorFlow wrote, with the values that it reads.
"""

import gzip
import itertools
import json
import pathlib
import shutil
import struct

import pytest
from source_matrix import Case, SourceMatrix, opened

import forebay as fb

MADE = pathlib.Path(__file__).parents[3] / "tests" / "data" / "tfrecord"

_prefixes = itertools.count()


def crc_table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRCS = list(crc_table())


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRCS[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values):
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        return field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
    return field(3, field(1, b"".join(map(varint, values))))


def example(features):
    entries = (field(1, field(1, name.encode()) + field(2, feature(values))) for name, values in features.items())
    return field(1, b"".join(entries))


def samples(count=120):
    for number in range(count):
        yield {"number": [number], "text": ["ä".encode() * (number % 5)], "values": [1 << number % 60, *range(300 + number % 7)]}


SAMPLES = [(item["number"][0], item["text"][0].decode(), tuple(item["values"])) for item in samples()]

FIELDS = {"number": fb.Scalar("number"), "text": fb.Text("text"), "values": fb.Array("values")}


def rows(batch):
    values = (tuple(row.tolist()) for row in batch["values"])
    return list(zip(batch["number"].tolist(), batch["text"], values, strict=True))


def write_set(folder, items=None, per_file=13, end=""):
    """Writes files of records; returns their wildcard."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [record(example(item)) for item in items or samples()]
    parts = [records[at : at + per_file] for at in range(0, len(records), per_file)]
    for number, part in enumerate(parts):
        body = b"".join(part)
        (folder / f"x.tfrecord-{number:05}-of-{len(parts):05}{end}").write_bytes(gzip.compress(body) if end else body)
    return "x.tfrecord-*" + end


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

    def test_braces_and_lists_name_the_same_files(self, case, folder):
        with opened(case, f"{folder}/x.tfrecord-{{00000..00009}}-of-00010") as loader:
            assert sum(map(rows, loader), []) == SAMPLES
        paths = sorted(map(str, folder.iterdir()))
        with opened(case, "::".join(paths)) as loader:
            assert sum(map(rows, loader), []) == SAMPLES

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
            body, at, lines = bucket.objects[key], 0, []
            while at < len(body):
                size = 16 + int.from_bytes(body[at : at + 8], "little")
                lines.append(f"{at} {size}\n")
                at += size
            bucket.objects[name.format(key)] = "".join(lines).encode()
        bucket.seen.clear()
        names = case.stored.replace("*", "{00000..00009}-of-00010")
        with opened(case, names, local=tmp_path / "local") as loader:
            read = [request.key for request in bucket.seen if request.key.endswith("-of-00010")]
            assert len(read) == 1
            assert sum(map(rows, loader), []) == SAMPLES


class TestPackedRecords(OfRecords):
    end = ".gz"


def expected(row):
    return {name: [bytes.fromhex(v) if isinstance(v, str) else v for v in values] for name, values in row.items()}


def test_the_values_are_those_of_tensorflow(tmp_path):
    read = json.loads((MADE / "values.json").read_text())
    fields = {name: fb.Scalar(name) for name in ("label", "score")} | {name: fb.Array(name) for name in ("box", "ids")}
    fields |= {"text": fb.Text("text"), "image": fb.Bytes("image"), "names": fb.Bytes("names")}
    packed = ("packed.tfrecord.gz", ["packed.tfrecord.gz"])
    for names, files in [("set.tfrecord-0000?-of-00003", [name for name in sorted(read) if name.startswith("set")]), packed]:
        theirs = [expected(row) for name in files for row in read[name]]
        with fb.Loader(remote=MADE / names, batch_size=1, fields=fields, framework="numpy") as loader:
            ours = list(loader)
        assert len(ours) == len(theirs)
        for batch, row in zip(ours, theirs, strict=True):
            assert batch["label"].dtype == "int64" and batch["label"].tolist() == row["label"]
            assert batch["score"].dtype == "float32" and batch["score"].tolist() == row["score"]
            assert batch["box"].tolist() == [row["box"]]
            assert batch["ids"][0].tolist() == row["ids"]
            assert [text.encode() for text in batch["text"]] == row["text"]
            assert list(map(bytes, batch["image"])) == row["image"]
            # A list of texts is as the record has it.
            assert bytes(batch["names"][0]) == b"".join(field(1, name) for name in row["names"])


def test_without_fields_a_batch_has_the_features_of_all_records():
    with fb.Loader(remote=MADE / "set.tfrecord-0000?-of-00003", batch_size=1) as loader:
        assert sorted(next(iter(loader))) == ["box", "ids", "image", "label", "names", "score", "text"]


def test_a_record_without_a_wanted_feature_is_an_error_or_left_out(tmp_path):
    names, fields = MADE / "set.tfrecord-0000?-of-00003", {"caption": fb.Text("caption")}
    with pytest.raises(fb.Error, match=r"no value of this feature.*column caption"):
        list(fb.Loader(remote=names, batch_size=1, fields=fields))
    with fb.Loader(remote=names, batch_size=1, fields=fields, on_error="skip", max_errors=9) as loader:
        assert [batch["caption"][0] for batch in loader] == [f"c{n}" for n in range(18) if n % 4]


def test_records_that_are_no_examples_are_bytes():
    with fb.Loader(remote=MADE / "plain.tfrecord", batch_size=3) as loader:
        assert list(map(bytes, next(iter(loader))["record"])) == [b"no example", b"", b"\xff" * 300]


def test_sequence_examples_are_refused():
    with pytest.raises(fb.Error, match=r"SequenceExample.*sequence.tfrecord"):
        fb.Loader(remote=MADE / "sequence.tfrecord", batch_size=1)


def test_a_file_without_records_has_no_samples(tmp_path):
    with pytest.raises(fb.ConfigError, match="no samples"):
        fb.Loader(remote=MADE / "empty.tfrecord", batch_size=1)
    write_set(tmp_path)
    shutil.copy(MADE / "empty.tfrecord", tmp_path / "x.tfrecord-00010-of-00010")
    with fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=8, fields=FIELDS, framework="numpy") as loader:
        assert sum(map(rows, loader), []) == SAMPLES


def test_a_compressed_file_needs_its_extension(tmp_path):
    shutil.copy(MADE / "packed.tfrecord.gz", tmp_path / "x.tfrecord")
    with pytest.raises(fb.Error, match="ends in .gz"):
        fb.Loader(remote=tmp_path / "x.tfrecord", batch_size=1)


def test_features_of_two_types_are_an_error(tmp_path):
    write_set(tmp_path, [{"a": [1]}, {"a": [1.5]}], per_file=1)
    with pytest.raises(fb.FormatError, match="int64 in some records and a float in others"):
        fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1)


def test_damage_is_found_by_the_pass_and_when_a_sample_is_read(tmp_path):
    write_set(tmp_path)
    path = tmp_path / "x.tfrecord-00000-of-00010"
    body = bytearray(path.read_bytes())
    with fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1, fields=FIELDS):
        pass
    body[40] ^= 1
    path.write_bytes(body)
    with pytest.raises(fb.Error, match="do not match their CRC"):
        list(fb.Loader(remote=tmp_path / "x.tfrecord-*", batch_size=1, fields=FIELDS))
    with pytest.raises(fb.FormatError, match="do not match their CRC.*x.tfrecord-00000"):
        fb.Loader(remote=path, batch_size=1, fields=FIELDS)
    path.write_bytes(body[:-1])
    with pytest.raises(fb.FormatError, match="ends inside a record"):
        fb.Loader(remote=path, batch_size=1, fields=FIELDS)
