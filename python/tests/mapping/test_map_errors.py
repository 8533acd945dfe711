"""Errors of a map: in which order they come, the result of a second try, the budget of samples, and batches without a row."""

import numpy as np
import pytest
from loaders import NUMBER
from map_loops import STORED, begun, mapped, world
from picture_set import SAMPLES

import forebay as fb

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("error", [OSError, MemoryError, SystemExit])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_second_try_gets_the_rows_as_they_were(pictures, error, workers):
    failed = []

    def adds_to_the_array(sample, rng):
        sample["number"] += 1000
        sample["x"].unsqueeze_(0)
        sample["x"] += 1
        if int(sample["number"]) == 1021 and not failed:
            failed.append(True)
            raise error("once")
        return {"number": sample["number"], "x": sample["x"]}

    fields = {**NUMBER, "x": fb.Image("image", fb.Resize((4, 4)))}
    options = {**STORED, "fields": fields, "framework": "torch", "batch_size": 64}
    with fb.Loader(local=pictures, **options) as loader:
        expected = list(loader)
    with mapped(pictures, adds_to_the_array, workers=workers, **options) as loader:
        batches = iter(loader)
        with pytest.raises(fb.MapError, match=f"{error.__name__}: once"):
            next(batches)
        for batch, plain in zip(batches, expected):
            assert torch.equal(batch["number"], plain["number"] + 1000)
            assert torch.equal(batch["x"], plain["x"][:, None] + 1)


def test_a_second_try_gets_rows_of_varying_shapes_as_they_were(documents):
    failed = []

    def adds_to_the_array(sample, rng):
        sample["a"].unsqueeze_(0)
        sample["a"] += 1
        if not failed:
            failed.append(True)
            raise OSError("once")
        return sample

    fields = {"a": fb.Array("a")}
    with mapped(documents, adds_to_the_array, workers=1, **STORED, fields=fields, framework="torch", batch_size=3) as loader:
        batches = iter(loader)
        with pytest.raises(fb.MapError, match="OSError: once"):
            next(batches)
        assert [tuple(array.shape) for array in next(batches)["a"]] == [(1, 1, 2), (1, 2, 2), (1, 3, 2)]
        assert all((array == 2).all() for batch in batches for array in batch["a"])


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_errors_that_are_not_about_a_sample_are_not_skipped(pictures, kind):
    from map_functions import has_no_memory

    with mapped(pictures, has_no_memory, workers=1, kind=kind, skip=fb.Skip(errors=SAMPLES), **STORED) as loader:
        batches = iter(loader)
        for _ in range(2):
            with pytest.raises(fb.MapError, match="that ran has_no_memory.* failed: MemoryError: for 3"):
                next(batches)
        assert "samples_skipped" not in loader.stats()["counters"] or loader.stats()["counters"]["samples_skipped"] == 0


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """64 documents, where 40 and 41 lack a value, and arrays, where number 6 has a different width."""
    out = tmp_path_factory.mktemp("documents") / "set"
    with fb.MDSWriter(out=out, columns={"j": "json", "number": "int", "a": "ndarray:int32"}) as writer:
        for number in range(64):
            a = np.ones((number % 3 + 1, 2) if number != 6 else (2, 3), np.int32)
            writer.write({"j": {"v": number} if number not in (40, 41) else {}, "number": number, "a": a})
    return str(out)


def fails_for_some(numbers):
    def fails(sample, rng):
        if int(sample["number"]) in numbers:
            raise ValueError("bad")
        return {"number": sample["number"]}

    return fails


@pytest.mark.parametrize("ahead", [1, 3, 40])
@pytest.mark.parametrize(
    "bad, batch_size, allowed, rows",
    [
        ((1, 2), 4, 2, 38),  # The engine's two are too many, in the batch of 40.
        ((1, 2), 4, 3, 38),
        ((1, 2), 4, 4, 60),
        ((1, 50), 4, 2, 39),
        ((1, 50), 4, 3, 45),  # The function's second one is too many, in the batch of 50.
        ((1, 2), 1, 3, 38),  # Batches 40 and 41 have no row: the next one is too much.
        ((1, 63), 5, 3, 57),  # The last batch is short.
        ((1, 63), 5, 4, 60),
    ],
)
def test_the_budget_does_not_depend_on_samples_that_were_decoded_ahead(documents, ahead, bad, batch_size, allowed, rows):
    fields = {**NUMBER, "v": fb.Json("j", "v", "int64")}
    options = {**STORED, "fields": fields, "engine": fb.Engine(prefetch=ahead), "batch_size": batch_size}
    with fb.Loader(
        local=documents, framework="numpy", map=fb.Map(fails_for_some(bad), workers=2), skip=fb.Skip(errors=allowed), **options
    ) as loader:
        found = []
        if allowed >= len(bad) + 2:
            found += [len(batch["number"]) for batch in loader]
        else:
            batches = iter(loader)
            with pytest.raises(fb.MapError, match=rf"more bad samples than Skip\(errors={allowed}\)"):
                found.extend(len(batch["number"]) for batch in batches)
            with pytest.raises(fb.MapError, match=rf"more bad samples than Skip\(errors={allowed}\)"):
                next(batches)
    assert sum(found) == rows


def test_an_error_of_padding_comes_in_its_turn(documents):
    options = {**STORED, "fields": {**NUMBER, "a": fb.Array("a", pad=0)}, "batch_size": 2}
    with mapped(documents, lambda sample, rng: sample, workers=1, **options) as loader:
        ahead, batches = begun(loader), iter(loader)
        found = [next(batches)["number"].tolist()]
        # The batch after these is the one that fails.
        while len(ahead) < 3:
            batches._take_ahead(loader._maker.mapper)
        batches._take_ahead(loader._maker.mapper)
        found += [next(batches)["number"].tolist() for _ in range(2)]
        for _ in range(2):
            assert batches.has_next()
            with pytest.raises(fb.ConfigError, match="rows of a cannot be padded"):
                next(batches)
            assert loader.state_dict()["sample_in_epoch"] == 6
    assert found == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_batch_without_a_row_is_an_error_once_where_a_rank_would_wait(documents, devices):
    ranks = {"world": world(0, 2)} if devices == 1 else {}
    options = {**STORED, "batch_size": 4, "device": ["cpu"] * devices if devices > 1 else "cpu", **ranks}
    with mapped(documents, fails_for_some(range(8, 16)), skip=fb.Skip(errors=8), prefetch=1, **options) as loader:
        batches = iter(loader)
        assert next(batches)
        with pytest.raises(fb.MapError, match="every sample of a batch, for which the remaining ranks would wait") as caught:
            next(batches)
        assert caught.value.context["sample in shard"] == "8" and isinstance(caught.value.__cause__, ValueError)
        assert loader.state_dict()["sample_in_epoch"] == 16
        batch = next(batches)
        assert (batch if devices == 1 else batch[0])["number"].tolist() == [16, 18, 20, 22]
        assert loader.stats()["counters"]["samples_skipped"] == 4 * devices
        assert len(list(batches)) == 5


def test_a_state_is_there_with_more_batches_ahead_than_a_state_can_leave_out(pictures):
    with mapped(
        pictures,
        lambda sample, rng: sample,
        batch_size=1,
        prefetch=None,
        order=fb.Order(epoch_size=600),
        fields=NUMBER,
    ) as one:
        assert one._maker.mapper.prefetch == 3
    with fb.Loader(
        local=pictures,
        batch_size=1,
        fields=NUMBER,
        framework="numpy",
        engine=fb.Engine(prefetch=400),
        order=fb.Order(epoch_size=600),
        map=lambda sample, rng: sample,
    ) as loader:
        ahead, batches = begun(loader), iter(loader)
        next(batches)
        before = -1
        while before < len(ahead):
            before = len(ahead)
            assert all(batch.wait(600) for batch in ahead)
            batches._take_ahead(loader._maker.mapper)
        for number in range(2, 600):
            next(batches)
            assert loader.state_dict()["sample_in_epoch"] == number


def test_an_error_of_collating_is_raised_again_at_once(pictures):
    class Cannot(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), named=None):
            if function is torch.stack:
                raise RuntimeError("no stack")
            return super().__torch_function__(function, types, arguments, named or {})

    def returns_these(sample, rng):
        return {"x": torch.ones(2).as_subclass(Cannot)}

    # Without a limit that a loaded machine could reach: a call that waits for nothing would be cut by the test's own limit.
    with mapped(pictures, returns_these, workers=1, engine=fb.Engine(stall_timeout=3600)) as loader:
        batches = iter(loader)
        for _ in range(3):
            with pytest.raises(fb.MapError, match="or made a batch of its results, failed: RuntimeError: no stack"):
                next(batches)


def test_objects_stay_arrays_for_tensorflow(pictures):
    pytest.importorskip("tensorflow")

    def returns_objects(sample, rng):
        return {"o": np.array([None, {}], dtype=object), "n": sample["number"]}

    with mapped(pictures, returns_objects, workers=1, framework="tensorflow") as loader:
        batch = next(iter(loader))
    assert len(batch["o"]) == 16 and all(isinstance(item, np.ndarray) and item.dtype == object for item in batch["o"])
