"""Indexes of tars in caches: of which tars they are, and what they are used for."""

import io
import json
import tarfile

import pytest

import forebay as fb
from forebay import tar_index

torch = pytest.importorskip("torch")

NUMBER = {"number": fb.Scalar("cls")}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_tar(path, numbers):
    """Writes a tar with a sample of the field `cls` for each number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number in numbers:
            content = str(number).encode()
            member = tarfile.TarInfo(f"{number:06}.cls")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def read(tars, **arguments):
    with fb.Loader(remote=str(tars), batch_size=2, fields=NUMBER, **arguments) as loader:
        return sorted(number for batch in loader for number in batch["number"].tolist())


@pytest.mark.parametrize("others", [1, 2])
def test_a_cache_folder_is_not_used_for_the_tars_of_another_place(tmp_path, others):
    local = tmp_path / "local"
    assert read(write_tar(tmp_path / "a/0.tar", range(3)), local=local) == [0, 1, 2]
    for number in range(others):
        write_tar(tmp_path / f"b/{number}.tar", range(10, 13))
    with pytest.raises(fb.StaleError, match="choose another `local`"):
        read("::".join(str(tmp_path / f"b/{number}.tar") for number in range(others)), local=local)
    assert read(tmp_path / "a/0.tar", local=local) == [0, 1, 2]


def test_empty_tars_have_no_fields_and_are_no_obstacle(tmp_path):
    for number, samples in enumerate([0, 3, 0]):
        write_tar(tmp_path / f"{number}.tar", range(samples))
    assert read(tmp_path / "{0..2}.tar") == [0, 1, 2]


def test_a_stopped_run_is_not_continued_in_another_folder(tmp_path, monkeypatch):
    for folder, samples in (("a", 3), ("b", 5)):
        write_tar(tmp_path / folder / "set/0.tar", range(samples))
        write_tar(tmp_path / folder / "set/1.tar", range(samples))
    (tmp_path / "a/set/1.tar").write_bytes(b"no tar" * 1_000)
    monkeypatch.chdir(tmp_path / "a")
    with pytest.raises(fb.FormatError):
        tar_index.index_tars("set/{0..1}.tar", threads=1)
    monkeypatch.chdir(tmp_path / "b")
    assert tar_index.index_tars("set/{0..1}.tar").samples == 10
    index = json.loads((tmp_path / "b/set/index.json").read_text())
    assert [shard["samples"] for shard in index["shards"]] == [5, 5]
