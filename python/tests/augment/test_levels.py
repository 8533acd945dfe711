"""Policies with levels and what else timm's recipes need: the pixels of Pillow, and draws."""

import numpy as np
import pytest
from odd_pictures import augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image
from policy_spaces import LEVEL_NAMES

import forebay as fb

MEAN, STD = fb.IMAGENET_MEAN, fb.IMAGENET_STD


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("odd") / "set", 120)


@pytest.mark.parametrize("name", LEVEL_NAMES)
def test_levels_give_the_pixels_of_pillow(odd, name):
    folder, made = odd
    op = fb.LevelAugment([[(name, 0.9, 7.5)]], count=2, magnitude_std=2.0, fill=(9, 80, 130))
    field, moved = fb.Image("image", op), 0
    for number, row in augmented(folder, op).items():
        steps = drawn_steps(field, made[number], number)
        expected = np.asarray(in_torchvision(Image.fromarray(made[number]), steps)).transpose(2, 0, 1)
        assert levels_apart(row, expected) == 0, (number, steps)
        moved += not np.array_equal(expected, made[number].transpose(2, 0, 1))
    assert moved > 10


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.3, 1.0, 2.0, 7.5, 40.0])
def test_a_blur_by_its_radius_is_pillow_s(odd, radius):
    folder, made = odd
    for number, row in augmented(folder, fb.RadiusBlur(radius)).items():
        steps = [{"action": "radius_blur", "radius": radius}]
        expected = np.asarray(in_torchvision(Image.fromarray(made[number]), steps)).transpose(2, 0, 1)
        assert np.array_equal(row, expected), number


def test_labels_and_boxes_follow_a_policy(odd):
    folder, made = odd
    op = fb.LevelAugment([[("ShearX", 1.0, 9)], [("TranslateYRel", 1.0, 9)], [("Rotate", 1.0, 9)]], count=2)
    for number, row in augmented(folder, op, kind=fb.Mask, column="label").items():
        steps = drawn_steps(fb.Mask("label", op), made[number], number)
        expected = np.asarray(in_torchvision(Image.fromarray(made[number][:, :, 0]), steps, is_label=True))
        assert np.array_equal(row, expected), number


def test_noise_of_a_box_is_one_number_for_each_channel(odd):
    folder, _ = odd
    ops = (fb.Resize((40, 50)), fb.Normalize(MEAN, STD))
    plain = augmented(folder, *ops)
    erasing = fb.RandomErasing(1.0, (0.1, 0.3), value="random_colour", count=3)
    numbers, counts = [], []
    for number, row in augmented(folder, *ops, erasing).items():
        boxes = [step for step in drawn_steps(fb.Image("image", *ops, erasing), row[0], number) if step.get("action") == "erase"]
        counts.append(len(boxes))
        expected = plain[number].copy()
        for box in boxes:
            part = (slice(None), slice(box["i"], box["i"] + box["h"]), slice(box["j"], box["j"] + box["w"]))
            expected[part] = row[:, box["i"] + box["h"] // 2, box["j"] + box["w"] // 2][:, None, None]
            assert box["h"] * box["w"] <= 0.32 * 2000 / len(boxes)
        if len(boxes) == 1:
            assert np.array_equal(row, expected), number
            numbers += list(row[:, boxes[0]["i"], boxes[0]["j"]])
    assert set(counts) == {1, 2, 3}
    assert len(set(numbers)) == len(numbers) and abs(np.mean(numbers)) < 0.5 and 0.6 < np.std(numbers) < 1.4


def test_one_of_two_filters_is_drawn(odd):
    folder, made = odd
    crop = fb.RandomResizedCrop(20, interpolation=("bilinear", "bicubic"))
    steps = [drawn_steps(fb.Image("image", crop), pixels, number)[0] for number, pixels in enumerate(made)]
    assert 30 < sum(step["interpolation"] == "bicubic" for step in steps) < 90
    plain = [drawn_steps(fb.Image("image", fb.RandomResizedCrop(20)), pixels, number)[0] for number, pixels in enumerate(made)]
    assert [step["crop"] for step in steps] == [step["crop"] for step in plain]
    with pytest.raises(fb.ConfigError, match="two, to draw one of them"):
        fb.RandomResizedCrop(20, interpolation=("bilinear",))._spec()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"choices": [[("Cutout", 0.5, 9)]]}, "Cutout"),
        ({"choices": [[("Rotate", 1.5, 9)]]}, "`p` from 0 to 1"),
        ({"choices": []}, "`choices` from 1"),
        ({"choices": [[("Rotate", 0.5, 9)]], "weights": [1, 2]}, "a weight of at least 0"),
        ({"choices": [[("Rotate", 0.5, 9)]], "weights": [1.0], "count": 2}, "as many above 0"),
    ],
)
def test_arguments_of_levels_are_checked(odd, arguments, message):
    with pytest.raises(fb.ConfigError, match=message):
        augmented(odd[0], fb.LevelAugment(**arguments))
