"""Pixels of augmented pictures, compared with torchvision's for the same numbers."""

import io

import numpy as np
import pytest
from odd_pictures import NAME, SEED, augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from picture_set import jpeg
from PIL import Image

import forebay as fb

COUNT = 240

JITTER = fb.ColorJitter(0.4, 0.4, 0.4, 0.1)

OPERATIONS = {
    "brightness": fb.ColorJitter(brightness=0.8),
    "contrast": fb.ColorJitter(contrast=0.8),
    "saturation": fb.ColorJitter(saturation=1.5),
    "hue": fb.ColorJitter(hue=0.5),
    "jitter": JITTER,
    "distorted": fb.RandomPhotometricDistort(hue=(-0.2, 0.2)),
    "permuted": fb.RandomChannelPermutation(),
    "grey": fb.RandomGrayscale(0.5),
    "invert": fb.RandomInvert(),
    "posterize": fb.RandomPosterize(3),
    "solarize": fb.RandomSolarize(100.5),
    "autocontrast": fb.RandomAutocontrast(),
    "equalize": fb.RandomEqualize(),
    "blurred": fb.RandomAdjustSharpness(0.2),
    "sharper": fb.RandomAdjustSharpness(2.5),
    "vertical flip": fb.RandomVerticalFlip(),
    "flips": fb.RandomApply([fb.RandomHorizontalFlip(), fb.RandomVerticalFlip()], 0.8),
    "order": fb.RandomOrder([fb.RandomSolarize(128), fb.RandomPosterize(4), fb.RandomGrayscale(0.5), fb.RandomEqualize()]),
    "choice": fb.RandomChoice([JITTER, fb.RandomInvert(1.0), fb.RandomApply([fb.RandomEqualize(), JITTER])], [3, 1, 2]),
    "a run of tables": fb.RandomApply([fb.RandomInvert(), fb.ColorJitter(0.5, 0.5), fb.RandomEqualize(), fb.RandomAutocontrast()], 1.0),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("odd") / "set", COUNT)


def compare(odd, *ops):
    """Returns the largest difference, and the share of the pictures that changed."""
    folder, made = odd
    rows = augmented(folder, *ops)
    field, changed, apart = fb.Image("image", *ops), 0, 0
    for number, pixels in enumerate(made):
        picture = Image.fromarray(pixels)
        expected = np.asarray(in_torchvision(picture, drawn_steps(field, pixels, number))).transpose(2, 0, 1)
        apart = max(apart, levels_apart(rows[number], expected))
        changed += not np.array_equal(expected, pixels.transpose(2, 0, 1))
    return apart, changed / len(made)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_pixels_are_torchvision_s_for_the_same_numbers(odd, name):
    apart, changed = compare(odd, OPERATIONS[name])
    assert apart == 0
    assert changed > 0.1


def test_a_gaussian_blur_is_torchvision_s(tmp_path):
    folder, made = write_odd_pictures(tmp_path / "set", 120)
    for kernel, sigma in [(3, (0.1, 2.0)), ((5, 3), 1.5), (7, (0.5, 3.0))]:
        blur = fb.GaussianBlur(kernel, sigma)
        rows = augmented(folder, blur)
        for number, pixels in enumerate(made):
            if min(pixels.shape[:2]) <= 3:
                continue  # torchvision refuses kernels that are wider than the picture and its mirror image.
            steps = drawn_steps(fb.Image("image", blur), pixels, number)
            expected = np.asarray(in_torchvision(Image.fromarray(pixels), steps)).transpose(2, 0, 1)
            assert levels_apart(rows[number], expected) <= 1


def test_operations_are_applied_in_the_order_given(odd):
    for ops in [
        (fb.RandomGrayscale(1.0), JITTER, fb.RandomSolarize(100, 1.0)),
        (fb.RandomSolarize(100, 1.0), JITTER, fb.RandomGrayscale(1.0)),
        (fb.Grayscale(), JITTER),
        (JITTER, fb.Grayscale()),
        (fb.RandomPosterize(2, 1.0), fb.Pad(3), fb.RandomInvert(1.0), fb.RandomHorizontalFlip(), fb.RandomCrop(4, pad_if_needed=True)),
    ]:
        apart, changed = compare(odd, *ops)
        assert apart == 0
        assert changed > 0.5


def test_augmentations_without_effect_leave_the_row_as_it_was(odd):
    folder, _ = odd
    ops = (fb.CenterCrop(20), fb.RandomHorizontalFlip())
    plain = augmented(folder, *ops)
    for never in (fb.RandomApply([JITTER], 0.0), fb.RandomInvert(0.0), fb.ColorJitter()):
        rows = augmented(folder, *ops, never)
        assert all(np.array_equal(rows[number], row) for number, row in plain.items())


def test_augmented_pictures_are_normalised_as_plain_pictures(odd):
    folder, _ = odd
    ops = (fb.CenterCrop(20), fb.RandomSolarize(99, 1.0))
    levels = augmented(folder, *ops)
    normalised = augmented(folder, *ops, fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD))
    mean, std = (np.array(values, np.float32)[:, None, None] for values in (fb.IMAGENET_MEAN, fb.IMAGENET_STD))
    for number, row in levels.items():
        assert np.abs((row / np.float32(255) - mean) / std - normalised[number]).max() < 1e-5


def test_a_jpeg_is_augmented_after_its_crop_and_resize(pictures):
    crop = (fb.RandomResizedCrop(48), fb.RandomHorizontalFlip())
    for op in (fb.TrivialAugmentWide(), fb.RandAugment(), fb.AutoAugment(), JITTER):
        plain, field = fb.Image("image", *crop), fb.Image("image", *crop, op)
        fields = {NAME: field, "number": fb.Scalar("number")}
        options = {"local": pictures, "batch_size": 20, "framework": "numpy", "order": fb.Order(augment_seed=SEED)}
        with (
            fb.Loader(fields=fields, **options) as loader,
            fb.Loader(fields={NAME: plain}, **options) as cropped,
        ):
            for batch, before in zip(loader, cropped, strict=True):
                for number, row, pixels in zip(batch["number"].tolist(), batch[NAME], before[NAME], strict=True):
                    with Image.open(io.BytesIO(jpeg(number))) as stored:
                        size = (stored.height, stored.width)
                    steps = fb.drawn(field, size, name=NAME, augment_seed=SEED, draw=number)
                    actions = [step for step in steps if "action" in step]
                    expected = in_torchvision(Image.fromarray(pixels.transpose(1, 2, 0).copy()), actions)
                    assert levels_apart(row, np.asarray(expected).transpose(2, 0, 1)) == 0
