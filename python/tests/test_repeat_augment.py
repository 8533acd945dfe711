"""Repeated augmentation: rows of one sample with their own draws, on any number of ranks and after a resume."""

import json
from collections import Counter

import numpy as np
import pytest
from picture_set import SAMPLES, write_pictures

import forebay as fb

ORDER = {"num_canonical_nodes": 1, "repeat_augment": 3, "augment_seed": 5}
FIELDS = {"x": fb.Image("image", fb.RandomResizedCrop(16), fb.RandomHorizontalFlip()), "number": fb.Scalar("number")}
GLOBAL_BATCH = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("repeated") / "set")


def loader(folder, rank=0, ranks=1, extra=(), **order):
    world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
    defaults = {"fields": FIELDS, "framework": "numpy", "batch_size": GLOBAL_BATCH // ranks, "shuffle": True}
    return fb.Loader(local=folder, extra=["repeat", *extra], order=fb.Order(**ORDER | order), world=world, **defaults)


def rows(batch):
    """The number and the pixels of each row that does not only make ranks equally long."""
    own = ~np.asarray(batch["repeat"])
    numbers, pixels = np.asarray(batch["number"])[own], np.asarray(batch["x"])[own]
    return [(int(number), row.tobytes()) for number, row in zip(numbers, pixels, strict=True)]


def global_batches(folder, ranks, state=None, **order):
    """The rows of each step on all ranks, sorted."""
    steps = []
    for rank in range(ranks):
        with loader(folder, rank, ranks, **order) as made:
            if state is not None:
                made.load_state_dict(state)
            for step, batch in enumerate(made):
                steps += [[]] * (step == len(steps))
                steps[step] = steps[step] + rows(batch)
    return [sorted(step) for step in steps]


@pytest.fixture(scope="module")
def whole(folder):
    return global_batches(folder, 1)


def test_each_sample_has_its_repeats_with_different_pixels_in_one_batch(folder, whole):
    assert [len(step) for step in whole] == [GLOBAL_BATCH] * (SAMPLES // GLOBAL_BATCH) + [SAMPLES % GLOBAL_BATCH]
    for step in whole[:-1]:
        assert set(Counter(number for number, _ in step).values()) == {3}
        assert len({pixels for _, pixels in step}) > 0.9 * GLOBAL_BATCH
    numbers = Counter(number for step in whole for number, _ in step)
    assert len(numbers) == -(-SAMPLES // 3) and sum(numbers.values()) == SAMPLES


@pytest.mark.parametrize("ranks", [2, 8])
def test_global_batches_are_equal_on_any_number_of_ranks(folder, whole, ranks):
    assert global_batches(folder, ranks) == whole


def test_a_resumed_epoch_has_the_remaining_batches_on_a_different_number_of_ranks(folder, whole):
    with loader(folder, 0, 2) as made:
        batches = iter(made)
        for _ in range(3):
            next(batches)
        state = json.loads(json.dumps(made.state_dict()))
    for ranks in (1, 4, 8):
        assert global_batches(folder, ranks, state) == whole[3:], ranks


def test_the_repeats_of_a_sample_are_rows_of_different_ranks(folder):
    of_rank = []
    for rank in range(4):
        with loader(folder, rank, 4) as made:
            of_rank.append([[number for number, _ in rows(batch)] for batch in made])
    for step in zip(*of_rank, strict=True):
        assert all(len(set(numbers)) == len(numbers) for numbers in step)


def test_a_repeat_of_one_is_the_order_without_and_draws_alike(folder):
    with fb.Loader(
        local=folder,
        fields=FIELDS,
        framework="numpy",
        batch_size=GLOBAL_BATCH,
        extra=["repeat"],
        shuffle=True,
        order=fb.Order(augment_seed=5),
    ) as plain:
        assert [sorted(rows(batch)) for batch in plain] == global_batches(folder, 1, repeat_augment=1)


def test_epochs_repeat_different_samples(folder):
    with loader(folder) as made:
        epochs = [{number for batch in made for number, _ in rows(batch)} for _ in range(2)]
    assert epochs[0] != epochs[1]


def test_samples_of_a_step_and_its_replay_are_those_that_were_delivered(folder):
    with loader(folder, skip_steps=[2], extra=["sample_ids"]) as made:
        delivered = [(rows(batch), np.asarray(batch["sample_ids"]).tolist()) for batch in made]
        assert len(delivered) == len(made) - 1
        for step, (expected, ids) in zip([0, 1, 3, 4], delivered):
            found = [[sample.stream, sample.shard, sample.index] for sample in made.samples_of(step)]
            assert found == ids
            assert rows(made.replay(step)) == expected


def test_a_state_is_of_its_number_of_repeats(folder):
    with loader(folder) as three, loader(folder, repeat_augment=1) as one:
        with pytest.raises(fb.StateError, match="repeat_augment was 3 and is 1"):
            one.load_state_dict(three.state_dict())
        with pytest.raises(fb.StateError, match="repeat_augment was 1 and is 3"):
            three.load_state_dict(one.state_dict())
        assert "repeat_augment" not in one.state_dict()["forebay"]["plan"]
    for wrong in (0, 257, 1.5, "3"):
        with pytest.raises(fb.ConfigError, match="repeat_augment"):
            loader(folder, repeat_augment=wrong)


def test_an_epoch_has_as_many_draws_as_in_timm(folder):
    """An epoch of DeiT's sampler has as many rows as samples, and one sample in `repeats` of them."""

    def reference(samples, repeats, ranks):
        # timm.data.distributed_sampler.RepeatAugSampler with selected_round=0.
        order = np.repeat(np.random.default_rng(0).permutation(samples), repeats)
        total = -(-samples * repeats // ranks) * ranks
        order = np.append(order, order[: total - len(order)])
        return [order[rank:total:ranks][: -(-samples // ranks)] for rank in range(ranks)]

    expected = Counter(np.concatenate(reference(SAMPLES, 3, 4)).tolist())
    found = Counter(number for step in global_batches(folder, 4) for number, _ in step)
    assert sorted(found.values()) == sorted(expected.values())
