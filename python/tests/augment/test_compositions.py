"""Compositions that hold crops, sizes and borders, compared with torchvision's."""

import numpy as np
import pytest
import torch
from odd_pictures import NAME, SEED, augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image
from torchvision.transforms import v2

import forebay as fb

COUNT = 120

COMPOSITIONS = {
    "a crop by chance": fb.RandomApply([fb.RandomResizedCrop((20, 30))], p=0.6),
    "one of two crops": fb.RandomChoice([fb.RandomResizedCrop((20, 30)), fb.RandomCrop((20, 30), pad_if_needed=True)], p=[0.7, 0.3]),
    "sizes and colours": fb.RandomOrder([fb.RandomZoomOut((1, 2, 250)), fb.ColorJitter(0.4), fb.RandomShortestSize((20, 31, 44)), fb.RandomAffine(20)]),
    "nested compositions": fb.RandomChoice(
        [fb.RandomApply([fb.Resize((33, 21)), fb.RandomHorizontalFlip(), fb.RandomOrder([fb.Pad(3, fill=9), fb.RandomInvert()])], p=0.8), fb.CenterCrop(12)]
    ),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("compositions") / "set", COUNT)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_the_pixels_are_torchvision_s_for_the_same_numbers(odd, name):
    folder, made = odd
    op = COMPOSITIONS[name]
    rows, field, shapes = augmented(folder, op), fb.Image("image", op), set()
    for number, pixels in enumerate(made):
        expected = np.asarray(in_torchvision(Image.fromarray(pixels), drawn_steps(field, pixels, number)))
        # Changes of colours make the level by which a resize differs larger.
        assert levels_apart(rows[number], expected.transpose(2, 0, 1)) <= 3, pixels.shape
        shapes.add(expected.shape)
    assert len(shapes) > 2 or name == "one of two crops"


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_a_mask_follows_its_picture(odd, name):
    folder, made = odd
    op = COMPOSITIONS[name]
    rows, field = augmented(folder, op, kind=fb.Mask, column="label"), fb.Mask("label", op)
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels[:, :, 0]), drawn_steps(field, pixels, number), is_label=True)
        assert np.array_equal(rows[number], np.asarray(expected)), pixels.shape


def test_a_picture_and_its_mask_are_cut_alike(odd):
    op = fb.RandomChoice([fb.RandomResizedCrop((20, 30), interpolation="nearest"), fb.RandomApply([fb.RandomCrop((20, 30), pad_if_needed=True)], p=1.0)])
    pair = fb.Joint(x=fb.Image("image", op), y=fb.Mask("label", op))
    with fb.Loader(local=odd[0], batch_size=COUNT, shuffle=True, fields={"pair": pair}) as loader:
        [batch] = loader
    assert torch.equal(batch["x"][:, 0].long(), batch["y"].long())


def test_a_size_that_all_choices_have_is_the_rows(odd):
    same = fb.RandomChoice([fb.RandomResizedCrop(16), fb.RandomApply([fb.Resize(20), fb.CenterCrop(16)], p=1.0)])
    assert all(row.shape == (3, 16, 16) for row in augmented(odd[0], same).values())
    rows = augmented(odd[0], fb.CenterCrop(16), fb.RandomApply([fb.RandomCrop(16, padding=2)]), fb.RandomOrder([fb.RandomCrop(8), fb.RandomCrop(8)]))
    assert all(row.shape == (3, 8, 8) for row in rows.values())


def test_choices_are_as_frequent_as_their_weights():
    field = fb.Image("image", fb.RandomChoice([fb.CenterCrop(4), fb.CenterCrop(5), fb.RandomApply([fb.CenterCrop(6)], p=0.5)], p=[1, 2, 4]))
    sides = [fb.drawn(field, (9, 9), name=NAME, augment_seed=SEED, draw=draw)[0]["window"][2] for draw in range(7000)]
    counts = dict(zip(*np.unique(sides, return_counts=True), strict=True))
    assert counts == pytest.approx({4: 1000, 5: 2000, 6: 2000, 9: 2000}, rel=0.1)


def test_compositions_of_colours_have_the_draws_that_they_had(odd):
    colours = fb.RandomApply([fb.RandomInvert(0.5), fb.RandomSolarize(99)], p=0.5)
    alone = fb.Image("image", fb.CenterCrop(8), colours)
    after = fb.Image("image", fb.RandomApply([fb.CenterCrop(8)], p=1.0), colours)
    for draw in range(50):
        one, two = (fb.drawn(field, (9, 9), name=NAME, augment_seed=SEED, draw=draw) for field in (alone, after))
        assert one == two


def test_boxes_follow_a_composition(tmp_path):
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "png", "boxes": "json"}) as writer:
        for _ in range(40):
            writer.write({"image": Image.new("RGB", (40, 30)), "boxes": [[4, 5, 20, 25]]})
    op = fb.RandomChoice([fb.Resize((60, 80)), fb.Pad(5), fb.RandomIoUCrop()])
    joint = fb.Joint(x=fb.Image("image", op), boxes=fb.Boxes("boxes"))
    with fb.Loader(local=str(tmp_path / "set"), batch_size=40, fields={"joint": joint}) as loader:
        [batch] = loader
    for picture, boxes in zip(batch["x"], batch["boxes"], strict=True):
        expected = {(60, 80): [8, 10, 40, 50], (40, 50): [9, 10, 25, 30]}.get(tuple(picture.shape[1:]))
        assert expected is None or boxes.tolist() == [expected]


@pytest.mark.parametrize(
    ("composition", "expected"),
    [
        (v2.RandomApply([v2.RandomResizedCrop(8)]), fb.RandomApply([fb.RandomResizedCrop(8)])),
        (
            v2.RandomChoice([v2.Compose([v2.Resize(9), v2.CenterCrop(8)]), v2.RandomCrop(8)]),
            fb.RandomChoice([fb.RandomApply([fb.Resize(9), fb.CenterCrop(8)], p=1.0), fb.RandomCrop(8)], p=[0.5, 0.5]),
        ),
    ],
)
def test_transforms_of_torchvision_are_translated(composition, expected):
    [op] = fb.from_torchvision(composition)
    assert op._spec() == expected._spec()


@pytest.mark.parametrize("op", [fb.Normalize((0, 0, 0), (1, 1, 1)), fb.RandomErasing(), fb.FiveCrop(3)])
def test_what_cannot_be_drawn_in_a_choice_is_an_error(op):
    with pytest.raises(fb.ConfigError, match=f"RandomApply cannot hold {type(op).__name__}.*put it after"):
        fb.Image("image", fb.RandomApply([op]))._spec()
