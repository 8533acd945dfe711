"""Distributions of the numbers that operations draw. The seed is fixed, so every run draws the same."""

import collections
import math

import pytest
from scipy import stats

import forebay as fb

DRAWS = 4000


def actions(op, size=(64, 48), draws=DRAWS):
    """Returns the actions of each draw, without the stages."""
    field = fb.Image("image", op)
    for draw in range(draws):
        steps = fb.drawn(field, size, name="x", augment_seed=5, draw=draw)
        yield [step for step in steps if "action" in step]


def is_uniform(values, low, high):
    """Returns True unless a Kolmogorov-Smirnov test rejects it at 1 in 1,000."""
    return stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 1e-3


def are_equally_frequent(counts, kinds):
    return len(counts) == kinds and stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_a_jitter_draws_its_factors_and_their_order():
    orders, factors = collections.Counter(), collections.defaultdict(list)
    for steps in actions(fb.ColorJitter(0.4, (0.5, 3.0), 1.5, 0.1)):
        orders[tuple(step["action"] for step in steps)] += 1
        for step in steps:
            factors[step["action"]].append(step["factor"])
    assert are_equally_frequent(orders, 24)
    bounds = {"brightness": (0.6, 1.4), "contrast": (0.5, 3.0), "saturation": (0.0, 2.5), "hue": (-0.1, 0.1)}
    for name, (low, high) in bounds.items():
        assert is_uniform(factors[f"adjust_{name}"], low, high)
    pairs = zip(factors["adjust_brightness"], factors["adjust_contrast"], strict=True)
    assert abs(stats.pearsonr(*zip(*pairs, strict=True)).statistic) < 0.05


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_an_operation_by_chance_is_applied_as_often_as_its_probability(p):
    for op in (fb.RandomInvert(p), fb.RandomApply([fb.RandomGrayscale(1.0)], p)):
        applied = sum(len(steps) for steps in actions(op, draws=2000))
        assert stats.binomtest(applied, 2000, p).pvalue > 1e-3


def test_a_choice_follows_its_weights():
    ops = [fb.RandomInvert(1.0), fb.RandomEqualize(1.0), fb.RandomAutocontrast(1.0)]
    counts = collections.Counter(steps[0]["action"] for steps in actions(fb.RandomChoice(ops, [1, 0, 3])))
    assert set(counts) == {"invert", "autocontrast"}
    assert stats.binomtest(counts["invert"], DRAWS, 0.25).pvalue > 1e-3
    assert are_equally_frequent(collections.Counter(steps[0]["action"] for steps in actions(fb.RandomChoice(ops))), 3)


def test_an_order_has_every_permutation_and_keeps_the_draws_of_its_parts():
    ops = [fb.RandomInvert(1.0), fb.ColorJitter(brightness=0.5), fb.RandomPosterize(3, 1.0)]
    orders = collections.Counter(tuple(step["action"] for step in steps) for steps in actions(fb.RandomOrder(ops)))
    assert are_equally_frequent(orders, 6)


def test_a_blur_draws_its_deviation():
    sigmas = [steps[0]["sigma"] for steps in actions(fb.GaussianBlur(3, (0.1, 2.0)))]
    assert is_uniform(sigmas, 0.1, 2.0)
    assert {steps[0]["sigma"] for steps in actions(fb.GaussianBlur(3, 1.5), draws=9)} == {1.5}


def test_an_operation_that_is_added_does_not_change_the_draws_of_its_neighbours():
    jitter, invert = fb.ColorJitter(0.4, 0.4, 0.4, 0.1), fb.RandomInvert()

    def jitters(*ops):
        field = fb.Image("image", *ops)
        steps = [fb.drawn(field, (9, 9), name="x", augment_seed=1, draw=draw) for draw in range(50)]
        return [[step for step in of_one if str(step.get("action")).startswith("adjust")] for of_one in steps]

    assert jitters(jitter) == jitters(fb.RandomHorizontalFlip(), invert, fb.RandomGrayscale(), jitter, invert)
    first, second = (jitters(jitter), jitters(jitter, jitter))
    assert [of_one[:4] for of_one in second] == first
    assert all(of_one[:4] != of_one[4:] for of_one in second)


def test_the_numbers_of_version_1_do_not_change():
    [[first]] = [list(steps) for steps in actions(fb.ColorJitter(brightness=0.5), draws=1)]
    assert math.isclose(first["factor"], FIRST_BRIGHTNESS, rel_tol=1e-15)


FIRST_BRIGHTNESS = 0.6353815932535989
