"""Pictures of a Joint that have different sizes: each shows the same part of the scene."""

import numpy as np
import pytest
from PIL import Image

import forebay as fb

COUNT, SIDE, FACTOR = 300, 224, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures with the column as red and the row as green, with masks of the columns that are eight times smaller, and boxes."""
    folder = str(tmp_path_factory.mktemp("sizes") / "set")
    across, down = np.meshgrid(np.arange(SIDE), np.arange(SIDE))
    picture = Image.fromarray(np.stack([across, down, across], -1).astype(np.uint8))
    small = Image.fromarray((across[::FACTOR, ::FACTOR] + FACTOR // 2).astype(np.uint8))
    columns = {"picture": "png", "large": "png", "mask": "png", "boxes": "ndarray:float32"}
    large = Image.fromarray(across.astype(np.uint8))
    with fb.MDSWriter(out=folder, columns=columns) as writer:
        for _ in range(COUNT):
            writer.write({"picture": picture, "large": large, "mask": small, "boxes": np.array([[8, 16, 200, 120]], np.float32)})
    return folder


def batch_of(folder, **fields):
    with fb.Loader(local=folder, fields={"joint": fb.Joint(**fields)}, batch_size=COUNT, framework="numpy") as loader:
        return next(iter(loader))


# A box that is rounded to more than a small mask would be drawn again there, and be a different box.
@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.5, 1.0)])
def test_a_small_mask_is_cut_as_its_picture(folder, scale):
    crop = fb.RandomResizedCrop(32, scale=scale), fb.RandomHorizontalFlip()
    batch = batch_of(folder, picture=fb.Image("picture", *crop), mask=fb.Mask("mask", *crop))
    apart = np.abs(batch["picture"][:, 0].astype(int) - batch["mask"].astype(int))
    # Half of a mask's pixel, the rounding of the box to its pixels, and the filter.
    assert apart.max() <= 1.5 * FACTOR, apart.max()


def test_a_resize_before_the_crop_may_differ(folder):
    crop = fb.RandomResizedCrop(32, scale=(0.5, 1))
    picture, mask = fb.Image("picture", fb.Resize((160, 160)), crop), fb.Mask("large", fb.Resize((20, 20)), crop)
    batch = batch_of(folder, picture=picture, mask=mask)
    assert np.abs(batch["picture"][:, 0].astype(int) - batch["mask"].astype(int)).max() <= 2 * FACTOR


def test_boxes_follow_the_picture_that_they_are_of(folder):
    crop = fb.RandomResizedCrop((SIDE, SIDE), scale=(0.5, 1))
    fields = {"picture": fb.Image("picture", crop), "mask": fb.Mask("mask", crop)}
    large = batch_of(folder, **fields, boxes=fb.Boxes("boxes", of="picture"))["boxes"]
    # The same numbers are a different part of a scene that is eight times smaller, cut by the picture's crop.
    first = batch_of(folder, picture=fields["picture"], boxes=fb.Boxes("boxes"))["boxes"]
    assert all(np.array_equal(a, b) for a, b in zip(large, first, strict=True))
    batch = batch_of(folder, **fields, boxes=fb.Boxes("boxes", of="mask"), second=fb.Boxes("boxes", of="mask"))
    for mask, (box,) in zip(batch["mask"], batch["boxes"], strict=True):
        # The left edge of the box is the column 8 of the mask, if it is inside.
        left = round(float(box[0]))
        if 0 < left < SIDE:
            assert abs(int(mask[0, left]) - (8 * FACTOR + FACTOR // 2)) <= FACTOR


@pytest.mark.parametrize(
    "operations",
    [
        lambda: (fb.RandomCrop(20),),
        lambda: (fb.TrivialAugmentWide(), fb.RandomResizedCrop(20)),
        lambda: (fb.RandomRotation(10, center=(5, 5)), fb.Resize((20, 20))),
    ],
)
def test_operations_that_count_pixels_need_equal_sizes(folder, operations):
    fields = {"picture": fb.Image("picture", *operations()), "mask": fb.Mask("mask", *operations())}
    with pytest.raises(fb.DecodeError, match="different sizes before an operation that counts pixels.*224x224 and 28x28"):
        batch_of(folder, **fields)
    fields["mask"] = fb.Mask("large", *operations())
    batch = batch_of(folder, **fields)
    assert len(batch["mask"]) == COUNT


@pytest.mark.parametrize("op", [fb.CenterCrop(20), fb.Pad(3), fb.Pad((1, 2))])
def test_equal_windows_of_pictures_of_different_sizes_are_refused(folder, op):
    with pytest.raises(fb.DecodeError, match="the same CenterCrop or Pad.*sizes 224x224 and 28x28"):
        batch_of(folder, picture=fb.Image("picture", op), mask=fb.Mask("mask", op))
    resized = fb.Resize((30, 30))
    for one, other in [((resized, op), (resized, op)), ((op,), ()), ((fb.Pad(0),), (fb.Pad(0),))]:
        batch_of(folder, picture=fb.Image("picture", *one), mask=fb.Mask("mask", *other))
    batch = batch_of(folder, picture=fb.Image("picture", fb.CenterCrop(160)), mask=fb.Mask("mask", fb.CenterCrop(20)))
    assert np.abs(batch["picture"][:, 0, ::FACTOR, ::FACTOR].astype(int) - batch["mask"]).max() < FACTOR


def test_sizes_that_differ_before_a_random_crop_are_found_when_the_plan_is_made(folder):
    picture, mask = (fb.Image("picture", fb.Resize((60, 60)), fb.RandomCrop(30)), fb.Mask("mask", fb.Resize((40, 40)), fb.RandomCrop(30)))
    with pytest.raises(fb.ConfigError, match="the same size before an operation that counts pixels"):
        batch_of(folder, picture=picture, mask=mask)


def test_mirrored_pictures_may_have_any_size(folder):
    flips = fb.RandomHorizontalFlip(), fb.RandomVerticalFlip()
    batch = batch_of(folder, picture=fb.Image("picture", *flips), mask=fb.Mask("mask", *flips))
    shown = np.stack(batch["picture"])[:, 0, ::FACTOR, ::FACTOR].astype(int)
    assert np.abs(shown - np.stack(batch["mask"])).max() < FACTOR


def test_a_rotation_that_grows_turns_about_the_middle(folder):
    op = fb.RandomRotation((90, 90), expand=True, center=(0, 0))
    with pytest.raises(fb.ConfigError, match="leave out `center`"):
        fb.Loader(local=folder, fields={"x": fb.Image("picture", op)}, batch_size=1)
