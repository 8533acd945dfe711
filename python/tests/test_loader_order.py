"""The order of forebay.Loader, and checkpoints of it."""

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import SAMPLES, write_pictures

import forebay as fb

torch = pytest.importorskip("torch")


def test_an_unshuffled_epoch_has_the_samples_in_stored_order(pictures):
    with ordered(pictures) as loader:
        batches = numbers(loader)
        assert sum(batches, []) == list(range(SAMPLES))
        assert [len(b) for b in batches] == [16] * 12 + [8] and len(loader) == 13
    with ordered(pictures, drop_last=True) as loader:
        assert [len(b) for b in numbers(loader)] == [16] * 12 and len(loader) == 12


def test_the_order_equals_the_reference_s(mosaicml, pictures):
    for algo in ("py1e", "py1br", "py1s", "py2s", "naive"):
        order = {"shuffle_algo": algo, "num_canonical_nodes": 2}
        theirs = mosaicml.StreamingDataset(local=pictures, batch_size=16, shuffle=True, shuffle_seed=3, **order)
        with ordered(pictures, shuffle=True, seed=3, order=fb.Order(**order)) as loader:
            for epoch in range(2):
                assert sum(numbers(loader), []) == [sample["number"] for sample in theirs], (algo, epoch)
        del theirs


def test_ranks_share_an_epoch_and_a_device_list_is_ranks(pictures):
    parts = []
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        with ordered(pictures, shuffle=True, order=fb.Order(num_canonical_nodes=2), world=world) as loader:
            parts.append(numbers(loader))
    assert sorted(sum(sum(parts, []), [])) == list(range(SAMPLES))
    with ordered(pictures, device=["cpu", "cpu"], shuffle=True, order=fb.Order(num_canonical_nodes=2)) as loader:
        assert [[b["number"].tolist() for b in both] for both in loader] == [list(pair) for pair in zip(*parts)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_checkpoint_resumes_on_a_different_number_of_ranks(pictures, ranks):
    order = {"shuffle": True, "order": fb.Order(num_canonical_nodes=2), "seed": 5}
    with ordered(pictures, **order) as loader:
        whole = numbers(loader)
    with ordered(pictures, **order) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
    assert len(json.dumps(state)) < 1000
    assert {"epoch": 0, "sample_in_epoch": 64, "num_canonical_nodes": 2, "shuffle_seed": 5}.items() <= state.items()
    rest = []
    for rank in range(ranks):
        place = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with ordered(pictures, batch_size=16 // ranks, world=place, **order) as loader:
            loader.load_state_dict(state, strict=ranks == 1)
            rest.append(numbers(loader))
            assert loader.epoch == 1
    for number, parts in enumerate(zip(*rest)):
        assert sorted(sum(parts, [])) == sorted(whole[4 + number])


def test_a_checkpoint_among_the_numbers_that_canonical_nodes_add_resumes_there(tmp_path):
    # 90 samples on 64 canonical nodes are 128 numbers; the reference resumes up to the 92nd.
    folder = write_pictures(tmp_path / "set", samples=90)
    arguments = {"local": folder, "batch_size": 4, "fields": NUMBER, "order": fb.Order(num_canonical_nodes=64), "shuffle": True}
    with fb.Loader(**arguments) as loader:
        whole, following = numbers(loader), numbers(loader)
    assert len(whole) == 32
    for stop in (22, 23, 24, 30, 31):
        with fb.Loader(**arguments) as loader:
            batches = iter(loader)
            for _ in range(stop):
                next(batches)
            state = loader.state_dict()
        assert (state["epoch"], state["sample_in_epoch"]) == (0, 4 * stop)
        with fb.Loader(**arguments) as loader:
            loader.load_state_dict(state)
            assert numbers(loader) == whole[stop:]
            assert numbers(loader) == following
        for rank in range(2):
            world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
            with fb.Loader(**{**arguments, "batch_size": 2}, world=world) as loader:
                loader.load_state_dict(state, strict=False)
                assert len(numbers(loader)) == 32 - stop
    with fb.Loader(**arguments) as loader:
        batches = iter(loader)
        for _ in range(32):
            next(batches)
        state = loader.state_dict()
    # The reference would reject the end of this epoch; here it is the start of the next.
    assert (state["epoch"], state["sample_in_epoch"]) == (1, 0)


def test_a_state_of_a_different_plan_is_rejected_with_the_arguments_that_differ(pictures):
    with ordered(pictures, shuffle=True) as loader:
        state = loader.state_dict()
    with ordered(pictures, shuffle=True, order=fb.Order(shuffle_algo="naive")) as loader:
        with pytest.raises(fb.StateError, match="shuffle_algo"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)
    with ordered(pictures) as loader, pytest.raises(fb.StateError):
        loader.load_state_dict({"epoch": "one"})


def test_break_ends_an_epoch_and_an_old_iterator_is_an_error(pictures):
    with ordered(pictures, shuffle=True) as loader:
        first = iter(loader)
        next(first)
        assert loader.epoch == 1
        second = iter(loader)
        with pytest.raises(fb.ClosedError, match="only one is alive at a time, so make a loader for each loop"):
            next(first)
        assert len(list(second)) == 13
        with pytest.raises(StopIteration):
            next(second)
        assert loader.epoch == 2


def at_once(pool, action):
    """Calls `action` in two threads that start together, and returns both results."""
    start = threading.Barrier(2)

    def call():
        start.wait()
        return action()

    return [one.result() for one in [pool.submit(call) for _ in range(2)]]


def test_of_two_threads_that_start_an_epoch_at_once_none_gets_a_part_of_one(pictures):
    """One has the whole epoch; the second, with an ended iterator, an error, unless it was through already."""
    with ordered(pictures) as loader, ThreadPoolExecutor(2) as pool:

        def read():
            try:
                return sum(numbers(loader), [])
            except fb.ClosedError:
                return None

        for _ in range(60):
            parts = at_once(pool, read)
            assert list(range(SAMPLES)) in parts
            assert all(part in (None, list(range(SAMPLES))) for part in parts), [len(part or ()) for part in parts]


def test_of_two_iterators_made_at_once_one_has_the_whole_epoch(pictures):
    with ordered(pictures) as loader, ThreadPoolExecutor(2) as pool:
        for _ in range(60):
            rows = []
            for batches in at_once(pool, lambda: iter(loader)):
                try:
                    rows.append(sum(len(batch["number"]) for batch in batches))
                except fb.ClosedError:
                    rows.append(0)
            assert sorted(rows) == [0, SAMPLES]


def test_augmentation_does_not_depend_on_threads_or_resumption(pictures):
    fields = {"x": fb.Image("image", fb.RandomResizedCrop(12), fb.RandomHorizontalFlip()), **NUMBER}
    common = {"local": pictures, "batch_size": 16, "fields": fields, "shuffle": True}
    with fb.Loader(threads=1, **common) as loader:
        want = {int(n): x for b in loader for n, x in zip(b["number"], b["x"])}
    with fb.Loader(threads=3, **common) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
        loader.load_state_dict(state)
        for b in loader:
            assert all(torch.equal(want[int(n)], x) for n, x in zip(b["number"], b["x"]))


def test_a_state_of_different_weights_names_them_as_numbers(pictures, packed, tmp_path, caplog):
    caplog.set_level(logging.WARNING, "forebay")

    def mix(*shares):
        streams = [fb.Stream(remote=remote, local=tmp_path / str(i), **share) for i, (remote, share) in enumerate(shares)]
        return fb.Loader(streams=streams, batch_size=16, fields=NUMBER)

    with mix((pictures, {"proportion": 0.7}), (packed, {"proportion": 0.3})) as loader:
        state = loader.state_dict()
    with mix((pictures, {"proportion": 0.5}), (packed, {"proportion": 0.5})) as loader:
        difference = "weights was proportion 0.7, proportion 0.3 and is proportion 0.5, proportion 0.5"
        with pytest.raises(fb.StateError, match=f"belongs to a different plan: {difference}; build the loader with"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)
        assert f"belongs to a different plan, which strict=False accepts: {difference}" in "".join(caplog.messages)
    with mix((pictures, {"repeat": 2.5}), (packed, {})) as loader:
        with pytest.raises(fb.StateError, match="weights was proportion 0.7, proportion 0.3 and is repeat 2.5, unset"):
            loader.load_state_dict(state)
    other = write_pictures(tmp_path / "set", samples=90)
    with fb.Loader(local=other, batch_size=16) as loader:
        with pytest.raises(fb.StateError, match=r"shard sizes was 400 samples in \d+ shards and is 90 samples in \d+ shards"):
            loader.load_state_dict(state)


def test_a_state_of_many_streams_has_less_than_a_kilobyte(pictures):
    streams = [fb.Stream(remote=pictures, split=None, proportion=1 / (3 + i)) for i in range(40)]
    with fb.Loader(streams=streams, batch_size=16, shuffle=True, fields=NUMBER) as loader:
        state = loader.state_dict()
    assert len(json.dumps(state)) < 1000
    assert state["forebay"]["described"]["weights"].endswith(", ... (40 streams)")


def test_a_state_that_is_older_than_its_words_is_compared_as_before(pictures):
    with ordered(pictures) as loader:
        state = loader.state_dict()
        del state["forebay"]["described"]
        loader.load_state_dict(state)
        state["forebay"]["plan"]["weights"] = "0123456789abcdef"
        with pytest.raises(fb.StateError, match="weights was 0123456789abcdef and is unset"):
            loader.load_state_dict(state)


def test_a_batch_that_is_looked_at_is_delivered_and_does_not_count_before(pictures):
    with ordered(pictures, shuffle=True) as loader:
        epochs = [numbers(loader) for _ in range(3)]
    with ordered(pictures, shuffle=True) as loader:
        fresh = loader.state_dict()

        def look(expected):
            before = loader.state_dict(), loader.epoch, loader.first_batch
            assert loader.adapter.peek()["number"].tolist() == loader.adapter.peek()["number"].tolist() == expected
            assert (loader.state_dict(), loader.epoch, loader.first_batch) == before

        for epoch in epochs:
            look(epoch[0])
            assert numbers(loader) == epoch
        loader.load_state_dict(fresh | {"sample_in_epoch": 32})
        look(epochs[0][2])
        assert numbers(loader) == epochs[0][2:]
        look(epochs[1][0])
        loader.set_epoch(1)
        assert numbers(loader) == epochs[1]
        look(epochs[2][0])
        loader.set_epoch(0)
        assert numbers(loader) == epochs[0]
        look(epochs[1][0])
        loader.load_state_dict(fresh)
        assert numbers(loader) == epochs[0]
        look(epochs[1][0])
        next(iter(loader))
        assert numbers(loader) == epochs[2]
        loader.load_state_dict(fresh | {"sample_in_epoch": SAMPLES})
        with pytest.raises(StopIteration):
            loader.adapter.peek()
