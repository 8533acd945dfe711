"""The order of tars: that of MDS with the same samples, on any number of ranks, from any store, after any end."""

import gzip
import json
import os
import signal
import subprocess
import sys

import pytest
import zstd
from tar_sets import FIELDS, SHARD_SAMPLES, braces, number_samples, rows, set_of_tars, write_mds_set, write_set

import forebay as fb

COUNT = sum(SHARD_SAMPLES)

SHUFFLED = {"shuffle": True, "shuffle_seed": 7, "num_canonical_nodes": 2}


def expected(first=0, count=COUNT):
    return [(key, int(fields["cls"]), fields["txt"].decode()) for key, fields in number_samples(first, count)]


def opened(remote, batch_size=8, **more):
    return fb.Loader(remote=remote, batch_size=batch_size, fields=FIELDS, framework="numpy", **more)


def batches(loader):
    return [rows(batch) for batch in loader]


def global_batches(remote, ranks, state=None, epochs=1, **more):
    """The samples of each step of all ranks, sorted, since their places in it depend on the number of ranks."""
    parts = []
    for rank in range(ranks):
        place = {"rank": rank, "world_size": ranks, "local_rank": rank, "local_world_size": ranks}
        with opened(remote, 8 // ranks, **place, **more) as loader:
            if state is not None:
                loader.load_state_dict(state, strict=False)
            parts.append([batch for _ in range(epochs) for batch in batches(loader)])
    return [sorted(sum(step, [])) for step in zip(*parts, strict=True)]


def test_an_unshuffled_epoch_has_the_samples_in_the_order_of_the_tars(tars):
    with opened(tars) as loader:
        assert len(loader) == 10
        assert sum(batches(loader), []) == expected()


@pytest.mark.parametrize("algo", ["py1e", "py1br", "py1s", "py2s", "naive"])
def test_a_shuffled_epoch_has_the_order_of_mds(tars, shards, algo):
    order = {**SHUFFLED, "shuffle_algo": algo}
    with opened(tars, **order) as ours, opened(shards, **order) as theirs:
        for _ in range(2):
            found = batches(ours)
            assert found == batches(theirs)
            assert sorted(set(sum(found, []))) == expected()
            assert sum(found, []) != expected()


def test_global_batches_are_equal_on_any_number_of_ranks(tars, shards):
    whole = global_batches(tars, 1, epochs=2, **SHUFFLED)
    assert whole == global_batches(shards, 1, epochs=2, **SHUFFLED)
    for ranks in (2, 4, 8):
        assert global_batches(tars, ranks, epochs=2, **SHUFFLED) == whole


@pytest.mark.parametrize("before", [1, 4])
def test_a_state_resumes_on_another_number_of_ranks(tars, before):
    whole = global_batches(tars, before, **SHUFFLED)
    place = {"rank": 0, "world_size": before, "local_rank": 0, "local_world_size": before}
    with opened(tars, 8 // before, **place, **SHUFFLED) as loader:
        taken = iter(loader)
        for _ in range(3):
            next(taken)
        state = json.loads(json.dumps(loader.state_dict()))
    for ranks in (1, 2, 8):
        assert global_batches(tars, ranks, state, **SHUFFLED) == whole[3:]


def test_a_state_of_the_same_samples_as_mds_resumes_in_tars(tars, shards):
    with opened(shards, **SHUFFLED) as loader:
        whole = batches(loader)
    with opened(shards, **SHUFFLED) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with opened(tars, **SHUFFLED) as loader:
        loader.load_state_dict(state, strict=False)
        assert batches(loader) == whole[1:]


def test_lists_joined_urls_and_braces_name_the_same_set(tars, tmp_path):
    folder = os.path.dirname(tars)
    write_set(tmp_path / "two", (9, 4), COUNT)
    two = f"{tmp_path}/two/train-{{000,001}}.tar"
    with opened(f"{tars}::{two}", **SHUFFLED) as joined:
        whole = batches(joined)
    assert sorted(set(sum(whole, []))) == expected(0, COUNT + 13)
    names = [f"{folder}/train-{n:03}.tar" for n in range(len(SHARD_SAMPLES))]
    with opened("::".join([*names, two]), **SHUFFLED) as loader:
        assert batches(loader) == whole


@pytest.mark.parametrize("shares", [("proportion", 0.75, 0.25), ("repeat", 1.5, 2), ("choose", 50, 30)])
def test_tars_mix_with_mds_as_two_sets_of_mds_do(tars, shards, tmp_path, shares):
    name, first, second = shares
    other = write_mds_set(tmp_path / "mds", (6, 14, 9), 1000)

    def mixed(remote, ranks):
        return [
            batch
            for rank in range(ranks)
            for batch in batches(
                fb.Loader(
                    streams=[fb.Stream(remote=remote, **{name: first}), fb.Stream(remote=other, **{name: second})],
                    batch_size=8 // ranks,
                    fields=FIELDS,
                    framework="numpy",
                    rank=rank,
                    world_size=ranks,
                    local_rank=rank,
                    local_world_size=ranks,
                    **SHUFFLED,
                )
            )
        ]

    for ranks in (1, 2):
        found = mixed(tars, ranks)
        assert found == mixed(shards, ranks)
        kinds = {number >= 1000 for batch in found for _, number, _ in batch}
        assert kinds == {False, True}


CHILD = """
import json, os, signal, sys
from test_tar_order import SHUFFLED, opened, rows

remote, local, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
loader = opened(remote, local=local or None, **SHUFFLED)
for state in sys.argv[4:]:
    loader.load_state_dict(json.loads(state))
for step, batch in enumerate(loader, 1):
    print(json.dumps([rows(batch), loader.state_dict()]), flush=True)
    if step == steps:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(remote, local, steps, *states):
    """Batches of a process that is killed after `steps`, and its last state."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    command = [sys.executable, "-c", CHILD, str(remote), str(local), str(steps), *states]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return [[tuple(row) for row in batch] for batch, _ in lines], json.dumps(lines[-1][1])


def test_a_process_that_is_killed_continues_where_its_last_state_was(tars):
    with opened(tars, **SHUFFLED) as loader:
        whole = batches(loader)
    found, state = killed(tars, "", 2)
    more, state = killed(tars, "", 4, state)
    assert [len(found), len(more)] == [2, 4]
    with opened(tars, **SHUFFLED) as loader:
        loader.load_state_dict(json.loads(state))
        assert found + more + batches(loader) == whole


def test_a_killed_process_leaves_a_cache_that_others_use(tars, stored_tars, tmp_path):
    with opened(tars, **SHUFFLED) as loader:
        whole = batches(loader)
    found, state = killed(stored_tars, tmp_path / "local", 3)
    with opened(stored_tars, local=tmp_path / "local", **SHUFFLED) as loader:
        loader.load_state_dict(json.loads(state))
        assert found + batches(loader) == whole
    assert global_batches(stored_tars, 2, local=tmp_path / "local", **SHUFFLED) == [sorted(batch) for batch in whole]


def test_a_pass_over_the_tars_that_was_killed_is_done_again(tars, bucket, stored_tars, tmp_path):
    with opened(tars, **SHUFFLED) as loader:
        whole = batches(loader)
    bucket.held.clear()
    bucket.holds = lambda _, method, key: key.endswith("train-003.tar") and method == "GET"
    try:
        command = [sys.executable, "-c", CHILD, stored_tars, str(tmp_path / "local"), "1"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
        assert bucket.held.wait(60)
        process.kill()
        assert process.communicate()[0] == b""
    finally:
        bucket.holds = lambda *_: False
    with opened(stored_tars, local=tmp_path / "local", **SHUFFLED) as loader:
        assert batches(loader) == whole


def stored_bytes(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("limit", [None, 100_000])
def test_tars_of_a_bucket_are_those_of_the_folder(tars, stored_tars, bucket, tmp_path, limit):
    """With a limit, for which the tars have to be fetched several times."""
    assert sum(map(len, set_of_tars())) > 140_000
    with opened(tars, **SHUFFLED) as loader:
        whole = [batches(loader) for _ in range(3)]
    with opened(stored_tars, local=tmp_path / "local", cache_limit=limit, **SHUFFLED) as loader:
        assert [batches(loader) for _ in range(3)] == whole
    assert limit is None or stored_bytes(tmp_path / "local") <= limit
    bucket.seen.clear()
    with opened(stored_tars, local=tmp_path / "local", cache_limit=limit, **SHUFFLED) as loader:
        assert batches(loader) == whole[0]
    fetched = [request.key for request in bucket.seen if request.method == "GET" and request.key.endswith(".tar")]
    assert bool(fetched) == (limit is not None)


@pytest.mark.parametrize("limit", [None, 100_000])
def test_tars_of_a_web_server_are_those_of_the_folder(tars, served, tmp_path, limit):
    write_set(tmp_path / "served/a set")
    with opened(tars, **SHUFFLED) as loader:
        whole = [batches(loader) for _ in range(2)]
    remote = f"{served.url}/a%20set/{braces()}"
    with opened(remote, local=tmp_path / "local", cache_limit=limit, **SHUFFLED) as loader:
        assert [batches(loader) for _ in range(2)] == whole


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_compressed_tars_are_unpacked_into_the_cache(tars, tmp_path, bucket, bucket_environment, ending, place):
    import gzip

    import zstd

    compress = {"gz": lambda data: gzip.compress(data, mtime=0), "zst": zstd.ZSTD_compress}[ending]
    packed = {f"train-{n:03}.tar.{ending}": compress(body) for n, body in enumerate(set_of_tars())}
    if place == "folder":
        (tmp_path / "packed").mkdir()
        for name, data in packed.items():
            (tmp_path / "packed" / name).write_bytes(data)
        remote = f"{tmp_path}/packed/{braces()}.{ending}"
    else:
        bucket.objects.update({f"packed-{ending}/{name}": data for name, data in packed.items()})
        remote = f"s3://bucket/packed-{ending}/{braces()}.{ending}"
    with opened(tars, **SHUFFLED) as loader:
        whole = [batches(loader) for _ in range(2)]
    with opened(remote, local=tmp_path / "local", cache_limit=100_000, **SHUFFLED) as loader:
        assert [batches(loader) for _ in range(2)] == whole
    assert stored_bytes(tmp_path / "local") <= 100_000
