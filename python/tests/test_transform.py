"""The `transform` of forebay.Loader: errors, threads, and operations that draw once for a whole batch."""

import functools
import threading
import warnings

import pytest
from loaders import numbers, ordered
from picture_set import SAMPLES

import forebay as fb

torch = pytest.importorskip("torch")


class Fault(Exception):
    """Failure of a transform."""


def test_a_transform_without_return_is_an_error_that_names_it_and_the_remedy(pictures):
    calls = []

    def forgets(batch):
        calls.append(batch["number"].tolist())
        return batch if len(calls) > 1 else None

    with ordered(pictures, transform=forgets) as loader:
        with pytest.raises(fb.ConfigError, match=r"forgets returned None: end it with `return batch`.*filter=.*`continue`"):
            next(iter(loader))
        assert sum(len(batch["number"]) for batch in loader) == SAMPLES
        assert calls[0] == calls[1], "the batch is delivered again"


@pytest.mark.parametrize("error", [Fault, StopIteration, KeyboardInterrupt])
def test_a_batch_is_delivered_again_after_its_transform_raised(pictures, error):
    with ordered(pictures) as loader:
        expected = numbers(loader)
    calls = []

    def fails_once(batch):
        calls.append(batch["number"].tolist())
        if len(calls) == 2:
            batch.clear()
            raise error
        return batch

    with ordered(pictures, transform=fails_once) as loader:
        batches = iter(loader)
        next(batches)
        one = loader.state_dict()
        # A StopIteration would look like the end of the epoch.
        with pytest.raises(RuntimeError if error is StopIteration else error):
            next(batches)
        assert loader.state_dict() == one, "the second batch was not delivered"
        assert [batch["number"].tolist() for batch in batches] == expected[1:]
    assert calls == [*expected[:2], *expected[1:]]
    with ordered(pictures) as resumed:
        resumed.load_state_dict(one)
        assert numbers(resumed) == expected[1:]


@pytest.mark.parametrize("adapts", [False, True])
@pytest.mark.parametrize("position", [0, 1, -1])
def test_a_transform_that_raises_ends_the_epoch_with_the_loop(pictures, position, adapts):
    """The program keeps the error, and its traceback has the variables of the loop's calls."""
    from forebay.integrations.torch import DataLoader

    with ordered(pictures, shuffle=True) as loader:
        first, second = numbers(loader), numbers(loader)
    found, errors = [], []

    def fails(batch):
        if batch["number"].tolist() == first[position]:
            raise Fault
        return batch

    with ordered(pictures, shuffle=True, transform=fails) as loader:
        try:
            for batch in DataLoader(loader) if adapts else loader:
                found.append(batch["number"].tolist())
        except Fault as error:
            errors.append(error)
        assert found == first[:position] and len(errors) == 1
        assert [engine.runs() for engine in loader._engines] == [False], "threads make batches"
        state = loader.state_dict()
        assert (state["epoch"], state["sample_in_epoch"]) == (0, 16 * len(found))
        assert numbers(loader) == second
    with ordered(pictures, shuffle=True) as resumed:
        resumed.load_state_dict(state)
        assert numbers(resumed) == first[len(found) :]


def test_a_batch_that_cannot_be_shown_ends_the_epoch(pictures):
    def fails(batch):
        raise Fault

    with ordered(pictures, transform=fails) as loader:
        with pytest.raises(Fault):
            loader.adapter.peek()
        assert [engine.runs() for engine in loader._engines] == [False]
        assert (loader.epoch, loader.state_dict()["sample_in_epoch"]) == (0, 0)


@pytest.mark.parametrize("is_last", [False, True])
def test_threads_lose_no_batch_if_its_transform_raises(pictures, is_last):
    with ordered(pictures) as loader:
        expected = numbers(loader)
    position = len(expected) - 1 if is_last else 1
    transforming, go_on = threading.Event(), threading.Event()
    calls = []

    def fails_late(batch):
        calls.append(batch)
        if len(calls) == position + 1:
            transforming.set()
            assert go_on.wait(600)
            raise Fault
        return batch

    with ordered(pictures, transform=fails_late) as loader:
        batches, errors = iter(loader), []
        found = [next(batches)["number"].tolist() for _ in range(position)]
        before = loader.state_dict()

        def take():
            with pytest.raises(Fault):
                next(batches)
            errors.append(True)

        taker = threading.Thread(target=take)
        taker.start()
        assert transforming.wait(600)
        assert loader.state_dict() == before, "the batch in flight counts as delivered"
        ahead = [batch["number"].tolist() for batch in [next(batches, None)] if batch is not None]
        assert ahead == expected[position + 1 : position + 2]
        # At its end an epoch is over, although a thread still has its last batch.
        loader.state_dict()
        go_on.set()
        taker.join()
        assert errors
        with pytest.raises(fb.StateError, match="from the iterator first"):
            loader.state_dict()
        found.append(next(batches)["number"].tolist())
        loader.state_dict()
        assert found + ahead + [batch["number"].tolist() for batch in batches] == expected


def test_a_batch_of_several_devices_is_transformed_again_as_a_whole(pictures):
    calls = []

    def fails_once(both):
        calls.append([batch["number"].tolist() for batch in both])
        if len(calls) == 1:
            raise Fault
        return calls[-1]

    with ordered(pictures, device=["cpu", "cpu"], transform=fails_once) as loader:
        batches = iter(loader)
        with pytest.raises(Fault):
            next(batches)
        assert next(batches) == calls[0]


def augmented(pictures, transform, batches=2):
    """The warnings of some batches of pictures with `transform`."""
    fields = {"x": fb.Image("image", fb.Resize((16, 16))), "y": fb.Scalar("class")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with fb.Loader(local=pictures, batch_size=8, fields=fields, transform=transform) as loader:
            for _, batch in zip(range(batches), loader):
                assert len(batch["x"]) == 8
    found = [warning for warning in caught if "transform" in str(warning.message)]
    assert {warning.filename for warning in found} <= {__file__}, "a warning is at the line that asks for the batch"
    return [str(warning.message) for warning in found]


def test_a_random_operation_of_torchvision_on_a_whole_batch_is_a_warning(pictures):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    augment = v2.Compose([v2.RandomErasing(p=1.0), v2.Identity(), v2.ColorJitter(0.4)])
    nested = torch.nn.Sequential(v2.Identity(), v2.RandomApply([v2.GaussianBlur(3)], p=1.0))

    def on_the_batch(batch):
        return {**batch, "x": augment(batch["x"])}

    class Augment:
        def __init__(self):
            self.steps = [augment]

        def __call__(self, batch):
            return {**batch, "x": self.steps[0](batch["x"])}

        def method(self, batch):
            return self(batch)

    def on_each(operation, batch):
        batch["x"] = operation(batch["x"])
        return batch

    shapes = [augment, on_the_batch, Augment(), Augment().method, functools.partial(on_each, augment)]
    shapes.append(lambda batch: on_each(augment, batch))
    for transform in shapes:
        (message,) = augmented(pictures, transform)
        assert "passes a whole batch to RandomErasing, ColorJitter of torchvision, which draws once per call" in message
        assert 'torch.stack([augment(x) for x in batch["x"]])' in message
    (message,) = augmented(pictures, lambda batch: on_each(nested, batch))
    assert "RandomApply, GaussianBlur" in message


def test_operations_that_suit_a_batch_are_no_warning(pictures):
    v2 = pytest.importorskip("torchvision.transforms.v2")
    augment = v2.Compose([v2.RandomErasing(p=1.0), v2.ColorJitter(0.4)])
    steady = v2.Compose([v2.GaussianBlur(3, sigma=1.0), v2.Normalize([0.5] * 3, [0.5] * 3), v2.CenterCrop(8)])
    mix = v2.MixUp(num_classes=100)

    def each(batch):
        batch["x"] = torch.stack([augment(x) for x in batch["x"]])
        return batch

    def mixed(batch):
        x, y = mix(batch["x"].float(), batch["y"])
        return {"x": x, "y": y}

    for transform in (each, mixed, lambda batch: {"x": steady(batch["x"].float())}):
        assert augmented(pictures, transform) == []


def test_a_transform_that_raises_leaves_no_hook(pictures):
    pytest.importorskip("torchvision.transforms.v2")

    def raises(batch):
        assert hooks
        raise Fault

    hooks = torch.nn.modules.module._global_forward_pre_hooks
    with ordered(pictures, transform=raises) as loader, pytest.raises(Fault):
        next(iter(loader))
    assert not hooks


def test_every_sample_of_the_set_is_delivered_once_by_threads_that_share_a_transform(pictures):
    found = []

    def take(batches):
        found.extend(number for batch in batches for number in batch)

    with ordered(pictures, transform=lambda batch: batch["number"].tolist()) as loader:
        batches = iter(loader)
        takers = [threading.Thread(target=take, args=(batches,)) for _ in range(3)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
    assert sorted(found) == list(range(SAMPLES))
