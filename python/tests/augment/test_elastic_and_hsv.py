"""Elastic transforms, compared with torchvision's, and changes in HSV: distributions here, pixels in the tests of Rust."""

import numpy as np
import pytest
import torch
from odd_pictures import NAME, SEED, augmented, write_odd_pictures
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import forebay as fb

stats = pytest.importorskip("scipy.stats")

SIDE = 96
COUNT = 60


@pytest.fixture(scope="module")
def ramps(tmp_path_factory):
    """Pictures with the column as red and the row as green."""
    folder = str(tmp_path_factory.mktemp("elastic") / "set")
    rows, columns = np.mgrid[:SIDE, :SIDE]
    ramp = np.stack([columns + 80, rows + 80, 0 * rows], -1).astype(np.uint8)
    with fb.MDSWriter(out=folder, columns={"image": "png", "label": "png", "number": "int", "boxes": "json"}) as writer:
        for number in range(COUNT):
            label = Image.fromarray(ramp[:, :, 0])
            writer.write({"image": Image.fromarray(ramp), "label": label, "number": number, "boxes": [[20, 30, 60, 50], [0, 0, SIDE, SIDE]]})
    return folder, ramp


def moves(pixels):
    """Returns how far the pixels in the middle were moved, columns and rows."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    part = np.s_[30:-30:6, 30:-30:6]
    return (pixels[0].astype(int) - columns - 80)[part].ravel(), (pixels[1].astype(int) - rows - 80)[part].ravel()


def test_displacements_have_torchvision_s_distribution(ramps):
    folder, ramp = ramps
    ours = [moves(row) for row in augmented(folder, fb.ElasticTransform((150.0, 80.0), (3.0, 4.0))).values()]
    torch.manual_seed(5)
    other = v2.ElasticTransform([150.0, 80.0], [3.0, 4.0])
    theirs = [moves(np.asarray(other(Image.fromarray(ramp))).transpose(2, 0, 1)) for _ in ours]
    for axis in (0, 1):
        mine, expected = (np.concatenate([one[axis] for one in all_of]) for all_of in (ours, theirs))
        assert mine.std() == pytest.approx(expected.std(), rel=0.1) and abs(mine.mean() - expected.mean()) < 0.6
    assert not np.array_equal(ours[0], ours[1])


def test_a_mask_and_boxes_follow_an_elastic_transform(ramps):
    op = fb.ElasticTransform(300.0, 6.0, interpolation="nearest")
    joint = fb.Joint(x=fb.Image("image", op), y=fb.Mask("label", op), boxes=fb.Boxes("boxes"))
    with fb.Loader(local=ramps[0], batch_size=COUNT, fields={"joint": joint}) as loader:
        [batch] = loader
    for picture, labels in zip(batch["x"], batch["y"], strict=True):
        assert torch.equal(picture[0].long(), labels.long())
    moved = torch.stack([boxes[0] for boxes in batch["boxes"]]) - torch.tensor([20.0, 30, 60, 50])
    assert 0.1 < moved.abs().mean() < 12
    assert all(boxes.min() >= 0 and boxes.max() <= SIDE for boxes in batch["boxes"])


def test_without_strength_nothing_moves(ramps):
    grid = torch.zeros(1, SIDE, SIDE, 2)
    joint = fb.Joint(x=fb.Image("image", fb.ElasticTransform(0.0)), boxes=fb.Boxes("boxes"))
    with fb.Loader(local=ramps[0], batch_size=1, fields={"joint": joint}) as loader:
        batch = next(iter(loader))
    expected = functional.elastic(tv_tensors.BoundingBoxes([[20.0, 30, 60, 50]], format="XYXY", canvas_size=(SIDE, SIDE)), grid)
    assert torch.allclose(batch["boxes"][0][:1], expected, atol=1e-4)
    assert np.array_equal(batch["x"][0].numpy().transpose(1, 2, 0), ramps[1])


def test_elastic_transforms_of_torchvision_are_translated():
    [op] = fb.from_torchvision(v2.ElasticTransform(30.0, [2.0, 3.0], fill=7))
    assert op._spec() == fb.ElasticTransform(30.0, (2.0, 3.0), fill=7)._spec()


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        (fb.ElasticTransform(sigma=(0, 1)), "two numbers above 0"),
        (fb.ElasticTransform(sigma=65), "`sigma` from 0 to 64"),
        (fb.ElasticTransform(interpolation="bicubic"), 'the `interpolation` "nearest" or "bilinear"'),
        (fb.RandomHSV(sgain=2), "RandomHSV needs `sgain` from 0 to 1"),
        (fb.HueSaturationValue(hue_shift_limit=(20, 10)), "the smallest and the largest"),
    ],
)
def test_an_argument_out_of_range_is_an_error(ramps, op, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=ramps[0], batch_size=2, fields={"x": fb.Image("image", op)})


def drawn(op, count=2000):
    field = fb.Image("image", op)
    steps = [fb.drawn(field, (9, 9), name=NAME, augment_seed=SEED, draw=draw) for draw in range(count)]
    return [step for all_of in steps for step in all_of if step.get("action") == "adjust_hsv"]


def test_gains_have_the_distribution_of_yolo():
    steps = drawn(fb.RandomHSV())
    assert len(steps) == 2000
    for found, (low, high) in [
        ([step["hue"] for step in steps], (-0.015 * 180, 0.015 * 180)),
        ([step["saturation"][0] for step in steps], (0.3, 1.7)),
        ([step["value"][0] for step in steps], (0.6, 1.4)),
    ]:
        assert stats.kstest(found, stats.uniform(low, high - low).cdf).pvalue > 1e-3
    assert drawn(fb.RandomHSV(0, 0, 0), 5) == []


def test_shifts_have_the_distribution_of_albumentations():
    steps = drawn(fb.HueSaturationValue(p=0.5))
    assert 900 < len(steps) < 1100
    assert stats.kstest([step["hue"] for step in steps], stats.uniform(-20, 40).cdf).pvalue > 1e-3
    assert {step["saturation"][1] for step in steps} == set(range(-29, 30))


def test_a_grey_picture_keeps_its_hues(tmp_path):
    folder, made = write_odd_pictures(tmp_path / "set", 8)
    rows = augmented(folder, fb.RandomHSV(0.5, 1.0, 0.0), kind=lambda column, *ops: fb.Image(column, *ops, mode="L"))
    for number, pixels in enumerate(made):
        assert np.array_equal(rows[number][0], np.asarray(Image.fromarray(pixels).convert("L")))
