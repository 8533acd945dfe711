"""Records that are damaged where they are stored: each is an error of its sample, and the rest is read."""

import gzip
import json

import pytest
from range_server import Served
from record_rows import ARRAY_RECORDS
from test_checksums import rows
from tf_examples import example, record

import forebay as fb
from forebay.verify import verify

SKIP = {"skip": fb.Skip(errors=20)}
COUNT, LOST = 100, 7
WHOLE = [record(example({"n": [number]})) for number in range(COUNT)]


def records():
    """A file with a damaged record, and the numbers of the whole ones."""
    damaged = [bytes(WHOLE[LOST][:-1]) + bytes([WHOLE[LOST][-1] ^ 4])]
    return b"".join(WHOLE[:LOST] + damaged + WHOLE[LOST + 1 :])


def chunks():
    """A file with a damaged second chunk."""
    content = bytearray(gzip.decompress((ARRAY_RECORDS / "set.array_record-00001-of-00003.gz").read_bytes()))
    # The data of a chunk follow its head of 40 bytes, with their length after its hash. The first is the signature.
    first = 64
    second = first + 40 + int.from_bytes(content[first + 8 : first + 16], "little")
    content[second + 45] ^= 4
    return bytes(content), int.from_bytes(content[second + 24 : second + 32], "little") >> 8


FIELD = {"n": fb.Scalar("n")}


@pytest.fixture(params=["plain", "packed"])
def stored(request, tmp_path):
    name = {"plain": "data.tfrecord", "packed": "data.tfrecord.gz"}[request.param]
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / name).write_bytes(records() if request.param == "plain" else gzip.compress(records()))
    return tmp_path / "served" / name


def check(remote, cache):
    """Reads an epoch with and without skipping, first from `remote` and then from the cache."""
    expected = [number for number in range(COUNT) if number != LOST]
    for _ in range(2):
        with fb.Loader(remote=remote, local=cache, batch_size=10, framework="numpy", fields=FIELD, **SKIP) as loader:
            assert [number for batch in rows(loader) for number in batch] == expected
            assert loader.stats()["counters"]["samples_skipped"] == 1
        with fb.Loader(remote=remote, local=cache, batch_size=10, framework="numpy", fields=FIELD) as loader:
            with pytest.raises(fb.FormatError, match=rf"CRC.*record {LOST}|CRC.*sample {LOST}\b"):
                rows(loader)


def test_a_record_that_is_damaged_on_this_machine_is_left_out_alone(stored, tmp_path):
    check(str(stored), tmp_path / "cache")


def test_a_record_that_is_damaged_in_the_store_is_left_out_alone_and_found_by_verify(stored, tmp_path):
    server = Served(stored.parent)
    try:
        check(f"{server.url}/{stored.name}", tmp_path / "cache")
    finally:
        server.close()
    assert "CRC" in "".join(verify(tmp_path / "cache").damaged.values())


def test_one_attempt_is_compared_with_the_next(stored, tmp_path):
    server = Served(stored.parent)
    try:
        url = f"{server.url}/{stored.name}"
        options = {"local": tmp_path / "cache", "batch_size": 10, "framework": "numpy", "fields": FIELD, "fetch": fb.Fetch(retry=1)}
        with fb.Loader(remote=url, **options, **SKIP) as loader:
            assert len([number for batch in rows(loader) for number in batch]) == COUNT - 1
    finally:
        server.close()


def test_a_damaged_shard_is_repaired_once_its_origin_is_whole(tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "data.tfrecord").write_bytes(records())
    server = Served(tmp_path / "served")
    url, cache = f"{server.url}/data.tfrecord", tmp_path / "cache"
    with fb.Loader(remote=url, local=cache, batch_size=10, framework="numpy", fields=FIELD, **SKIP) as loader:
        rows(loader)
    shards = json.loads((cache / "index.json").read_text())["shards"]
    for folder in (cache, tmp_path / "served"):
        (folder / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    assert not verify(cache, remote=server.url, repair=True).is_intact
    (tmp_path / "served" / "data.tfrecord").write_bytes(b"".join(WHOLE))
    verify(cache, remote=server.url, repair=True)
    assert verify(cache).is_intact
    server.close()


def test_the_records_of_a_damaged_chunk_are_left_out_alone(tmp_path):
    content, lost = chunks()
    (tmp_path / "data.array_record").write_bytes(content)
    options = {"local": tmp_path / "cache", "batch_size": 10, "framework": "numpy"}
    fields = {"record": fb.Bytes("record")}
    for _ in range(2):
        with fb.Loader(remote=tmp_path / "data.array_record", fields=fields, **options, **SKIP) as loader:
            assert sum(len(batch["record"]) for batch in loader) == 7 - lost
            assert loader.stats()["counters"]["samples_skipped"] == lost
        with fb.Loader(remote=tmp_path / "data.array_record", fields=fields, **options) as loader:
            with pytest.raises(fb.FormatError, match=r"CRC.*data\.array_record"):
                list(loader)
