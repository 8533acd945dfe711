"""Compression, hashes and indexing, against the reference."""

import numpy as np
import pytest

from forebay.streaming.base import compression, hashing
from forebay.streaming.base.array import Array

DATA = [b"", b"x", b"forebay " * 5000, np.random.default_rng(0).bytes(20_000)]


def test_each_compression_reads_the_files_of_both_packages(reference):
    theirs = reference("base.compression")
    assert compression.get_compressions() == theirs.get_compressions()
    for name in sorted(compression.get_compressions()):
        for data in DATA[2:3] if ":" in name else DATA:
            assert theirs.decompress(name, compression.compress(name, data)) == data, name
            assert compression.decompress(name, theirs.compress(name, data)) == data, name


def test_compressions_have_the_same_names_and_errors(either):
    module = either("base.compression")
    assert module.get_compression_extension("zstd:7") == "zstd"
    assert module.is_compression("br") and not module.is_compression("br:12") and not module.is_compression(None)
    assert module.compress(None, b"as it is") == b"as it is"
    assert module.Zstandard().level == 3 and module.Brotli.levels == list(range(12))
    for call in (module.compress, module.decompress):
        with pytest.raises(ValueError, match="br:99 is not a supported compression algorithm"):
            call("br:99", b"")
    with pytest.raises(AssertionError):
        module.Gzip(10)


@pytest.mark.parametrize("name", ["br", "bz2", "gz", "snappy", "zstd"])
def test_damaged_streams_are_errors(either, name):
    module = either("base.compression")
    packed = module.compress(name, DATA[2])
    with pytest.raises(Exception):
        module.decompress(name, packed[: len(packed) // 2])


def test_a_gzip_file_contains_no_time_stamp(monkeypatch):
    import time

    first = compression.compress("gz", DATA[2])
    monkeypatch.setattr(time, "time", lambda: 1e9)
    assert compression.compress("gz", DATA[2]) == first


def test_hashes_are_equal(reference):
    theirs = reference("base.hashing")
    assert hashing.get_hashes() == theirs.get_hashes()
    assert len(hashing.get_hashes()) == 17
    for name in hashing.get_hashes():
        for data in DATA:
            assert hashing.get_hash(name, data) == theirs.get_hash(name, data), name


def test_an_unknown_hash_is_named(either):
    assert not either("base.hashing").is_hash("sha3")
    with pytest.raises(ValueError, match="sha3 is not a supported hash algorithm"):
        either("base.hashing").get_hash("sha3", b"")


def test_batch_slices_equal_the_reference_s(reference):
    def make(base):
        class Numbers(base):
            size = 10

            def get_item(self, idx):
                return idx

        return Numbers()

    mine, other = make(Array), make(reference("base.array").Array)
    bounds = [None, -42, -10, -9, -3, 0, 4, 9, 10, 42]
    for start in bounds:
        for stop in bounds:
            for step in [None, -3, -1, 1, 3]:
                at = slice(start, stop, step)
                assert mine[at] == other[at], at
    nested = [[1, [np.int64(-2)]], slice(0, 3), np.arange(4).reshape(2, 2)]
    assert mine[nested] == other[nested] == [[1, [8]], [0, 1, 2], [[0, 1], [2, 3]]]
    for base in (mine, other):
        with pytest.raises(ValueError, match="Unsupported argument type"):
            base["1"]
