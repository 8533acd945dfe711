"""ArrayRecord files: the records that the package array_record has written, in forebay's order.

`tests/data/array_record` has the files, compressed; their records are equal to `tests/data/tfrecord` and `tf_examples`.
"""

import itertools
import os

import pytest
from record_rows import ARRAY_RECORDS, FIELDS, SAMPLES, rows, unpack
from source_matrix import Case, SourceMatrix, opened

import forebay as fb
from forebay.to_mds import convert

_prefixes = itertools.count()


class TestArrayRecords(SourceMatrix):
    CACHE_LIMIT = 40_000

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        return unpack(tmp_path_factory.mktemp("records"), "samples.*")

    @pytest.fixture
    def case(self, folder, bucket):
        prefix, names = f"array-records-{next(_prefixes)}", "samples.array_record-*"
        bucket.objects.update({f"{prefix}/{path.name}": path.read_bytes() for path in folder.iterdir()})
        stored = f"s3://bucket/{prefix}/{names}"
        return Case(f"{folder}/{names}", stored, {"fields": FIELDS}, rows, SAMPLES, "00010")

    def test_the_ends_of_files_and_some_chunks_are_all_that_the_index_needs(self, case, bucket, bucket_environment, tmp_path):
        bucket.seen.clear()
        with opened(case, case.stored, local=tmp_path / "local"):
            # As long as no sample is read: the ends of 10 files and 28 chunks.
            gets = [request.key for request in bucket.seen if request.method == "GET" and request.key.endswith("-of-00010")]
        with opened(case, case.stored, local=tmp_path / "local") as loader:
            assert sum(map(rows, loader), []) == SAMPLES
        assert len(gets) == 38


@pytest.mark.parametrize("options", [{}, {"shuffle": True, "seed": 3}])
def test_a_mix_of_streams_has_records_of_both_kinds(tmp_path, options):
    unpack(tmp_path, "samples.*")
    made = ARRAY_RECORDS.parent / "tfrecord" / "set.tfrecord-0000?-of-00003"
    fields = {"all": fb.Bytes("record")}
    streams = [fb.Stream(remote=tmp_path / "samples.array_record-*"), fb.Stream(remote=made)]
    with fb.Loader(streams=streams, batch_size=1, fields=fields, **options) as loader:
        assert len({bytes(batch["all"][0]) for batch in loader}) == 120 + 18


def test_single_samples_are_read_and_converted(tmp_path):
    unpack(tmp_path, "samples.*")
    names = tmp_path / "samples.array_record-*"
    reader = fb.ShardReader(names)
    assert len(reader) == 120
    assert [reader[number]["number"] for number in (119, 0, 64)] == [119, 0, 64]
    assert convert(names, tmp_path / "out").samples == 120
    with fb.Loader(remote=tmp_path / "out", batch_size=8, fields=FIELDS, framework="numpy") as loader:
        assert sum(map(rows, loader), []) == SAMPLES


def test_features_that_few_records_have_are_found_by_all_records_and_never_lost(tmp_path):
    """30,000 records without features in as many chunks, with 64 that are seen, and 13 with some after them."""
    unpack(tmp_path, "many.*")
    unpack(tmp_path, "samples.array_record-00003-of-00010")
    source = f"{tmp_path}/many.array_record::{tmp_path}/samples.array_record-00003-of-00010"
    fields = {name: fb.Scalar("number", default=-1) for name in ("n", "same")} | {"t": fb.Text("text", default="none")}
    with pytest.raises(fb.ConfigError, match="no such column.*number"):
        fb.Loader(remote=source, batch_size=8, fields=fields)
    stream = fb.Stream(remote=source, ignore_counts=True)
    convert(source, tmp_path / "out")
    for place in ({"streams": [stream]}, {"remote": tmp_path / "out"}):
        with fb.Loader(**place, batch_size=5000, fields=fields) as loader:
            found = [(n, text) for batch in loader for n, text in zip(batch["n"].tolist(), batch["t"], strict=True)]
        assert found == [(-1, "none")] * 30_000 + [(n, text) for n, text, _ in SAMPLES[39:52]]


def test_blocks_of_several_sizes_are_read(tmp_path):
    unpack(tmp_path, "blocks.*")
    with fb.Loader(remote=tmp_path / "blocks.array_record", batch_size=10) as loader:
        made = [bytes((i // 3 + n) % 251 for i in range(20_000 + n)) for n in range(10)]
        assert list(map(bytes, next(iter(loader))["record"])) == made


def test_a_long_footer_is_fetched_in_two_requests(tmp_path):
    unpack(tmp_path, "many.*")
    with fb.Loader(remote=tmp_path / "many.array_record", batch_size=30_000) as loader:
        assert set(map(bytes, next(iter(loader))["record"])) == {b""}


def test_transposed_chunks_are_refused(tmp_path):
    unpack(tmp_path, "transposed.*")
    with pytest.raises(fb.Error, match=r"transposed, which is not supported.*transposed.array_record"):
        fb.Loader(remote=tmp_path / "transposed.array_record", batch_size=1)


def test_wrong_files_are_refused(tmp_path):
    for content, why in [(b"", "too short"), (b"x" * 65535, "too short"), (bytes(131072), "file does not end like an ArrayRecord")]:
        (tmp_path / "x.array_record").write_bytes(content)
        with pytest.raises(fb.FormatError, match=f"{why}.*x.array_record"):
            fb.Loader(remote=tmp_path / "x.array_record", batch_size=1)


def test_a_file_that_was_replaced_by_one_of_its_size_is_read_again(tmp_path):
    unpack(tmp_path, "samples.*")
    first, second = (tmp_path / f"samples.array_record-{number:05}-of-00010" for number in range(2))
    for _ in range(2):
        with fb.Loader(remote=first, batch_size=13, fields=FIELDS, framework="numpy") as loader:
            assert sum(map(rows, loader), []) == SAMPLES[:13]
    assert first.stat().st_size == second.stat().st_size
    first.write_bytes(second.read_bytes())
    # A file system's clock may be too coarse for a test.
    os.utime(first, ns=(1, 1))
    with fb.Loader(remote=first, batch_size=13, fields=FIELDS, framework="numpy") as loader:
        assert sum(map(rows, loader), []) == SAMPLES[13:26]


def test_a_record_of_a_damaged_chunk_is_an_error_that_names_the_file(tmp_path):
    unpack(tmp_path, "samples.*")
    path = tmp_path / "samples.array_record-00003-of-00010"
    body = bytearray(path.read_bytes())
    body[120] ^= 1
    path.write_bytes(body)
    with pytest.raises(fb.Error, match=r"does not match its CRC.*samples.array_record-00003"):
        list(fb.Loader(remote=tmp_path / "samples.array_record-*", batch_size=1, fields=FIELDS))
