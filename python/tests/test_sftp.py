"""Data sets on an SFTP server: `Loader`, `Stream` and `verify` read them like folders under any fault of the connection."""

import os
import shutil
import subprocess
import sys
import threading

import pytest
from loaders import NUMBER, numbers
from sftp_server import COUNT

import forebay as fb
from forebay.verify import verify


def loader(remote, local, **kwargs):
    kwargs.setdefault("batch_size", 16)
    return fb.Loader(remote=remote, local=local, fields=NUMBER, shuffle=True, **kwargs)


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_samples_equal_the_samples_of_the_folder_on_every_rank(sftp, sftp_folder, tmp_path, ranks):
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with (
            loader(sftp_folder / "set", None, split="train", world=world) as expected,
            loader(sftp.url("set"), tmp_path / "local", split="train", world=world) as found,
        ):
            assert [numbers(found), numbers(found)] == [numbers(expected), numbers(expected)]


def test_streams_of_a_server_and_of_a_folder_are_mixed(sftp, sftp_folder, tmp_path):
    streams = [
        fb.Stream(remote=sftp.url("set/train"), local=tmp_path / "a", repeat=1),
        fb.Stream(remote=sftp_folder / "set/train", repeat=1),
    ]
    with fb.Loader(streams=streams, fields=NUMBER, batch_size=16) as mixed:
        assert sorted(sum(numbers(mixed), [])) == sorted(2 * list(range(COUNT)))


def test_an_epoch_is_resumed_in_its_middle_without_the_cache(sftp, sftp_folder, tmp_path):
    with loader(sftp_folder / "set/train", None) as expected:
        batches = numbers(expected)
    with loader(sftp.url("set/train"), tmp_path / "first") as first:
        begun = iter(first)
        assert [next(begun)["number"].tolist() for _ in range(10)] == batches[:10]
        state = first.state_dict()
    with loader(sftp.url("set/train"), tmp_path / "second") as second:
        second.load_state_dict(state)
        assert numbers(second) == batches[10:]


def test_shards_are_evicted_and_fetched_again_under_a_cache_limit(sftp, sftp_folder, tmp_path):
    limit = 32768
    with loader(sftp.url("set/train"), tmp_path / "local", cache_limit=limit, engine=fb.Engine(predownload=32)) as limited:
        for _ in range(2):
            assert sorted(sum(numbers(limited), [])) == list(range(COUNT))
    assert sum(path.stat().st_size for path in (tmp_path / "local").iterdir()) <= limit


@pytest.fixture
def large(tmp_path):
    """Folder with a data set of one shard of some MB."""
    with fb.MDSWriter(out=tmp_path / "served/large", columns={"data": "bytes"}, size_limit=None) as writer:
        for number in range(6):
            writer.write({"data": bytes([number]) * (1 << 20)})
    return tmp_path / "served/large"


def test_a_connection_that_is_lost_in_a_file_is_opened_again_for_the_missing_bytes(sftp, large, tmp_path):
    # The client asks for 4 MiB at a time: all of the first ones have arrived.
    sftp.cut_at = 4 << 20
    with fb.Loader(remote=sftp.url("large"), local=tmp_path / "local", batch_size=1) as found:
        rows = [batch["data"][0] for batch in found]
        assert [row[0] for row in rows] == list(range(6)) and {len(row) for row in rows} == {1 << 20}
        assert found.stats()["counters"]["store_retries"] == 1
    firsts = {}
    for connection, name, at in sftp.reads:
        if name == "shard.00000.mds":
            firsts[connection] = min(at, firsts.get(connection, at))
    assert list(firsts.values()) == [0, 4 << 20]


def test_an_idle_connection_that_the_server_has_closed_costs_no_attempt(sftp, tmp_path):
    with loader(sftp.url("set/train"), tmp_path / "local", fetch=fb.Fetch(retry=1)) as found:
        sftp.disconnect()
        assert sorted(sum(numbers(found), [])) == list(range(COUNT))


def test_download_retry_limits_the_attempts(sftp, tmp_path):
    remote = sftp.url("set/train")
    sftp.cut_after = 0
    with pytest.raises(fb.NetworkError, match=r"connection to 127\.0\.0\.1, port \d+ was lost.*attempt 1 of 1"):
        loader(remote, tmp_path / "local", fetch=fb.Fetch(retry=1))
    sftp.cut_after = 0
    with loader(remote, tmp_path / "local", fetch=fb.Fetch(retry=2)) as found:
        assert len(found) == COUNT / 16


def test_the_threads_and_connections_of_a_loader_end_with_it(sftp, tmp_path):
    def own():
        return {thread for thread in threading.enumerate() if thread.name.startswith("forebay")}

    before = own()
    found = loader(sftp.url("set/train"), tmp_path / "local")
    next(iter(found))
    serving = [thread for thread in own() - before if thread.name == "forebay-remotes"]
    assert len(serving) == 1
    found.close()
    serving[0].join(600)
    assert not serving[0].is_alive()


def test_a_data_set_on_a_server_is_verified_and_repairs_its_cache(sftp, sftp_folder, tmp_path):
    remote = sftp.url("set/train")
    report = verify(remote)
    assert report.is_intact and report.shards > 5 and not report.absent
    cache = tmp_path / "cache"
    shutil.copytree(sftp_folder / "set/train", cache)
    os.remove(cache / "shard.00001.mds")
    damaged = cache / "shard.00002.mds"
    damaged.write_bytes(bytes(damaged.stat().st_size))
    report = verify(cache, remote=remote, repair=True, complete=True)
    assert report.is_intact and report.repaired == 2 and not report.absent
    assert damaged.read_bytes() == (sftp_folder / "set/train/shard.00002.mds").read_bytes()
    (sftp_folder / "set/train/shard.00003.mds").write_bytes(b"short")
    assert list(verify(remote).damaged) == ["shard.00003.mds"]


FORKS = """
import os, sys
import forebay as fb

def numbers(local):
    with fb.Loader(remote=sys.argv[1], local=local, fields={"number": fb.Scalar("number")}, batch_size=16) as loader:
        return sorted(number for batch in loader for number in batch["number"].tolist())

child = os.fork()
if child == 0:
    os._exit(0 if numbers(sys.argv[2] + "/child") == list(range(int(sys.argv[3]))) else 1)
assert numbers(sys.argv[2] + "/parent") == list(range(int(sys.argv[3])))
assert os.waitpid(child, 0)[1] == 0
"""
"""Reads a data set in a process and in its fork. Not in the process of the tests: a fork copies locks of OpenSSL, which a
thread of the server may hold."""


def test_a_forked_process_makes_its_own_connections(sftp, tmp_path):
    subprocess.run([sys.executable, "-c", FORKS, sftp.url("set/train"), tmp_path, str(COUNT)], check=True)
