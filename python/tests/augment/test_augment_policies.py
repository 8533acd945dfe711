"""Policies: their tables and strengths are torchvision's, and so are the pixels."""

import collections

import numpy as np
import pytest
from odd_pictures import augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image
from policy_spaces import action_of, drawn_action, possible, rounded
from scipy import stats
from torchvision.transforms import AutoAugmentPolicy, v2

import forebay as fb

SIZES = [(224, 224), (64, 48), (1, 1), (333, 500), (97, 201), (32, 32), (3, 1000)]


def steps(op, size, draw):
    found = fb.drawn(fb.Image("image", op), size, name="x", augment_seed=5, draw=draw)
    return [step for step in found if "action" in step]


def test_trivial_augment_draws_every_operation_and_strength_of_its_table():
    seen, kinds, size = set(), collections.Counter(), (64, 48)
    actions = possible(v2.TrivialAugmentWide._AUGMENTATION_SPACE, 31, size)
    by_action = {rounded(action): name for name, found in actions.items() for action in found if action}
    draws = 20_000
    for draw in range(draws):
        found = steps(fb.TrivialAugmentWide(), size, draw)
        assert len(found) < 2
        action = rounded(drawn_action(found[0])) if found else None
        seen.add(action)
        # Operations with a strength of 0 that are the same action count as one.
        kinds[by_action[action] if found else "Identity"] += 1
    assert seen - {None} <= by_action.keys()
    assert len(seen - {None}) > 0.99 * len(by_action)
    assert all(stats.binomtest(count, draws, 1 / 14).pvalue > 1e-4 for name, count in kinds.items() if not name.endswith(("X", "Y")))
    assert kinds.keys() == actions.keys()


@pytest.mark.parametrize("magnitude", [0, 9, 15, 30])
def test_rand_augment_has_its_strength_for_every_size(magnitude):
    for size in SIZES:
        actions = possible(v2.RandAugment._AUGMENTATION_SPACE, 31, size, magnitude)
        known = {rounded(action) for found in actions.values() for action in found if action}
        seen = set()
        for draw in range(300):
            found = steps(fb.RandAugment(2, magnitude), size, draw)
            assert len(found) <= 2
            seen |= {rounded(drawn_action(step)) for step in found}
        assert seen == known


@pytest.mark.parametrize("policy", AutoAugmentPolicy)
def test_auto_augment_draws_the_pairs_of_its_policy(policy):
    size, theirs = (224, 200), v2.AutoAugment(policy)
    allowed = set()
    for pair in theirs._policies:
        options = []
        for name, probability, place in pair:
            strengths, signed = theirs._AUGMENTATION_SPACE[name]
            strength = strengths(10, *size)
            strength = 0.0 if strength is None else float(strength[place])
            signs = (1, -1) if signed else (1,)
            applied = [(rounded(action_of(name, sign * strength)),) for sign in signs] if probability else []
            options.append(applied + ([()] if probability < 1 else []))
        allowed |= {first + second for first in options[0] for second in options[1]}
    seen = {tuple(rounded(drawn_action(step)) for step in steps(fb.AutoAugment(policy), size, draw)) for draw in range(6000)}
    assert seen <= allowed
    assert len(seen) > 0.85 * len(allowed)


def test_aug_mix_draws_weights_that_sum_to_one():
    kept, depths = [], collections.Counter()
    for draw in range(1500):
        found = steps(fb.AugMix(), (40, 30), draw)
        weights = [step["weight"] for step in found if "weight" in step]
        assert sum(weights) == pytest.approx(1) and len(weights) == 4 and min(weights) >= 0
        kept.append(weights[0])
        ends = [place for place, step in enumerate(found) if "weight" in step]
        depths.update(after - before - 1 for before, after in zip(ends, ends[1:], strict=False))
        strengths = possible(v2.AugMix._AUGMENTATION_SPACE, 10, (40, 30))
        known = {rounded(action) for actions in strengths.values() for action in actions}
        assert {rounded(drawn_action(step)) for step in found if "mixture" not in step["action"]} <= known
    assert stats.kstest(kept, stats.beta(1, 1).cdf).pvalue > 1e-3
    assert depths.keys() == {1, 2, 3} and stats.chisquare(list(depths.values())).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.3, 4.0])
def test_aug_mix_draws_weights_of_its_distribution(alpha):
    kept = [steps(fb.AugMix(alpha=alpha), (9, 9), draw)[0]["weight"] for draw in range(2000)]
    assert stats.kstest(kept, stats.beta(alpha, alpha).cdf).pvalue > 1e-3


POLICIES = {
    "trivial": fb.TrivialAugmentWide(),
    "trivial bilinear": fb.TrivialAugmentWide(interpolation="bilinear", fill=(10, 200, 30)),
    "rand": fb.RandAugment(3, 20, fill=127),
    "auto": fb.AutoAugment(),
    "auto bicubic": fb.AutoAugment("cifar10", "bicubic"),
    "mix": fb.AugMix(severity=10),
    "mix by levels": fb.LevelAugment([[("Color", 1, 9)], [("Equalize", 1, 0)], [("ShearX", 1, 9)]], count=0, width=3, alpha=0.5),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("policies") / "set", 300)


@pytest.mark.parametrize("name", POLICIES)
def test_the_pixels_of_a_policy_are_torchvision_s(odd, name):
    folder, made = odd
    rows, field = augmented(folder, POLICIES[name]), fb.Image("image", POLICIES[name])
    apart = []
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels), drawn_steps(field, pixels, number))
        apart.append(levels_apart(rows[number], np.asarray(expected).transpose(2, 0, 1)))
    assert max(apart) <= 1
