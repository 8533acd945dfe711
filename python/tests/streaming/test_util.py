"""Helpers, against the reference."""

import json
import logging
import os
from multiprocessing.shared_memory import SharedMemory

import pytest

from forebay.streaming.base import util
from forebay.streaming.base.constant import SHM_TO_CLEAN
from forebay.streaming.base.format import MDSWriter
from forebay.streaming.base.local import LocalDataset

SIZES = ["1234", "1b", "50B", " 100 kb", "1.39Gb", "2.0yb", 7, 35.78, "", "12kbb", "79kkb", "b", "1.5b", "kb"]
NUMBERS = ["1234", "50K", " 100 k", "1.39b", "3 T", 12, 35.78, "", "79bk", "79 b    m", "p 64", "k"]


@pytest.mark.parametrize(("name", "texts"), [("bytes_to_int", SIZES), ("number_abbrev_to_int", NUMBERS)])
def test_numbers_with_units_are_parsed_as_by_the_reference(reference, name, texts):
    theirs, ours = getattr(reference("base.util"), name), getattr(util, name)
    for text in texts:
        try:
            expected = theirs(text)
        except ValueError:
            with pytest.raises(ValueError, match="Unsupported value/suffix"):
                ours(text)
        else:
            assert ours(text) == expected, text


def test_comma_separated_lists_are_parsed(either):
    assert either("base.util").get_list_arg("a,b") == ["a", "b"]
    assert either("base.util").get_list_arg("") == []


def test_a_wait_for_a_file_ends_at_its_time_limit(either, tmp_path):
    wait = either("base.util").wait_for_file_to_exist
    (tmp_path / "here").write_text("")
    wait(str(tmp_path / "here"), 0.001, 1, "no file")
    with pytest.raises(RuntimeError, match="no file"):
        wait(str(tmp_path / "never"), 0.001, 0.01, "no file ")


def test_retry_counts_attempts_and_cleans_up_after_each(either, monkeypatch):
    module = either("base.util")
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(module, "sleep", lambda _: None, raising=False)
    for kinds in (KeyError, [KeyError, OSError] if module is util else KeyError):
        calls, cleaned = [], []

        @module.retry(kinds, clean_up_fn=lambda: cleaned.append(1), num_attempts=3)
        def fail():
            calls.append(1)
            raise KeyError("again")

        with pytest.raises(KeyError):
            fail()
        assert len(calls) == len(cleaned) == 3

    @module.retry
    def fine(value):
        return value

    assert fine(3) == 3 and fine.__name__ == "fine"
    with pytest.raises(ValueError):
        module.retry(num_attempts=0)

    @module.retry(KeyError)
    def other():
        raise OSError("not one of those")

    with pytest.raises(OSError):
        other()


def test_stale_segments_of_the_reference_are_removed(monkeypatch):
    # Names that only this process on the machine uses.
    names = [f"{name}-{os.getpid()}" for name in SHM_TO_CLEAN]
    monkeypatch.setattr(util, "SHM_TO_CLEAN", names)
    left = [f"{prefix:06}_{name}" for prefix in range(2) for name in (names[0], names[-1])]
    for name in left:
        SharedMemory(name, create=True, size=64).close()
    util.clean_stale_shared_memory()
    for name in left:
        with pytest.raises(FileNotFoundError):
            SharedMemory(name)


def parts(folder, count=3):
    for part in range(count):
        with MDSWriter(out=str(folder / f"part{part}"), columns={"n": "int"}, size_limit=150) as writer:
            for i in range(5):
                writer.write({"n": 10 * part + i})
    return [str(folder / f"part{part}" / "index.json") for part in range(count)]


def test_merged_indexes_equal_the_reference_s(reference, tmp_path):
    for module in (util, reference("base.util")):
        folder = tmp_path / module.__name__
        parts(folder)
        module.merge_index(str(folder))
        dataset = LocalDataset(str(folder))
        assert [sample["n"] for sample in dataset[:]] == [10 * part + i for part in range(3) for i in range(5)]
    ours, theirs = ((tmp_path / m.__name__ / "index.json") for m in (util, reference("base.util")))
    assert ours.read_bytes() == theirs.read_bytes()


def test_each_index_in_a_list_is_merged_once(either, tmp_path):
    merge_index = either("base.util").merge_index
    urls = parts(tmp_path)
    missing = str(tmp_path / "gone" / "index.json")
    merge_index([urls[1], urls[0], (urls[0], missing), urls[1]], str(tmp_path))
    shards = json.loads((tmp_path / "index.json").read_text())["shards"]
    assert [shard["raw_data"]["basename"].split("/")[0] for shard in shards][:1] == ["part1"]
    with pytest.raises(RuntimeError, match=r"Failed to download index.json"):
        merge_index([missing], str(tmp_path))
    with pytest.raises(FileNotFoundError, match="Check data availability!"):
        merge_index([(missing, "")], str(tmp_path))
    with pytest.raises(ValueError, match="Invalid arguments"):
        merge_index({"a": 1}, str(tmp_path))


def test_a_merged_index_is_uploaded_and_the_local_folder_may_be_removed(either, tmp_path):
    module = either("base.util")
    local, remote = tmp_path / "local", tmp_path / "remote"
    parts(local)
    parts(remote)
    module.merge_index((str(local), str(remote)), keep_local=False)
    assert (remote / "index.json").exists() and not local.exists()


def test_merging_no_indexes_writes_a_log_line(either, tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        either("base.util").merge_index([], str(tmp_path))
    assert "index_file_urls" in caplog.text and not (tmp_path / "index.json").exists()


@pytest.mark.parametrize("remote", ["s3://bucket/set", "gs://bucket/set", "dbfs:/Volumes"])
def test_keys_become_urls(either, remote):
    form = either("base.util")._format_remote_index_files
    keys = ["set/a/index.json", "set/index.json", "set/a/shard.00000.mds"]
    assert form(remote, keys)[0].startswith(remote.split("/")[0])
