"""The `map` of forebay.Loader: results, order, ranks, resumption, errors."""

import functools
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from loaders import NUMBER, numbers
from map_functions import draws, fails_for_fives, with_picture
from map_loops import begun, PICTURE, SHUFFLED, STORED, assert_equal, in_a_loop, mapped, same, world
from picture_set import SAMPLES, jpeg, write_pictures

import forebay as fb
from forebay._mapping import batch as batch_of_rows
from forebay._mapping import mapper, workers

torch = pytest.importorskip("torch")

@pytest.mark.parametrize("workers", [1, 4])
def test_results_equal_a_plain_loop_in_order(pictures, workers):
    with mapped(pictures, workers=workers) as loader:
        batches = [batch for _ in range(2) for batch in loader]
    assert_equal(batches, in_a_loop(pictures, epochs=2))
    first = batches[0]
    assert (first["number"].dtype, first["unit"].dtype, first["noise"].dtype) == (np.int64, np.float64, np.float32)
    assert first["noise"].shape == (16, 4, 3) and isinstance(first["text"], list)
    assert not np.array_equal(np.sort(batches[0]["unit"]), np.sort(batches[len(batches) // 2]["unit"])), "epochs draw alike"


def test_every_sample_gets_the_generator_of_its_key():
    one = fb.sample_generator(5, 1, 2, 3)
    assert one.integers(1 << 62, size=3).tolist() == RECORDED, "results of runs would change"
    keys = [(5, 1, 2, 3), (6, 1, 2, 3), (5, 2, 2, 3), (5, 1, 3, 3), (5, 1, 2, 4), (5, 1, 2, 3 + (1 << 32))]
    assert len({fb.sample_generator(*key).random() for key in keys}) == len(keys)
    with pytest.raises(fb.ConfigError, match="draw is a whole number"):
        fb.sample_generator(1, 2, 3, -1)


RECORDED = [3454290034641190819, 1080934828140538263, 282302667852385021]


@pytest.mark.parametrize("ranks", [2, 8])
def test_every_sample_has_the_same_draws_on_any_number_of_ranks(pictures, ranks):
    by_number = {int(row["number"]): row for rows in in_a_loop(pictures) for row in rows}
    seen = set()
    for rank in range(ranks):
        with mapped(pictures, batch_size=16 // ranks, extra=["repeat"], world=world(rank, ranks)) as loader:
            for batch in loader:
                for row, number in enumerate(batch["number"].tolist()):
                    expected = by_number[number]
                    assert batch["text"][row] == expected["text"] and batch["unit"][row] == expected["unit"]
                    assert batch["repeat"][row] or number not in seen
                    seen.add(number)
    assert seen == set(range(SAMPLES))


@pytest.mark.parametrize("taken", [1, 5, 12, 13])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_state_counts_the_batches_that_the_loop_got(pictures, taken, ranks):
    expected = in_a_loop(pictures)
    with fb.Loader(local=pictures, batch_size=16, fields=NUMBER, **SHUFFLED) as plain:
        plain_batches = iter(plain)
        assert len([next(plain_batches) for _ in range(taken)]) == taken
        place = plain.state_dict()
    with mapped(pictures) as loader:
        ahead = begun(loader)
        batches = iter(loader)
        found = [next(batches) for _ in range(taken)]
        state = loader.state_dict()
        assert state == place
        # The batches ahead of it are complete now, and the engine is at the end of the epoch.
        assert all(batch.wait(600) for batch in ahead)
        assert loader.state_dict() == state
        if taken == 13:
            assert next(batches, None) is None and loader.state_dict()["epoch"] == 1
        else:
            del batches
            assert loader.state_dict() == state, "the iterator was dropped"
        assert_equal(found, expected[:taken])
        second = list(loader)
    assert_equal(second, in_a_loop(pictures, epochs=2)[len(expected) :])
    rest = []
    loaders = [mapped(pictures, batch_size=16 // ranks, world=world(rank, ranks)) for rank in range(ranks)]
    for loader in loaders:
        loader.load_state_dict(state)
        rest.append(list(loader) if taken < 13 else [])
        loader.close()
    assert sorted(text for batches in rest for batch in batches for text in batch["text"]) == sorted(
        row["text"] for rows in expected[taken:] for row in rows
    )


def test_the_loop_finds_batches_that_were_mapped_ahead(pictures):
    calls = []

    def note(sample, rng):
        calls.append(int(sample["number"]))
        return sample

    with mapped(pictures, note, prefetch=3, workers=2) as loader:
        ahead, batches = begun(loader), iter(loader)
        next(batches)
        # Between calls of `next` there is a batch more, which the next one gets.
        while len(ahead) < 5:
            batches._take_ahead(loader._maker.mapper)
        batches._take_ahead(loader._maker.mapper)
        assert all(batch.wait(600) for batch in ahead)
        assert len(calls) == 5 * 16, "the bound is one batch and those ahead"
        batches.close()
        with pytest.raises(fb.ClosedError):
            next(batches)


@pytest.mark.parametrize("framework", ["numpy", "torch", "dlpack"])
def test_pictures_of_each_framework_are_stacked(pictures, framework):
    expected = in_a_loop(pictures, with_picture, fields=PICTURE)
    function = with_picture if framework != "torch" else lambda sample, rng: with_picture({**sample, "x": sample["x"].numpy()}, rng)
    with mapped(pictures, function, fields=PICTURE, framework=framework) as loader:
        batches = list(loader)
    if framework == "torch":
        assert isinstance(batches[0]["x"], torch.Tensor) and isinstance(batches[0]["number"], torch.Tensor)
    assert_equal([{name: batch[name] for name in expected[0][0]} for batch in batches], expected)


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_inputs_that_the_function_returns_as_they_are_are_not_copied(pictures, framework):
    seen = {}

    def add(sample, rng):
        seen[int(sample["number"])] = sample["x"]
        return {**sample, "z": 1.5}

    with mapped(pictures, add, fields=PICTURE, framework=framework) as loader:
        batch = next(iter(loader))
    for row, number in enumerate(batch["number"].tolist()):
        given, found = (np.asarray(value) for value in (seen[number], batch["x"][row]))
        assert np.shares_memory(given, found)
    assert batch["z"].tolist() == [1.5] * 16


def test_the_function_gets_its_inputs_and_the_remaining_fields_stay(pictures):
    names = []

    def double(sample, rng):
        names.append(sorted(sample))
        return {"twice": sample["number"] * 2}

    options = {"fields": PICTURE, "extra": ["sample_ids", "repeat"]}
    with mapped(pictures, double, inputs=["number"], **options) as loader, fb.Loader(
        local=pictures, batch_size=16, framework="numpy", **options, **SHUFFLED
    ) as plain:
        for batch, expected in zip(loader, plain):
            assert sorted(batch) == ["repeat", "sample_ids", "twice", "x"]
            assert np.array_equal(batch["twice"], expected["number"] * 2)
            for name in ("x", "repeat", "sample_ids"):
                assert np.array_equal(batch[name], expected[name])
    assert set(map(tuple, names)) == {("number",)}


def test_a_transform_gets_the_mapped_batch_and_the_same_one_after_an_error(pictures):
    calls, raises = [], [True]

    def count(sample, rng):
        calls.append(int(sample["number"]))
        return {"number": sample["number"]}

    def transform(batch):
        if len(calls) >= 32 and raises:
            raises.pop()
            raise KeyError("once")
        return batch["number"].tolist()

    with mapped(pictures, count, transform=transform, prefetch=1) as loader:
        batches, found = iter(loader), []
        while raises:
            state = loader.state_dict()
            try:
                found.append(next(batches))
            except KeyError:
                assert loader.state_dict() == state
        found += list(batches)
    assert found == [[int(row["number"]) for row in rows] for rows in in_a_loop(pictures)]
    assert sorted(calls) == list(range(SAMPLES)), "a row was mapped twice"


@pytest.mark.parametrize("adapts", [False, True])
def test_an_error_names_its_sample_and_the_next_call_tries_again(pictures, adapts):
    from forebay.integrations.torch import DataLoader

    broken = threading.Event()
    broken.set()

    def fragile(sample, rng):
        if int(sample["number"]) in (40, 42) and broken.is_set():
            raise ZeroDivisionError("no such thing")
        return draws(sample, rng)

    with mapped(pictures, fragile, extra=["sample_ids"], **STORED) as loader:
        batches = iter(DataLoader(loader) if adapts else loader)
        found = [next(batches), next(batches)]
        state = loader.state_dict()
        for _ in range(2):
            with pytest.raises(fb.MapError, match="fragile failed for a sample: ZeroDivisionError: no such thing: skip=") as caught:
                next(batches)
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            assert caught.value.context.keys() == {"stream", "shard", "sample in shard", "file", "row"}
            assert caught.value.context["row"] == "8", "the lowest row"
            assert loader.state_dict() == state
            if adapts:
                break
        if adapts:
            return
        broken.clear()
        found += list(batches)
    for batch in found:
        del batch["sample_ids"]
    assert_equal(found, in_a_loop(pictures, **STORED))


def test_the_sample_of_an_error_is_found_by_its_identity(pictures):
    with mapped(pictures, fails_for_fives, batch_size=1, **STORED) as loader:
        batches = iter(loader)
        for number in range(3):
            assert next(batches)["number"].tolist() == [number]
        with pytest.raises(fb.MapError) as caught:
            next(batches)
        sample = loader.samples_of(3)[0]
        facts = caught.value.context
        assert (facts["stream"], facts["shard"], facts["sample in shard"], facts["file"]) == ("0", str(sample.shard), str(sample.index), sample.file)


def test_samples_that_fail_are_left_out_within_the_budget(pictures, caplog):
    expected = [[row for row in rows if int(row["number"]) % 5 != 3] for rows in in_a_loop(pictures, dict_of_number)]
    bad = sum(number % 5 == 3 for number in range(SAMPLES))
    options = {"extra": ["sample_ids"], "inputs": ["number"]}
    with mapped(pictures, fails_for_fives, skip=fb.Skip(errors=bad), **options) as loader:
        for epoch in range(2):
            batches = list(loader)
            assert loader.stats()["counters"]["samples_skipped"] == bad * (epoch + 1)
            if epoch == 0:
                assert [batch["number"].tolist() for batch in batches] == [[int(row["number"]) for row in rows] for rows in expected]
            assert all(len(batch["sample_ids"]) == len(batch["number"]) == len(batch["unit"]) for batch in batches)
    assert sum("a sample was skipped: fails_for_fives failed" in record.getMessage() for record in caplog.records) >= 10
    with mapped(pictures, fails_for_fives, skip=fb.Skip(errors=bad - 1), **options) as loader:
        with pytest.raises(fb.MapError, match=rf"more bad samples than Skip\(errors={bad - 1}\)"):
            list(loader)


def dict_of_number(sample, rng):
    return {"number": sample["number"]}


def test_the_engine_and_the_function_share_the_budget_and_keys_follow_the_rows(tmp_path):
    columns = {"image": "jpeg", "number": "int"}
    with fb.MDSWriter(out=tmp_path / "set", columns=columns) as writer:
        for number in range(32):
            writer.write({"image": b"\xff\xd8" if number % 5 == 2 else jpeg(number), "number": number})
    fields = {**NUMBER, "x": fb.Image("image", fb.Resize((8, 8)))}

    def by_number(sample, rng):
        return {**fails_for_fives(sample, rng), "x": sample["x"]}

    options = {"fields": fields, "batch_size": 8}
    with mapped(tmp_path / "set", by_number, skip=fb.Skip(errors=12), **options) as loader:
        found = {int(n): u for batch in loader for n, u in zip(batch["number"], batch["unit"])}
    good = [row for rows in in_a_loop(tmp_path / "set", dict_and_unit, fields=NUMBER, batch_size=8) for row in rows]
    assert found == {int(row["number"]): row["unit"] for row in good if int(row["number"]) % 5 not in (2, 3)}
    with mapped(tmp_path / "set", by_number, skip=fb.Skip(errors=11), **options) as loader:
        with pytest.raises(fb.Error, match=r"more bad samples than (skip.errors 11|Skip\(errors=11\))"):
            list(loader)


def dict_and_unit(sample, rng):
    return {"number": sample["number"], "unit": rng.random()}


def test_a_batch_without_a_row_is_left_out_unless_a_rank_would_wait(pictures):
    def first_batch_fails(sample, rng):
        assert int(sample["number"]) >= 20
        return dict_of_number(sample, rng)

    options = {**STORED, "skip": fb.Skip(errors=20), "batch_size": 10}
    with mapped(pictures, first_batch_fails, **options) as loader:
        batches = iter(loader)
        assert next(batches)["number"].tolist() == list(range(20, 30))
        assert loader.state_dict()["sample_in_epoch"] == 30
        assert len(list(batches)) == 17
    with mapped(pictures, first_batch_fails, **options, world=world(0, 2)) as loader:
        with pytest.raises(fb.MapError, match="every sample of a batch, for which the remaining ranks would wait"):
            next(iter(loader))

    def all_fail(sample, rng):
        raise AssertionError

    with mapped(pictures, all_fail, skip=fb.Skip(errors=SAMPLES)) as loader:
        with pytest.warns(UserWarning, match="an epoch has no batch"):
            assert list(loader) == []


@pytest.mark.parametrize("odd", [0, 5])
def test_a_sample_with_wrong_names_fails_alone(pictures, odd):
    def function(sample, rng):
        number = int(sample["number"])
        return {"number": number} | ({"more": 1} if number == odd else {})

    with mapped(pictures, function, skip=fb.Skip(errors=1), **STORED) as loader:
        batches = list(loader)
    assert all(batch.keys() == {"number"} for batch in batches)
    found = [int(number) for batch in batches for number in batch["number"]]
    assert sorted(found) == [number for number in range(SAMPLES) if number != odd]


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda sample, rng: None, "it has to return a dict of outputs: end it with `return sample`"),
        (lambda sample, rng: {}, "a dict with at least one output"),
        (lambda sample, rng: {1: 2}, "text as names"),
        (lambda sample, rng: {f"n{int(sample['number'])}": 1}, "for this sample, and n0 for a different one"),
        (lambda sample, rng: next(iter(())), "StopIteration"),
    ],
)
def test_a_function_that_returns_something_else_is_an_error(pictures, function, message):
    with mapped(pictures, function, **STORED) as loader:
        with pytest.raises(fb.MapError, match=message):
            list(loader)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"map": 5}, "map: it is a Map or a function"),
        ({"map": fb.Map(draws, kind="thread")}, 'map: kind of Map is "threads", "processes" or "interpreters"'),
        ({"map": fb.Map(draws, workers=0)}, "map: workers of Map is a whole number, at least 1"),
        ({"map": fb.Map(draws, prefetch=65)}, "map: prefetch of Map is a whole number, at most 64"),
        ({"map": fb.Map(draws, inputs="number")}, "map: inputs of Map is a list of names"),
        ({"map": fb.Map(draws, inputs=["y"])}, "map: inputs of Map has 'y', but the outputs are number"),
        ({"map": fb.Map(draws), "device": "cuda"}, 'map works on batches in host memory, but device is cuda: use device="cpu"'),
        ({"map": fb.Map(draws), "device": "cuda"}, r'as in transform=lambda batch: batch \| {"x": batch\["x"\].to'),
        ({"map": fb.ColorJitter(0.4)}, "but it is ColorJitter.*: pass operations of pictures to Image"),
        ({"map": [draws]}, r"map: it is a Map or a function of a sample and its generator, but it is \[<function draws"),
        ({"map": lambda sample: sample}, r"called with a sample and its generator, but .*: write def f\(sample, rng\)"),
        ({"map": fb.Map(draws), "framework": "nump"}, "framework is"),
    ],
)
def test_wrong_arguments_are_config_errors(pictures, arguments, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=pictures, batch_size=4, fields=NUMBER, **arguments)
    with pytest.raises(TypeError, match="Map has no argument 'num_workers': did you mean workers?"):
        fb.Map(draws, num_workers=3)


def test_inputs_are_checked_with_the_first_batch_where_columns_are_the_outputs(pictures):
    with fb.Loader(local=pictures, batch_size=4, framework="numpy", map=fb.Map(draws, inputs=["absent"])) as loader:
        with pytest.raises(fb.ConfigError, match="inputs of Map has 'absent', but the outputs are"):
            next(iter(loader))


def test_a_call_that_does_not_end_is_a_stall(pictures):
    go_on = threading.Event()

    def waits(sample, rng):
        assert go_on.wait(600)
        return sample

    with mapped(pictures, waits, engine=fb.Engine(stall_timeout=0.5)) as loader:
        batches = iter(loader)
        with pytest.raises(fb.StalledError, match=r"no call of .*waits has ended for 0 s \(stall_timeout\) \(stream 0, shard"):
            next(batches)
        go_on.set()
        found = [batch["number"].tolist() for batch in batches]
    assert found == [[int(row["number"]) for row in rows] for rows in in_a_loop(pictures)]


def test_an_interrupt_loses_no_batch(pictures):
    go_on, waiting = threading.Event(), threading.Event()

    def waits(sample, rng):
        waiting.set()
        assert go_on.wait(600)
        return dict_of_number(sample, rng)

    def interrupt():
        assert waiting.wait(600)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with mapped(pictures, waits) as loader:
        batches = iter(loader)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                next(batches)
        thread.join()
        assert loader.state_dict()["sample_in_epoch"] == 0
        go_on.set()
        found = [batch["number"].tolist() for batch in batches]
    assert found == [[int(row["number"]) for row in rows] for rows in in_a_loop(pictures)]


@pytest.mark.parametrize("ahead", [(1, (0, 1, 4)), (4, (2,))])
def test_an_interrupt_anywhere_in_a_step_loses_no_batch_and_maps_each_alike(tmp_path, ahead):
    from test_loader_state import LOADER_FILES, interrupted

    files = LOADER_FILES | {module.__file__ for module in (mapper, workers, batch_of_rows, threading)}

    def text(batch):
        return str({name: np.asarray(value).tolist() for name, value in batch.items()})

    # With one batch ahead, which is there at every step, or with the end of the epoch ahead. Few samples: there are hundreds of epochs.
    prefetch, positions = ahead
    few = write_pictures(tmp_path, samples=14, size_limit=1 << 12)
    with mapped(few, batch_size=4, prefetch=prefetch, workers=1) as loader:
        expected = [text(batch) for batch in loader]
        positions = list(positions)
        for number in itertools.count(1):
            for position in list(positions):
                loader.set_epoch(0)
                batches, found = iter(loader), []
                found.extend(itertools.islice(batches, position))
                if interrupted(functools.partial(found.extend, itertools.islice(batches, 1)), number, files) < number:
                    positions.remove(position)
                found.extend(batches)
                assert [text(batch) for batch in found] == expected, f"interrupt {number} at batch {position}"
            if not positions:
                break
        assert number > 50, "an interrupt at each of these points"


@pytest.mark.parametrize("of", ["Thread", "first"])
def test_threads_that_cannot_start_are_an_error_and_are_tried_again(pictures, monkeypatch, of):
    def fails(*arguments):
        raise RuntimeError("can't start new thread")

    with mapped(pictures) as loader, monkeypatch.context() as patch:
        batches = iter(loader)
        if of == "Thread":
            patch.setattr(workers.threading.Thread, "start", fails)
        else:
            patch.setattr(workers._thread, "start_new_thread", fails)
        for _ in range(2):
            with pytest.raises(fb.MapError, match="no worker of map could start: can't start new thread: pass fewer workers"):
                next(batches)
        patch.undo()
        found = [batch["number"].tolist() for batch in batches]
    assert found == [[int(row["number"]) for row in rows] for rows in in_a_loop(pictures)]


def test_threads_end_with_the_loader_and_a_waiting_call_fails(pictures):
    go_on, errors = threading.Event(), []

    def waits(sample, rng):
        assert go_on.wait(600)
        return sample

    loader = mapped(pictures, waits, workers=2)
    batches = iter(loader)

    def take():
        with pytest.raises(fb.ClosedError):
            next(batches)
        errors.append(True)

    taker = threading.Thread(target=take)
    taker.start()
    while loader._maker.mapper.workers._threads == []:
        pass
    threading.Timer(0.2, go_on.set).start()
    loader.close()
    taker.join()
    assert errors == [True]
    assert not any(thread.is_alive() for thread in loader._maker.mapper.workers._threads)


ENDS = """
import sys
import threading
import forebay as fb

fields = {"number": fb.Scalar("number")}
kind = sys.argv[2]
if __name__ == "__main__":
    from map_functions import draws

    loader = fb.Loader(local=sys.argv[1], batch_size=8, fields=fields, framework="numpy", map=fb.Map(draws, workers=2, kind=kind))
    batches = iter(loader)
    print(len(next(batches)["number"]), flush=True)
    # The program ends in the middle of an epoch, and closes nothing.
"""


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_program_may_end_in_the_middle_of_an_epoch(pictures, tmp_path, kind):
    script = tmp_path / "train.py"
    script.write_text(ENDS)
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(pathlib.Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    ran = subprocess.run([sys.executable, str(script), pictures, kind], env=environment, capture_output=True, text=True, timeout=600)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "8\n", "")


def test_a_loader_that_is_dropped_ends_its_workers(pictures):
    loader = mapped(pictures)
    next(iter(loader))
    threads = loader._maker.mapper.workers._threads
    assert len(threads) == 4
    del loader
    for thread in threads:
        thread.join(600)
    assert not any(thread.is_alive() for thread in threads)


def test_threads_that_share_an_iterator_get_all_batches(pictures):
    found, lock = [], threading.Lock()
    with mapped(pictures) as loader:
        batches = iter(loader)

        def take():
            for batch in batches:
                with lock:
                    found.append(batch["number"].tolist())

        takers = [threading.Thread(target=take) for _ in range(4)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        assert loader.state_dict()["epoch"] == 1
    assert sorted(found) == sorted([int(row["number"]) for row in rows] for rows in in_a_loop(pictures))


def test_a_step_is_replayed_and_several_devices_have_a_batch_each(pictures):
    with mapped(pictures) as loader:
        batches = list(loader)
        same([loader.replay(3)], [batches[3]])
        same([next(iter(loader))], [loader.replay(len(loader))])
    ranks = [in_a_loop(pictures, batch_size=8, world=world(rank, 2)) for rank in range(2)]
    with mapped(pictures, batch_size=8, device=["cpu", "cpu"]) as loader:
        for number, step in enumerate(loader):
            assert_equal(step, [ranks[0][number], ranks[1][number]])
    ranks = [in_a_loop(pictures, batch_size=4, world=world(rank, 3)) for rank in range(3)]
    with mapped(pictures, batch_size=4, device=["cpu"] * 3) as loader:
        for number, step in enumerate(loader):
            assert_equal(step, [rank[number] for rank in ranks])
            state = loader.state_dict()
        # The call of `next` that finds the end moves to the next epoch.
        assert (loader.state_dict()["epoch"], loader.state_dict()["sample_in_epoch"]) == (1, 0) and state["epoch"] in (0, 1)


def test_stats_have_a_stage_and_name_a_slow_function(pictures):
    with mapped(pictures) as loader:
        list(loader)
        stats = loader.stats()
        assert stats["stages"]["map"]["items"] == SAMPLES and stats["stages"]["map"]["busy_s"] > 0
        assert 'stage="map",spent="busy"' in loader.prometheus()


@pytest.mark.parametrize("close", [True, False])
def test_an_epoch_that_was_looked_at_starts_with_the_same_batch(pictures, close):
    with mapped(pictures) as loader:
        shown = loader.adapter.peek()
        assert loader.state_dict()["sample_in_epoch"] == 0
        batches = list(loader)
        same([shown], batches[:1])
    assert_equal(batches, in_a_loop(pictures))


def test_a_function_may_be_a_partial_or_an_object(pictures):
    class Scale:
        def __call__(self, sample, rng):
            return {"v": sample["number"] * 3}

    @functools.wraps(lambda sample: None)
    def wrapper(sample, rng):
        return {"v": sample["number"] * 7}

    for function, factor in ((Scale(), 3), (functools.partial(lambda f, sample, rng: {"v": sample["number"] * f}, 5), 5), (wrapper, 7)):
        with fb.Loader(local=pictures, batch_size=16, fields=NUMBER, map=function) as loader:
            assert torch.cat([batch["v"] for batch in loader]).tolist() == [factor * number for number in range(SAMPLES)]
    with fb.Loader(local=pictures, batch_size=16, fields=NUMBER) as loader:
        assert numbers(loader)
