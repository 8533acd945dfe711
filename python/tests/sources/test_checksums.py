"""Bytes that change on the way: Parquet's checksums of pages find them, and the rows are fetched again."""

import pathlib

import numpy as np
import pytest
from range_server import RangeHandler, Served

import forebay as fb

FILE = pathlib.Path(__file__).parents[3] / "tests/data/parquet/checksums.parquet"
# A byte of a value of the first page.
FLIPPED = 900


class Flipping(RangeHandler):
    """Changes one bit of a page in the first `times` answers that have it."""

    times = 0

    def answer(self, status, body, **headers):
        first = int(headers.get("content_range", "bytes 0-").removeprefix("bytes ").split("-")[0].strip("*/ ") or 0)
        at = FLIPPED - first
        # Requests for the footer do not reach the page.
        if self.command == "GET" and status in (200, 206) and 0 <= at < len(body) and type(self).times > 0:
            type(self).times -= 1
            body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
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
        ids(url, download_retry=2)
    handler.times = 0
    assert np.array_equal(ids(url), np.arange(1000))


def test_a_changed_page_of_a_local_file_is_an_error(tmp_path):
    content = bytearray(FILE.read_bytes())
    content[FLIPPED] ^= 4
    (tmp_path / FILE.name).write_bytes(content)
    with pytest.raises(fb.FormatError, match="damaged"):
        ids(str(tmp_path / FILE.name))
