"""Operations that move pixels: pictures and their masks, compared with torchvision's."""

import numpy as np
import pytest
from odd_pictures import NAME, SEED, augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image
from scipy import stats
from torchvision.transforms.v2 import RandomAffine, RandomPerspective
from torchvision.transforms.v2.functional._geometry import _get_perspective_coeffs

import forebay as fb

COUNT = 200

OPERATIONS = {
    "rotation": fb.RandomRotation(40),
    "whole turns": fb.RandomRotation((90, 90), expand=True),
    "half turn": fb.RandomRotation((180, 180)),
    "expanded": fb.RandomRotation((-200, 170), "bilinear", expand=True, fill=(1, 2, 250)),
    "about a corner": fb.RandomRotation(30, "bicubic", center=(0, 0)),
    "affine": fb.RandomAffine(20, (0.2, 0.3), (0.6, 1.7), 15),
    "affine bilinear": fb.RandomAffine((5, 90), (0.1, 0.1), (0.3, 3.0), (-10, 10, -20, 20), "bilinear", 99, (3, 4)),
    "affine bicubic": fb.RandomAffine(15, shear=(-30, 30), interpolation="bicubic"),
    "perspective": fb.RandomPerspective(0.6, 0.9),
    "perspective nearest": fb.RandomPerspective(1.0, 1.0, "nearest", fill=(255, 0, 9)),
    "perspective bicubic": fb.RandomPerspective(0.3, 1.0, "bicubic"),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("moves") / "set", COUNT)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_pixels_are_moved_as_torchvision_moves_them(odd, name):
    folder, made = odd
    op = OPERATIONS[name]
    rows, field = augmented(folder, op), fb.Image("image", op)
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels), drawn_steps(field, pixels, number))
        assert levels_apart(rows[number], np.asarray(expected).transpose(2, 0, 1)) <= 1, pixels.shape


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_mask_is_moved_by_nearest_neighbour_and_keeps_its_labels(odd, name):
    folder, made = odd
    op = OPERATIONS[name]
    rows, field = augmented(folder, op, kind=fb.Mask, column="label"), fb.Mask("label", op)
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels[:, :, 0]), drawn_steps(field, pixels, number), is_label=True)
        assert np.array_equal(rows[number], np.asarray(expected)), pixels.shape


def test_a_picture_and_its_mask_move_alike(odd):
    folder, _ = odd
    moves = (fb.RandomCrop(24, pad_if_needed=True), fb.RandomVerticalFlip(), fb.RandomAffine(30, (0.1, 0.1), (0.7, 1.3)), fb.RandomHorizontalFlip())
    jitter = fb.ColorJitter(0.4, 0.4, 0.4, 0.1)
    pair = fb.Joint(x=fb.Image("image", *moves), y=fb.Mask("label", *moves), z=fb.Image("image", *moves[:3], jitter, moves[3]))
    with fb.Loader(local=folder, batch_size=50, shuffle=True, framework="numpy", fields={"pair": pair}) as loader:
        for batch in loader:
            assert np.array_equal(batch["x"][:, 0], batch["y"])
            assert (batch["x"] != batch["z"]).any()


def test_a_policy_moves_the_mask_and_leaves_its_labels(odd):
    folder, made = odd
    op = fb.TrivialAugmentWide()
    rows, field = augmented(folder, op, kind=fb.Mask, column="label"), fb.Mask("label", op)
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels[:, :, 0]), drawn_steps(field, pixels, number), is_label=True)
        assert np.array_equal(rows[number], np.asarray(expected))


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        ((fb.RandomRotation(10),), None),
        ((fb.RandomRotation(10, fill=255), fb.ColorJitter(0.1)), None),
        ((fb.RandomRotation(11),), "same random operations"),
        ((), "same random operations"),
        ((fb.RandomRotation(10), fb.RandomVerticalFlip()), "same random operations"),
    ],
)
def test_the_fields_of_a_joint_need_the_same_moves(odd, mask, sentence):
    folder, _ = odd
    pair = fb.Joint(x=fb.Image("image", fb.RandomRotation(10, "bilinear"), fb.RandomInvert()), y=fb.Mask("label", *mask))
    if sentence is None:
        fb.Loader(local=folder, batch_size=2, fields={"pair": pair}).close()
    else:
        with pytest.raises(fb.ConfigError, match=sentence):
            fb.Loader(local=folder, batch_size=2, fields={"pair": pair})


def test_operations_that_labels_cannot_follow_are_refused(odd):
    folder, _ = odd
    levels = fb.LevelAugment([[("ShearX", 1, 9)]], width=2)
    for op, sentence in [(fb.AugMix(), "AugMix blends pictures"), (levels, "AugMix blends pictures"), (fb.RandomApply([fb.AugMix()]), "AugMix"), (fb.RandomErasing(), "a Mask holds labels")]:
        with pytest.raises(fb.ConfigError, match=sentence):
            fb.Loader(local=folder, batch_size=2, fields={NAME: fb.Mask("label", op)})


def draws(op, size, name, count=3000):
    field = fb.Image("image", op)
    found = (fb.drawn(field, size, name=NAME, augment_seed=SEED, draw=draw) for draw in range(count))
    return [step for steps in found for step in steps if step.get("action") == name]


def test_an_affine_map_has_torchvision_s_distribution():
    size, theirs = (60, 90), RandomAffine(20, (0.2, 0.3), (0.6, 1.7), (-3, 4, -5, 6))
    ours = draws(fb.RandomAffine(20, (0.2, 0.3), (0.6, 1.7), (-3, 4, -5, 6)), size, "affine")
    import torch

    torch.manual_seed(2)
    drawn = [theirs.make_params([torch.zeros(3, *size)]) for _ in range(3000)]
    for pick in (lambda d: d["angle"], lambda d: d["translate"][0], lambda d: d["translate"][1], lambda d: d["scale"], lambda d: d["shear"][0], lambda d: d["shear"][1]):
        assert stats.ks_2samp([pick(d) for d in ours], [pick(d) for d in drawn]).pvalue > 1e-3


def test_a_perspective_has_torchvision_s_corners_and_coefficients():
    import torch

    size, theirs = (60, 91), RandomPerspective(0.5, p=1.0)
    torch.manual_seed(2)
    drawn = [theirs.make_params([torch.zeros(3, *size)])["coefficients"] for _ in range(2000)]
    ours = draws(fb.RandomPerspective(0.5, 1.0), size, "perspective", 2000)
    assert len(ours) == 2000
    for place in range(8):
        assert stats.ks_2samp([step["coefficients"][place] for step in ours], [of[place] for of in drawn]).pvalue > 1e-3
    height, width = size
    corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    for step in ours[:200]:
        expected = _get_perspective_coeffs(corners, step["endpoints"])
        assert step["coefficients"] == pytest.approx(expected, rel=1e-5, abs=1e-9)
