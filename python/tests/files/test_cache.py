"""Copies of files on local disk."""

import fcntl
import multiprocessing
import os
import pickle
from pathlib import Path

import pytest
from bucket_server import bucket_server

import forebay as fb
from forebay.files.cache import FileCache


def content(number, length):
    return bytes((number + at) % 251 for at in range(length))


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number:02}").write_bytes(content(number, 1000 * number))
    return folder


def listed(source):
    files = fb.list_files(f"{source}/")
    len(files)
    return files


def copies(cache):
    return sorted(os.path.join(base, name) for base, _, names in os.walk(cache) for name in names if name != "total")


def held(cache):
    """Bytes of the folder, which nothing changes while its lock is held."""
    with open(Path(cache, "total"), "r+b") as total:
        fcntl.flock(total, fcntl.LOCK_EX)
        return sum(-(-os.path.getsize(path) // 4096) * 4096 for path in copies(cache))


def in_processes(count, function, *args):
    context = multiprocessing.get_context("spawn")
    with context.Pool(count) as pool:
        return pool.starmap(function, [args] * count, chunksize=1)


def load(files, cache, limit):
    most, found = 0, []
    for url, data in fb.load_files(files, cache=cache, cache_limit=limit, shard="none"):
        found.append((url, bytes(data)))
        most = max(most, held(cache))
    return found, most


def test_later_epochs_and_processes_read_the_copies(source, tmp_path):
    files = listed(source)
    loader = fb.load_files(files, cache=tmp_path / "cache")
    expected = list(loader)
    assert len(copies(tmp_path / "cache")) == 12
    for file in files:
        os.remove(file.url)
    assert list(loader) == expected
    assert sorted(fb.load_files(files, cache=tmp_path / "cache", ordered=False, shuffle=True)) == expected
    assert [pickle.loads(pickle.dumps(loader))[at] for at in range(12)] == expected
    assert in_processes(1, load, files, str(tmp_path / "cache"), None)[0][0] == expected


def test_processes_keep_the_limit_together(source, tmp_path):
    files, cache = listed(source), str(tmp_path / "cache")
    expected = [(file.url, content(number, 1000 * number)) for number, file in enumerate(files)]
    for found, most in in_processes(3, load, files, cache, 30_000):
        assert found == expected
        assert most <= 30_000
    assert 0 < held(cache) <= 30_000


def test_a_copy_that_is_damaged_or_evicted_is_fetched_again(source, tmp_path):
    files = listed(source)
    loader = fb.load_files(files, cache=tmp_path / "cache")
    expected = list(loader)
    whole = {path: open(path, "rb").read() for path in copies(tmp_path / "cache")}
    flipped, short, longer, gone = [path for path, data in whole.items() if data][:4]
    with open(flipped, "r+b") as file:
        file.write(bytes([whole[flipped][0] ^ 1]))
    os.truncate(short, 10)
    with open(longer, "ab") as file:
        file.write(b"more")
    real = FileCache.find

    def find(self, file):
        path = real(self, file)
        if path == gone:
            os.remove(path)
        return path

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileCache, "find", find)
        assert list(loader) == expected
    assert list(loader) == expected
    os.remove(longer)
    assert list(loader) == expected
    assert {path: open(path, "rb").read() for path in copies(tmp_path / "cache")} == whole


def test_a_file_that_changed_is_fetched_in_a_new_list(source, tmp_path):
    list(fb.load_files(listed(source), cache=tmp_path / "cache"))
    (source / "03").write_bytes(content(77, 3000))
    os.utime(source / "03", (1, 1))
    found = dict(fb.load_files(listed(source), cache=tmp_path / "cache"))
    assert found[f"{source}/03"] == content(77, 3000)


def test_a_file_that_is_replaced_after_its_list_is_not_kept(source, tmp_path):
    files = listed(source)
    (source / "03").write_bytes(content(77, 3000))
    os.utime(source / "03", (1, 1))
    loader = fb.load_files(files, cache=tmp_path / "cache")
    for _ in range(2):
        assert dict(loader)[f"{source}/03"] == loader[3][1] == content(77, 3000)
    assert len(copies(tmp_path / "cache")) == 11


def test_an_object_that_is_replaced_after_its_list_is_an_error_and_not_kept(tmp_path, monkeypatch):
    with bucket_server() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        bucket.objects |= {name: name.encode() * 1000 for name in "abc"}
        files = fb.list_files("s3://bucket/")
        assert len(files) == 3
        bucket.objects["b"] = b"B" * 1000
        loader = fb.load_files(files, cache=tmp_path / "cache")
        for _ in range(2):
            with pytest.raises(fb.StaleError, match="s3://bucket/b is not as it was listed"):
                list(loader)
        assert all(open(copy, "rb").read(1) == b"a" for copy in copies(tmp_path / "cache"))
        # The new list has its version.
        assert [data[:1] for _, data in fb.load_files(fb.list_files("s3://bucket/"), cache=tmp_path / "cache")][1] == b"B"
        assert len(copies(tmp_path / "cache")) == 3


def test_foreign_files_in_the_folder_stay(source, tmp_path):
    own = tmp_path / "cache" / "my" / "file"
    own.parent.mkdir(parents=True)
    own.write_bytes(bytes(50_000))
    assert len(list(fb.load_files(listed(source), cache=tmp_path / "cache", cache_limit=15_000))) == 12
    assert own.stat().st_size == 50_000


def test_a_file_beyond_the_limit_is_read_and_not_kept(source, tmp_path):
    assert len(list(fb.load_files(listed(source), cache=tmp_path / "cache", cache_limit=0))) == 12
    assert all(os.path.getsize(path) == 0 for path in copies(tmp_path / "cache"))


def test_a_copy_that_cannot_be_written_costs_the_copies_alone(source, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    for number in range(256):
        (cache / f"{number:02x}").write_bytes(b"a file in place of the folder of the copy")
    with pytest.warns(UserWarning, match="a file is not kept in the cache .*: a file cannot be written"):
        assert len(list(fb.load_files(listed(source), cache=cache))) == 12
    assert list((cache / "new").iterdir()) == [] and int((cache / "total").read_bytes()) == 0, "no room is lost"


def test_wrong_caches_are_errors(source, tmp_path):
    with pytest.raises(fb.ConfigError, match="no version"):
        list(fb.load_files([f"{source}/00"], cache=tmp_path / "cache"))
    with pytest.raises(fb.ConfigError, match="pass the folder"):
        fb.load_files(f"{source}/", cache_limit="1gb")
    with pytest.raises(fb.ConfigError, match="a local folder"):
        fb.load_files(f"{source}/", cache="s3://bucket/cache")
    (tmp_path / "file").touch()
    with pytest.raises(fb.ConfigError, match="can be written"):
        list(fb.load_files(f"{source}/", cache=tmp_path / "file"))
