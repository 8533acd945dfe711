"""Epochs and positions as trainers use them: `iter` without a batch, `set_epoch`, `first_batch`."""

import code
import contextlib
import io
import sys
import warnings

import pytest
from loaders import numbers, ordered
from picture_set import SAMPLES

import forebay as fb

STEPS = -(-SAMPLES // 16)


@pytest.fixture
def epochs(pictures):
    """The batches of three epochs."""
    with ordered(pictures, shuffle=True) as loader:
        return [numbers(loader) for _ in range(3)]


def test_an_iterator_without_a_batch_does_not_use_up_an_epoch(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        first = iter(loader)
        iter(loader)
        assert loader.epoch == 0
        assert numbers(loader) == epochs[0]
        with pytest.raises(fb.ClosedError, match="a newer iterator"):
            next(first)
        assert numbers(loader) == epochs[1]


def test_a_state_that_was_loaded_survives_an_iterator_without_a_batch(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        iter(loader)
        assert (loader.epoch, loader.first_batch, loader.state_dict()) == (0, 1, state)
        batches = numbers(loader)
        assert batches == epochs[0][1:]
        assert (loader.epoch, loader.first_batch) == (1, 0)


def test_set_epoch_names_the_epoch_of_the_next_iterator(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        for epoch in (2, 0, 0, 1):
            loader.set_epoch(epoch)
            assert loader.epoch == epoch
            assert numbers(loader) == epochs[epoch]
        assert numbers(loader) == epochs[2]


def test_set_epoch_leaves_a_running_epoch_alone(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        batches = [next(iterator)["number"].tolist()]
        loader.batch_sampler.sampler.set_epoch(0)
        batches += [batch["number"].tolist() for batch in iterator]
        assert batches == epochs[0]
        assert numbers(loader) == epochs[0]


def test_set_epoch_moves_an_iterator_that_has_no_batch_yet(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        loader.set_epoch(1)
        assert [batch["number"].tolist() for batch in iterator] == epochs[1]


@pytest.mark.filterwarnings("ignore:the loaded state is at batch")
@pytest.mark.parametrize("epoch", [0, 1])
def test_set_epoch_keeps_a_state_of_that_epoch_alone(pictures, epochs, epoch):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = loader.state_dict()
        loader.load_state_dict(state)
        loader.set_epoch(epoch)
        assert loader.first_batch == (2, 0)[epoch]
        assert numbers(loader) == (epochs[0][2:], epochs[1])[epoch]


def test_set_epoch_returns_to_the_epoch_of_a_loaded_state(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        next(iterator), next(iterator)
        state = loader.state_dict()
        loader.load_state_dict(state)
        for others in ((), (1,), (1, 2)):
            loader.load_state_dict(state)
            iter(loader)
            for epoch in others:
                loader.set_epoch(epoch)
                assert (loader.epoch, loader.first_batch) == (epoch, 0)
            loader.set_epoch(0)
            assert (loader.epoch, loader.first_batch, loader.state_dict()) == (0, 2, state)
        assert numbers(loader) == epochs[0][2:]
        loader.set_epoch(0)
        assert numbers(loader) == epochs[0], "a state counts until a batch is taken"


@pytest.mark.filterwarnings("ignore:the loaded state is at batch")
@pytest.mark.parametrize("before", ["nothing", "iter", "break", "end", "load"])
def test_a_state_after_set_epoch_is_a_state_of_the_epoch(pictures, epochs, before):
    def starts():
        loader.set_epoch(2)
        state = loader.state_dict()
        assert (state["epoch"], state["sample_in_epoch"]) == (2, 0)
        return state

    with ordered(pictures, shuffle=True) as loader:
        if before == "iter":
            live = iter(loader)
        if before == "load":
            next(iter(loader))
            loader.load_state_dict(loader.state_dict())
        for _ in loader if before in ("break", "end") else ():
            if before == "break":
                break
        state = starts()
        assert numbers(loader) == epochs[2]
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        assert numbers(loader) == epochs[2]
        live = iter(loader)
        next(live)
        loader.set_epoch(2)
        assert (loader.epoch, loader.state_dict()["epoch"]) == (2, 3), "an iterator that runs is at its own position"


def test_set_epoch_after_the_last_batch_starts_the_next_epoch(pictures, epochs):
    """A trainer counts the batches and does not ask for one that `len` excludes."""
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        for _ in range(len(loader)):
            next(iterator)
        state = loader.state_dict()
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        iterator = iter(loader)
        loader.set_epoch(1)
        assert [batch["number"].tolist() for batch in iterator] == epochs[1]


def test_batches_of_a_resumed_epoch_are_numbered_from_first_batch(pictures):
    with ordered(pictures, shuffle=True) as loader:
        for number, _ in enumerate(loader):
            if number == 1:
                break
        loader.load_state_dict(loader.state_dict())
        resumed = [number for number, _ in enumerate(loader, loader.first_batch)]
    assert resumed == list(range(2, STEPS))


def leave(loader, how):
    """Leaves a loop within its second batch."""
    for number, _ in enumerate(loader):
        if number == 1 and how == "break":
            break
        if number == 1:
            raise KeyboardInterrupt if how == "interrupt" else ValueError


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("how", ["break", "error", "interrupt"])
def test_a_loop_that_ends_early_has_used_up_its_epoch(pictures, epochs, how):
    with ordered(pictures, shuffle=True) as loader:
        with contextlib.suppress(ValueError, KeyboardInterrupt):
            leave(loader, how)
        state = loader.state_dict()
        assert (loader.epoch, state["epoch"], state["sample_in_epoch"]) == (1, 0, 32)
        assert numbers(loader) == epochs[1]
        with contextlib.suppress(ValueError, KeyboardInterrupt):
            leave(loader, how)
        loader.load_state_dict(loader.state_dict())
        assert (loader.epoch, loader.first_batch) == (2, 2)
        assert numbers(loader) == epochs[2][2:] and loader.epoch == 3


def test_an_interactive_session_is_warned_that_a_loop_begins_a_new_epoch(pictures, epochs, monkeypatch):
    """The session's loop is in text, as a cell of a notebook, and an error in it ends no program."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        # Removed after the test as well.
        monkeypatch.setattr(sys, name, None, raising=False)
    session, shown = code.InteractiveConsole({"pictures": pictures, "ordered": ordered, "numbers": numbers}), io.StringIO()

    def cell(text):
        session.runcode(compile(text, "<cell>", "exec"))

    with contextlib.redirect_stderr(shown), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        cell("loader = ordered(pictures, shuffle=True)")
        cell("for batch in loader:\n    raise KeyError")
        cell("first = numbers(loader)")
        assert session.locals["first"] == epochs[1]
        assert [str(warning.message).split(",")[0] for warning in found] == [f"epoch 0 was left after 1 of {STEPS} batches"]
        # Not after a `break`, an error elsewhere after a whole epoch, or where the session has named the position.
        cell("for batch in loader:\n    break")
        cell("second = numbers(loader)")
        cell("raise KeyError")
        cell("third = numbers(loader)")
        for place in ("loader.load_state_dict(loader.state_dict())", "loader.set_epoch(0)"):
            cell("for batch in loader:\n    raise KeyError")
            cell(place)
            cell("last = numbers(loader)")
        assert session.locals["last"] == epochs[0] and len(found) == 1
    session.locals["loader"].close()


@pytest.mark.parametrize("drop_last", [False, True])
def test_the_last_batch_of_an_epoch_has_the_last_number_after_any_batch_size(pictures, drop_last):
    with ordered(pictures, drop_last=drop_last) as loader:
        state = loader.state_dict()
        for sample in [*range(0, SAMPLES, 20), SAMPLES]:
            loader.load_state_dict(state | {"sample_in_epoch": sample})
            first = loader.first_batch
            assert [number for number, _ in enumerate(loader, first)] == list(range(first, len(loader)))
            assert loader.first_batch == 0


def test_an_epoch_that_ends_with_a_short_batch_has_no_batch_after_it(pictures):
    with ordered(pictures) as loader:
        batches = iter(loader)
        assert [len(next(batches)["number"]) for _ in range(STEPS)][-1] < 16
        loader.load_state_dict(loader.state_dict())
        assert (loader.epoch, loader.first_batch) == (0, STEPS)
        assert numbers(loader) == []


def test_ranks_devices_and_replicas_count_for_the_first_batch(pictures):
    world = fb.World(rank=0, world_size=4, local_rank=0, local_world_size=4)
    with ordered(pictures, batch_size=4, order=fb.Order(replication=2), world=world) as loader:
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        loader.load_state_dict(loader.state_dict())
        assert loader.first_batch == 3
        assert loader.batch_size == 4


def test_a_trainer_may_set_the_attribute_that_a_dataloader_has(pictures):
    """Lightning sets `_iterator` to None on objects that have it."""
    with ordered(pictures) as loader:
        assert not hasattr(loader, "_iterator")
        for _ in loader:
            break
        assert loader.state_dict()["sample_in_epoch"] == 16


def test_set_epoch_warns_once_where_it_drops_a_loaded_position(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        state = loader.state_dict() | {"epoch": 1, "sample_in_epoch": 32}
        loader.load_state_dict(state)
        # A loop that skips the epochs before the loaded one drops nothing.
        for epoch in range(2):
            loader.set_epoch(epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert numbers(loader) == epochs[1][2:]
        loader.load_state_dict(state)
        loader.set_epoch(0)
        with pytest.warns(UserWarning) as seen:
            assert numbers(loader) == epochs[0]
        assert [str(warning.message) for warning in seen] == [
            "the loaded state is at batch 2 of epoch 1, but set_epoch(0) was called after it was loaded: this position is dropped, and epoch 0 "
            "starts at its first batch. To resume, loop over range(loader.epoch, n), which starts with epoch 1"
        ]
        assert seen[0].filename.endswith("loaders.py"), "the warning names the loop"


@pytest.mark.parametrize("sample", [0, 32, SAMPLES])
def test_set_epoch_may_name_the_loaded_epoch_or_a_later_one(pictures, epochs, sample):
    """A trainer may end an epoch before its last batch, such as Lightning with limit_train_batches."""
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(loader.state_dict() | {"sample_in_epoch": sample})
        epoch = int(sample > 0)
        loader.set_epoch(epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert numbers(loader) == epochs[epoch]


def test_an_epoch_is_a_whole_number(pictures):
    with ordered(pictures) as loader, pytest.raises(fb.ConfigError, match="epoch is a whole number"):
        loader.set_epoch(-1)


def test_a_failed_batch_does_not_count_after_its_iterator_is_gone(pictures, epochs):
    def fails(batch):
        if batch["number"].tolist() == epochs[0][1]:
            raise ValueError("once")
        return batch

    with ordered(pictures, shuffle=True, transform=fails) as loader:
        with pytest.raises(ValueError, match="once"):
            list(loader)
        state = loader.state_dict()
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        assert numbers(loader) == epochs[0][1:]


def runs(loader):
    """True if a thread makes batches."""
    return any(engine.runs() for engine in loader._engines)


@pytest.mark.parametrize("leave", ["break", "drop", "close", "error"])
def test_an_epoch_makes_no_more_batches_after_a_break(pictures, epochs, leave):
    with ordered(pictures, shuffle=True) as loader:
        if leave == "break":
            for _ in loader:
                assert runs(loader)
                break
        elif leave == "error":
            with contextlib.suppress(ZeroDivisionError):
                for _ in loader:
                    1 / 0  # noqa: B018
        else:
            iterator = iter(loader)
            next(iterator)
            assert runs(loader)
            if leave == "close":
                iterator.close()
                iterator.close()
                with pytest.raises(fb.ClosedError, match=r"this iterator was closed: iter\(loader\) starts the next epoch"):
                    next(iterator)
            else:
                del iterator
        assert not runs(loader)
        state = loader.state_dict()
        assert (state["epoch"], state["sample_in_epoch"], loader.epoch) == (0, 16, 1)
        assert numbers(loader) == epochs[1]
        loader.load_state_dict(state)
        assert numbers(loader) == epochs[0][1:]


def test_an_iterator_that_a_newer_one_ended_does_not_end_it(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        batches = [next(second)["number"].tolist()]
        first.close()
        del first
        assert batches + numbers(second) == epochs[1]


@pytest.mark.parametrize("shown", [False, True])
def test_an_iterator_that_is_closed_without_a_batch_uses_up_no_epoch(pictures, epochs, shown):
    with ordered(pictures, shuffle=True) as loader:
        state = loader.state_dict() | {"sample_in_epoch": 32}
        loader.load_state_dict(state)
        if shown:
            loader.adapter.peek()
        iterator = iter(loader)
        assert runs(loader)
        iterator.close()
        assert not runs(loader)
        assert (loader.epoch, loader.first_batch, loader.state_dict()) == (0, 2, state)
        assert numbers(loader) == epochs[0][2:]


def test_a_closed_iterator_does_not_count_a_batch_that_failed(pictures, epochs):
    def fails(batch):
        if batch["number"].tolist() == epochs[0][1]:
            raise ValueError("once")
        return batch

    with ordered(pictures, shuffle=True, transform=fails) as loader:
        iterator = iter(loader)
        with pytest.raises(ValueError, match="once"):
            list(iterator)
        iterator.close()
        assert loader.state_dict()["sample_in_epoch"] == 16


def test_a_pass_of_the_adapter_for_torch_makes_no_more_batches_after_a_break(pictures, epochs):
    from forebay.integrations.torch import DataLoader

    with ordered(pictures, shuffle=True) as loader:
        for _ in DataLoader(loader):
            assert runs(loader)
            break
        assert not runs(loader) and loader.state_dict()["sample_in_epoch"] == 16
        assert numbers(loader) == epochs[1]


def test_a_rejected_state_changes_nothing(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        iterator = iter(loader)
        first = next(iterator)["number"].tolist()
        with pytest.raises(fb.StateError):
            loader.load_state_dict({"epoch": 0})
        assert [first, *(batch["number"].tolist() for batch in iterator)] == epochs[0]


def test_a_batch_that_was_shown_is_delivered_by_the_epoch_that_it_belongs_to(pictures, epochs):
    with ordered(pictures, shuffle=True) as loader:
        loader.adapter.peek()
        iter(loader)
        assert numbers(loader) == epochs[0], "the batch outlives an iterator that nothing was taken from"
        loader.adapter.peek()
        iterator = iter(loader)
        loader.set_epoch(2)
        assert [batch["number"].tolist() for batch in iterator] == epochs[2]
        loader.set_epoch(0)
        loader.adapter.peek()
        with pytest.raises(fb.StateError):
            loader.load_state_dict({"epoch": 0})
        assert numbers(loader) == epochs[0]


def test_a_batch_that_cannot_be_shown_is_not_lost(pictures, epochs):
    errors = [ValueError("once")]

    def fails_once(batch):
        if errors:
            raise errors.pop()
        return batch

    with ordered(pictures, shuffle=True, transform=fails_once) as loader:
        with pytest.raises(ValueError, match="once"):
            loader.adapter.peek()
        assert (loader.epoch, loader.state_dict()["sample_in_epoch"]) == (0, 0)
        assert numbers(loader) == epochs[0]


def test_the_adapter_for_torch_ends_a_pass_with_its_error_and_loses_no_batch(pictures, epochs):
    from forebay.integrations.torch import DataLoader

    def fails(batch):
        if batch["number"].tolist() == epochs[0][-1]:
            raise ValueError("at the last batch")
        return batch

    with ordered(pictures, shuffle=True, transform=fails) as loader:
        batches = iter(DataLoader(loader))
        assert [next(batches)["number"].tolist() for _ in range(STEPS - 1)] == epochs[0][:-1]
        with pytest.raises(ValueError, match="at the last batch"):
            next(batches)
        with pytest.raises(StopIteration):
            next(batches)
        state = loader.state_dict()
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        assert numbers(loader) == epochs[0][-1:]


def test_the_adapter_for_torch_rejects_a_step_that_is_not_in_the_loaded_state(pictures, epochs):
    from forebay.integrations.torch import DataLoader

    with ordered(pictures, shuffle=True) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ordered(pictures, shuffle=True) as loader:
        loader.load_state_dict(state)
        loaded = DataLoader(loader)
        # As a library that counts steps with a different global batch.
        for numbers_of_batch in list(loaded.batch_sampler)[3:]:
            with pytest.raises(fb.ConfigError, match="the library resumes at batch 3 of the epoch, but the loaded state is at batch 1"):
                loaded.dataset.__getitems__(numbers_of_batch)
            break


def test_a_newer_pass_of_the_adapter_for_torch_ends_the_one_before(pictures, epochs):
    from forebay.integrations.torch import DataLoader

    with ordered(pictures, shuffle=True) as loader:
        loaded = DataLoader(loader)
        first = iter(loaded)
        assert next(first)["number"].tolist() == epochs[0][0]
        second = iter(loaded)
        assert next(second)["number"].tolist() == epochs[1][0]
        with pytest.raises(fb.ClosedError, match="a newer iterator over the DataLoader"):
            next(first)
        assert [batch["number"].tolist() for batch in second] == epochs[1][1:]
