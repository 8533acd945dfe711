"""Buckets by length: batches of samples of similar length, on any number of ranks and after a resume."""

import json

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered

import forebay as fb

SAMPLES = 480
GLOBAL_BATCH = 16
WINDOW = 5
LENGTHS = np.random.default_rng(4).geometric(0.02, SAMPLES)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lengths") / "set"
    columns = {"number": "int", "length": "int32", "tokens": "ndarray:uint16", "text": "str", "data": "bytes"}
    with fb.MDSWriter(out=folder, columns=columns, size_limit=1 << 13) as writer:
        for number, length in enumerate(LENGTHS.tolist()):
            tokens = np.arange(length, dtype=np.uint16)
            row = {"number": number, "length": np.int32(length), "tokens": tokens, "text": "x" * length, "data": b"." * length}
            writer.write(row)
    return str(folder)


def order(**options):
    return fb.Order(**{"num_canonical_nodes": 2, "bucket_batches": WINDOW} | options)


def global_batches(folder, ranks, state=None, **arguments):
    steps = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with ordered(folder, batch_size=GLOBAL_BATCH // ranks, shuffle=True, world=world, **{"order": order()} | arguments) as loader:
            if state is not None:
                loader.load_state_dict(state)
            steps.append(numbers(loader))
    assert len({len(of_rank) for of_rank in steps}) == 1
    return [sorted(sum(step, [])) for step in zip(*steps, strict=True)]


def padding(batches):
    """Share of padding in batches that are padded to their longest row."""
    whole = sum(LENGTHS[batch].max() * len(batch) for batch in batches)
    return 1 - sum(LENGTHS[batch].sum() for batch in batches) / whole


def reference(positions):
    """The batches of an epoch on one canonical node, from its numbers in shuffled order: sorted windows, in any order."""
    windows = []
    size = WINDOW * GLOBAL_BATCH
    for start in range(0, len(positions), size):
        window = positions[start : start + size]
        ranked = sorted(window, key=lambda number: LENGTHS[number])
        windows.append([sorted(ranked[at : at + GLOBAL_BATCH]) for at in range(0, len(ranked), GLOBAL_BATCH)])
    return windows


def test_windows_of_the_shuffled_order_are_sorted_cut_and_shuffled(folder):
    plain = sum(global_batches(folder, 1, order=order(num_canonical_nodes=1)), [])
    with ordered(folder, batch_size=GLOBAL_BATCH, shuffle=True, order=order(num_canonical_nodes=1)) as loader:
        positions = sum(numbers(loader), [])
    assert sorted(plain) == sorted(positions)
    for epoch in range(2):
        with ordered(folder, batch_size=GLOBAL_BATCH, shuffle=True, order=order(num_canonical_nodes=1)) as loader:
            loader.set_epoch(epoch)
            positions = sum(numbers(loader), [])
        buckets = order(bucket_by="length", num_canonical_nodes=1)
        with ordered(folder, batch_size=GLOBAL_BATCH, shuffle=True, order=buckets) as loader:
            loader.set_epoch(epoch)
            found = [sorted(batch) for batch in numbers(loader)]
        expected = reference(positions)
        windows = [found[start : start + WINDOW] for start in range(0, len(found), WINDOW)]
        assert [sorted(window) for window in windows] == [sorted(window) for window in expected]
        assert windows != expected, "the batches of a window are shuffled"


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_global_batches_are_equal_on_any_number_of_ranks_and_after_a_resume(folder, nodes):
    options = {"order": order(bucket_by="length", num_canonical_nodes=nodes)}
    whole = global_batches(folder, 1, **options)
    assert sorted(sum(whole, [])) == list(range(SAMPLES))
    assert padding(whole) < 0.5 < 0.65 < padding(global_batches(folder, 1, order=order(num_canonical_nodes=nodes)))
    for ranks in (2, 8):
        assert global_batches(folder, ranks, **options) == whole
    world = fb.World(rank=0, world_size=2, local_rank=0, local_world_size=2)
    with ordered(folder, batch_size=8, shuffle=True, world=world, **options) as loader:
        batches = iter(loader)
        # In the middle of a window.
        for _ in range(7):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1000
    for ranks in (1, 4, 8):
        assert global_batches(folder, ranks, state, **options) == whole[7:]


def test_rows_of_a_step_are_of_similar_length_on_all_ranks(folder):
    of_rank = []
    for rank in range(4):
        world = fb.World(rank=rank, world_size=4, local_rank=rank, local_world_size=4)
        buckets = order(bucket_by="length", num_canonical_nodes=1)
        with ordered(folder, batch_size=4, shuffle=True, order=buckets, world=world) as loader:
            of_rank.append([int(LENGTHS[batch].max()) for batch in numbers(loader)])
    longest = np.array(of_rank)
    waits = 1 - longest.mean() / longest.max(0).mean()
    assert waits < 0.3, waits


@pytest.mark.parametrize("column", ["tokens", "text", "data"])
def test_the_stored_bytes_of_a_second_column_are_lengths_too(folder, column):
    by_column, by_length = (global_batches(folder, 2, order=order(bucket_by=name)) for name in (column, "length"))
    assert by_column == by_length


def test_lengths_are_arrays_too_and_kept_samples_have_theirs(folder, tmp_path):
    np.save(tmp_path / "lengths.npy", LENGTHS)
    for subset in (None, range(100, 420)):
        kept = fb.Select(subset=subset)
        whole = global_batches(folder, 2, order=order(bucket_by="length"), select=kept)
        assert global_batches(folder, 2, order=order(bucket_by=LENGTHS), select=kept) == whole
        assert global_batches(folder, 2, order=order(bucket_by=tmp_path / "lengths.npy"), select=kept) == whole


def test_buckets_combine_with_weights_repeats_and_batching_methods(folder):
    options = {"order": order(bucket_by="length", repeat_augment=2), "select": fb.Select(weights=1.0 / LENGTHS)}
    whole = global_batches(folder, 1, **options)
    assert global_batches(folder, 8, **options) == whole and len(sum(whole, [])) == SAMPLES
    streams = [fb.Stream(local=folder, select=fb.Select(subset="0:240")), fb.Stream(local=folder, select=fb.Select(subset="240:"))]
    for method in ("stratified", "per_stream"):
        with fb.Loader(
            streams=streams, fields=NUMBER, batch_size=16, shuffle=True, order=order(batching_method=method, bucket_by="length")
        ) as loader:
            assert padding(numbers(loader)) < 0.5


def test_without_a_shuffle_the_batches_of_a_window_are_from_the_shortest_to_the_longest(folder):
    with ordered(folder, batch_size=GLOBAL_BATCH, order=fb.Order(bucket_by="length", bucket_batches=WINDOW)) as loader:
        found = numbers(loader)
    assert [sorted(batch) for batch in found] == sum(reference(list(range(SAMPLES))), [])


def test_buckets_that_cannot_be_made_are_rejected_with_the_change(folder):
    for options, message in [
        ({"order": fb.Order(bucket_by="x")}, r'bucket_by cannot be "x": there is no column `x`'),
        ({"order": fb.Order(bucket_by=[1.0])}, r"a different length \(.*numbers 1, samples 480"),
        ({"order": fb.Order(bucket_by="length", bucket_batches=0)}, "bucket_batches"),
        ({"order": fb.Order(bucket_by="length", batching_method="device_per_stream")}, "every batching_method but"),
        ({"order": fb.Order(bucket_by="length", bucket_batches=1 << 30)}, "lower it"),
        ({"order": fb.Order(bucket_by=-LENGTHS)}, "and not -"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            ordered(folder, **options)


def test_a_state_is_of_its_buckets_and_their_global_batch(folder):
    def made(batch_size=16, **options):
        return ordered(folder, batch_size=batch_size, shuffle=True, **options)

    with (
        made(order=fb.Order(bucket_by="length")) as buckets,
        made() as plain,
        made(8, order=fb.Order(bucket_by="length")) as other,
        made(order=fb.Order(bucket_by="number")) as longer,
    ):
        state = buckets.state_dict()
        for loader, message in [
            (plain, "buckets was 64 batches of 16 samples, lengths [0-9a-f]+ and is none"),
            (other, "buckets was 64 batches of 16 samples, .* and is 64 batches of 8 samples"),
            (longer, "buckets was 64 batches"),
        ]:
            with pytest.raises(fb.StateError, match=message):
                loader.load_state_dict(state)
        with pytest.raises(fb.StateError, match="buckets was none and is 64 batches"):
            buckets.load_state_dict(plain.state_dict())
        buckets.load_state_dict(state)
