"""Relative paths of a loader, and `~`."""

import os

from loaders import NUMBER, numbers
from picture_set import write_pictures

import forebay as fb


def values(**arguments):
    return fb.Loader(batch_size=4, shuffle=False, **arguments)


def write(folder, first, compression=None):
    """Writes eight numbers of equal size and without hashes: the indexes of two such sets are equal."""
    with fb.MDSWriter(out=str(folder), columns={"number": "int64"}, compression=compression, size_limit=90) as writer:
        for number in range(first, first + 8):
            writer.write({"number": number})


def test_a_loader_keeps_its_folders_when_the_working_directory_changes(tmp_path, monkeypatch):
    for name, first in ("a", 0), ("b", 100):
        write(tmp_path / name / "remote", first)
    monkeypatch.chdir(tmp_path / "a")
    loader = values(remote="remote", local="local", fields=NUMBER)
    monkeypatch.chdir(tmp_path / "b")
    assert sum(numbers(loader), []) == list(range(8))
    loader.close()
    assert not os.path.exists("local")
    assert len(os.listdir(tmp_path / "a" / "local")) > 1


def test_equal_relative_names_in_two_folders_have_two_default_caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, first in ("a", 0), ("b", 100):
        write(tmp_path / name / "data" / "train", first, "zstd")
        monkeypatch.chdir(tmp_path / name)
        with values(remote="data/train", fields=NUMBER) as loader:
            assert sum(numbers(loader), []) == list(range(first, first + 8))


def test_the_home_directory_has_its_short_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    write_pictures(str(tmp_path / "data"))
    with values(local="~/data", fields=NUMBER) as loader:
        assert len(loader) > 0
    assert not os.path.exists("~")
