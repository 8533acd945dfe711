"""Bytes that change on the way: the checksums of the formats find them, and they are fetched again."""

import contextlib
import functools
import gzip
import io
import pathlib
import shutil
import tarfile

import numpy as np
import pytest
from range_server import RangeHandler, Served
from tf_examples import example, record

import forebay as fb
from forebay.verify import verify

FILE = pathlib.Path(__file__).parents[3] / "tests/data/parquet/checksums.parquet"
# A byte of a value of the first page.
FLIPPED = 900
CHUNKS = FILE.parents[1] / "array_record/plain.array_record.gz"


class Flipping(RangeHandler):
    """Changes a bit of a byte in the first `times` answers that have it: a different bit each time."""

    times, at = 0, FLIPPED

    def answer(self, status, body, **headers):
        first = int(headers.get("content_range", "bytes 0-").removeprefix("bytes ").split("-")[0].strip("*/ ") or 0)
        at = type(self).at - first
        # Requests for the footer do not reach the page.
        if self.command == "GET" and status in (200, 206) and 0 <= at < len(body) and type(self).times > 0:
            type(self).times -= 1
            body = body[:at] + bytes([body[at] ^ 1 << type(self).times % 8]) + body[at + 1 :]
        super().answer(status, body, **headers)


@pytest.fixture
def flipping():
    handler = type("Handler", (Flipping,), {})
    server = Served(FILE.parent, handler)
    yield handler, f"{server.url}/{FILE.name}"
    server.close()


def ids(remote, **arguments):
    with fb.Loader(remote=remote, batch_size=1000, framework="numpy", **arguments) as loader:
        return next(iter(loader))["id"]


def test_a_changed_page_is_fetched_again(flipping):
    handler, url = flipping
    handler.times = 1
    assert np.array_equal(ids(url), np.arange(1000))
    assert handler.times == 0


def test_a_page_that_is_always_changed_is_an_error_and_not_kept(flipping):
    handler, url = flipping
    handler.times = 1000
    with pytest.raises(fb.FormatError, match="attempt 2 of 2"):
        ids(url, fetch=fb.Fetch(retry=2))
    handler.times = 0
    assert np.array_equal(ids(url), np.arange(1000))


def test_a_changed_footer_is_fetched_again(flipping):
    handler, url = flipping
    handler.times, handler.at = 1, FILE.stat().st_size - 1
    assert np.array_equal(ids(url), np.arange(1000))
    assert handler.times == 0


def test_a_changed_page_of_a_local_file_is_an_error(tmp_path):
    content = bytearray(FILE.read_bytes())
    content[FLIPPED] ^= 4
    (tmp_path / FILE.name).write_bytes(content)
    with pytest.raises(fb.FormatError, match="damaged"):
        ids(str(tmp_path / FILE.name))


# Sources of one file: its content, the byte that changes, and the fields that are read.
def records(compress=bytes):
    return compress(b"".join(record(example({"n": [number]})) for number in range(500)))


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number in range(50):
            info = tarfile.TarInfo(f"{number}.cls")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"%02d" % number))
    return out.getvalue()


DAMAGED = {
    "records": ("data.tfrecord", records, 200, {"n": fb.Scalar("n")}),
    "packed records": ("data.tfrecord.gz", functools.partial(records, gzip.compress), 900, {"n": fb.Scalar("n")}),
    "tars": ("data.tar", tar, 20_490, {"n": fb.Scalar("cls")}),
    "packed texts": ("data.jsonl.gz", lambda: gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(3000))), 900, {"n": fb.Scalar("n")}),
    "array records": ("data.array_record", lambda: gzip.decompress(CHUNKS.read_bytes()), 120, {"record": fb.Bytes("record")}),
}


@pytest.fixture(params=DAMAGED)
def damaged(request, tmp_path):
    """Server that changes a byte of the file of a source, the loader of its samples, and the folder of its cache."""
    name, content, place, fields = DAMAGED[request.param]
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / name).write_bytes(content())
    handler = type("Handler", (Flipping,), {"at": place})
    server = Served(tmp_path / "served", handler)

    def opened(**arguments):
        url, cache = f"{server.url}/{name}", tmp_path / "cache"
        return fb.Loader(remote=url, local=cache, batch_size=1000, framework="numpy", fields=fields, **arguments)

    yield handler, opened, tmp_path / "cache"
    server.close()


def rows(loader):
    return [np.asarray(value).tolist() for batch in loader for value in batch.values()]


def test_a_byte_that_changes_while_the_samples_are_counted_is_read_again(damaged):
    handler, opened, _ = damaged
    with opened() as loader:
        expected = rows(loader)
    shutil.rmtree(damaged[2])
    handler.times = 1
    with opened() as loader:
        assert rows(loader) == expected
    assert handler.times == 0


def test_a_byte_that_changes_while_a_shard_is_fetched_is_fetched_again_and_not_kept(damaged):
    handler, opened, cache = damaged
    with opened() as loader:
        handler.times = 1
        good = rows(loader)
        assert handler.times == 0
    assert good
    # The kept index of texts is no index of shards, which `verify` reads.
    if (cache / "index.json").exists() and b'"shards"' in (cache / "index.json").read_bytes():
        assert verify(cache).is_intact
    shutil.rmtree(cache)
    with opened(fetch=fb.Fetch(retry=2)) as loader:
        handler.times = 1000
        with pytest.raises(fb.FormatError, match="attempt 2 of 2"):
            rows(loader)
        handler.times = 0
    with opened() as loader:
        assert rows(loader) == good


def test_a_byte_of_a_record_that_changes_in_the_cache_is_found(tmp_path):
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "data.tfrecord").write_bytes(records())
    server = Served(tmp_path / "served")
    with contextlib.closing(server):
        url, fields = f"{server.url}/data.tfrecord", {"n": fb.Scalar("n")}
        with fb.Loader(remote=url, local=tmp_path / "cache", batch_size=100, fields=fields) as loader:
            list(loader)
    path = tmp_path / "cache" / "data.tfrecord"
    path.write_bytes(path.read_bytes()[:200] + b"x" + path.read_bytes()[201:])
    assert "CRC" in verify(tmp_path / "cache").damaged["data.tfrecord"]
