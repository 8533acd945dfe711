"""The order of tars: the order of MDS with the same samples, on any number of ranks, from any store, after any end."""

import gzip
import os

import pytest
import zstd
from source_matrix import SHUFFLED, Case, SourceMatrix, batches, global_batches, killed, opened, started, stored_bytes
from tar_sets import FIELDS, SHARD_SAMPLES, braces, number_samples, rows, set_of_tars, write_mds_set, write_set

import forebay as fb

COUNT = sum(SHARD_SAMPLES)


def expected(first=0, count=COUNT):
    return [(key, int(fields["cls"]), fields["txt"].decode()) for key, fields in number_samples(first, count)]


@pytest.fixture
def case(tars, stored_tars):
    return Case(tars, stored_tars, {"fields": FIELDS}, rows, expected(), ".tar")


class TestTars(SourceMatrix):
    CACHE_LIMIT = 100_000

    def test_the_limit_is_for_some_tars_only(self):
        assert sum(map(len, set_of_tars())) > 140_000


@pytest.mark.parametrize("algo", ["py1e", "py1br", "py1s", "py2s", "naive"])
def test_a_shuffled_epoch_has_the_order_of_mds(case, shards, algo):
    order = {**SHUFFLED, "order": fb.Order(shuffle_algo=algo, num_canonical_nodes=2)}
    with opened(case, **order) as ours, opened(case, shards, **order) as theirs:
        for _ in range(2):
            assert batches(case, ours) == batches(case, theirs)


@pytest.mark.parametrize("ranks", [1, 4])
def test_global_batches_equal_the_batches_of_mds(case, shards, ranks):
    whole = global_batches(case, ranks, epochs=2, **SHUFFLED)
    assert whole == global_batches(case, ranks, shards, epochs=2, **SHUFFLED)


def test_a_state_of_the_same_samples_as_mds_resumes_in_tars(case, shards):
    with opened(case, shards, **SHUFFLED) as loader:
        whole = batches(case, loader)
    with opened(case, shards, **SHUFFLED) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with opened(case, **SHUFFLED) as loader:
        loader.load_state_dict(state, strict=False)
        assert batches(case, loader) == whole[1:]


def test_lists_joined_urls_and_braces_name_the_same_set(case, tmp_path):
    folder = os.path.dirname(case.remote)
    write_set(tmp_path / "two", (9, 4), COUNT)
    two = f"{tmp_path}/two/train-{{000,001}}.tar"
    with opened(case, f"{case.remote}::{two}", **SHUFFLED) as joined:
        whole = batches(case, joined)
    assert sorted(set(sum(whole, []))) == expected(0, COUNT + 13)
    names = [f"{folder}/train-{n:03}.tar" for n in range(len(SHARD_SAMPLES))]
    with opened(case, "::".join([*names, two]), **SHUFFLED) as loader:
        assert batches(case, loader) == whole


@pytest.mark.parametrize("shares", [("proportion", 0.75, 0.25), ("repeat", 1.5, 2), ("choose", 50, 30)])
def test_tars_mix_with_mds_as_two_sets_of_mds_do(case, shards, tmp_path, shares):
    name, first, second = shares
    other = write_mds_set(tmp_path / "mds", (6, 14, 9), 1000)

    def mixed(remote, ranks):
        return [
            batch
            for rank in range(ranks)
            for batch in batches(
                case,
                fb.Loader(
                    streams=[fb.Stream(remote=remote, **{name: first}), fb.Stream(remote=other, **{name: second})],
                    batch_size=8 // ranks,
                    fields=FIELDS,
                    framework="numpy",
                    world=fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks),
                    **SHUFFLED,
                )
            )
        ]

    for ranks in (1, 2):
        found = mixed(case.remote, ranks)
        assert found == mixed(shards, ranks)
        kinds = {number >= 1000 for batch in found for _, number, _ in batch}
        assert kinds == {False, True}


def test_a_process_that_is_killed_continues_where_its_last_state_was(case):
    with opened(case, **SHUFFLED) as loader:
        whole = batches(case, loader)
    found, state = killed(case, case.remote, None, 2)
    more, state = killed(case, case.remote, None, 4, state)
    assert [len(found), len(more)] == [2, 4]
    with opened(case, **SHUFFLED) as loader:
        loader.load_state_dict(state)
        assert found + more + batches(case, loader) == whole


def test_a_pass_over_the_tars_that_was_killed_is_done_again(case, bucket, tmp_path):
    with opened(case, **SHUFFLED) as loader:
        whole = batches(case, loader)
    bucket.held.clear()
    bucket.holds = lambda _, method, key: key.endswith("train-003.tar") and method == "GET"
    try:
        with started(case, case.stored, tmp_path / "local", 1) as process:
            assert bucket.held.wait(600)
            process.kill()
            assert process.communicate()[0] == b""
    finally:
        bucket.holds = lambda *_: False
    with opened(case, case.stored, local=tmp_path / "local", **SHUFFLED) as loader:
        assert batches(case, loader) == whole


@pytest.mark.parametrize("ranks", [1, 2])
def test_tars_that_do_not_fit_the_cache_are_fetched_several_times(case, bucket, tmp_path, ranks):
    whole = global_batches(case, ranks, epochs=2, **SHUFFLED)
    options = {"local": tmp_path / "local", "cache_limit": TestTars.CACHE_LIMIT, **SHUFFLED}
    for _ in range(2):
        bucket.seen.clear()
        assert global_batches(case, ranks, case.stored, epochs=2, **options) == whole
        assert any(request.method == "GET" and request.key.endswith(".tar") for request in bucket.seen)


@pytest.mark.parametrize("limit", [None, TestTars.CACHE_LIMIT])
def test_tars_of_a_web_server_equal_the_tars_of_the_folder(case, served, tmp_path, limit):
    write_set(tmp_path / "served/a set")
    with opened(case, **SHUFFLED) as loader:
        whole = [batches(case, loader) for _ in range(2)]
    remote = f"{served.url}/a%20set/{braces()}"
    with opened(case, remote, local=tmp_path / "local", cache_limit=limit, **SHUFFLED) as loader:
        assert [batches(case, loader) for _ in range(2)] == whole


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_compressed_tars_are_unpacked_into_the_cache(case, tmp_path, bucket, ending, place):
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
    with opened(case, **SHUFFLED) as loader:
        whole = [batches(case, loader) for _ in range(2)]
    with opened(case, remote, local=tmp_path / "local", cache_limit=TestTars.CACHE_LIMIT, **SHUFFLED) as loader:
        assert [batches(case, loader) for _ in range(2)] == whole
    assert stored_bytes(tmp_path / "local") <= TestTars.CACHE_LIMIT
