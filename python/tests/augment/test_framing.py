"""Operations on the frame of a picture, compared with torchvision's and timm's: pixels, masks, boxes and distributions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from odd_pictures import NAME, SEED, augmented, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import forebay as fb

stats = pytest.importorskip("scipy.stats")

COUNT = 120

OPERATIONS = {
    "zoom out": fb.RandomZoomOut((1, 2, 250), p=0.8),
    "scale jitter": fb.ScaleJitter((40, 50)),
    "scale jitter bicubic": fb.ScaleJitter((40, 50), (0.5, 1.5), "bicubic"),
    "shortest size": fb.RandomShortestSize((20, 31, 44), max_size=60),
    "fixed size": fb.FixedSizeCrop((20, 33), fill=(9, 8, 7)),
    "pad if smaller": fb.PadIfSmaller((20, 33), fill=255),
    "keep ratio": fb.ResizeKeepRatio((20, 33), 0.3, "bicubic", 0.7, (0.5, 1.5), random_aspect_prob=0.7),
    "crop or pad": fb.RandomCropOrPad((20, 33), fill=(9, 8, 7)),
    "crop or reflection": fb.RandomCropOrPad((20, 33), padding_mode="reflect"),
    "edges": fb.CenterCropOrPad((20, 33), padding_mode="edge"),
    "letterbox": fb.CenterCropOrPad((20, 33), fill=114),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("framing") / "set", COUNT)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_pixels_are_torchvision_s_for_the_same_numbers(odd, name):
    folder, made = odd
    op, changed = OPERATIONS[name], 0
    rows, field = augmented(folder, op), fb.Image("image", op)
    for number, pixels in enumerate(made):
        expected = np.asarray(in_torchvision(Image.fromarray(pixels), drawn_steps(field, pixels, number)))
        assert levels_apart(rows[number], expected.transpose(2, 0, 1)) <= 1, pixels.shape
        changed += expected.shape != pixels.shape
    assert changed > COUNT / 2


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_mask_follows_by_nearest_neighbour(odd, name):
    folder, made = odd
    op = OPERATIONS[name]
    rows, field = augmented(folder, op, kind=fb.Mask, column="label"), fb.Mask("label", op)
    for number, pixels in enumerate(made):
        expected = in_torchvision(Image.fromarray(pixels[:, :, 0]), drawn_steps(field, pixels, number), is_label=True)
        assert np.array_equal(rows[number], np.asarray(expected)), pixels.shape


def test_a_picture_and_its_mask_are_framed_alike(odd):
    folder, _ = odd
    for op in OPERATIONS.values():
        if isinstance(op, (fb.ScaleJitter, fb.RandomShortestSize, fb.ResizeKeepRatio)):
            continue  # A mask has a different filter.
        plain = replace(op, fill=7)
        pair = fb.Joint(x=fb.Image("image", plain, fb.Resize((16, 16), "nearest")), y=fb.Mask("label", plain, fb.Resize((16, 16))))
        with fb.Loader(local=folder, batch_size=COUNT, shuffle=True, fields={"pair": pair}) as loader:
            [batch] = loader
        assert torch.equal(batch["x"][:, 0].long(), batch["y"])


def drawn(op, size, count=1500, boxes=None):
    """Returns the first stage of pictures of one size."""
    field = fb.Image("image", op)
    return [fb.drawn(field, size, name=NAME, augment_seed=SEED, draw=draw, boxes=boxes)[0] for draw in range(count)]


def assert_alike(ours, theirs):
    """Compares two lists of tuples of numbers, number by number."""
    for mine, other in zip(np.array(ours, float).T, np.array(theirs, float).T, strict=True):
        assert stats.ks_2samp(mine, other).pvalue > 1e-3


SIZE = (60, 91)


def params(transform, count=1500, *more):
    torch.manual_seed(5)
    return [transform.make_params([torch.zeros(3, *SIZE), *more]) for _ in range(count)]


def test_sizes_have_torchvision_s_distribution():
    for mine, theirs in [
        (fb.ScaleJitter((400, 300)), v2.ScaleJitter((400, 300))),
        (fb.RandomShortestSize((20, 50, 80), max_size=99), v2.RandomShortestSize([20, 50, 80], max_size=99)),
    ]:
        ours, expected = [tuple(stage["resized"]) for stage in drawn(mine, SIZE)], [one["size"] for one in params(theirs)]
        assert_alike(ours, expected)
        if isinstance(mine, fb.RandomShortestSize):
            assert set(ours) == set(expected)


def test_borders_have_torchvision_s_distribution():
    def borders(stage):
        top, left, height, width = stage["window"]
        return -left, -top, width + left - SIZE[1], height + top - SIZE[0]

    assert_alike([borders(stage) for stage in drawn(fb.RandomZoomOut(p=1.0), SIZE)], [one["padding"] for one in params(v2.RandomZoomOut(p=1.0))])


BOXES = [[5, 6, 40, 30], [50, 2, 88, 55], [60, 40, 70, 50]]


def test_crops_by_boxes_have_torchvision_s_distribution():
    boxes = tv_tensors.BoundingBoxes(torch.tensor(BOXES, dtype=torch.float32), format="XYXY", canvas_size=SIZE)
    for options in (None, (0.0,), (0.3, 0.6)):
        theirs = params(v2.RandomIoUCrop(sampler_options=None if options is None else list(options)), 600, boxes)
        theirs = [tuple(one[name] for name in ("top", "left", "height", "width")) for one in theirs if one]
        ours = [tuple(stage["window"]) for stage in drawn(fb.RandomIoUCrop(sampler_options=options), SIZE, 600, BOXES)]
        ours = [window for window in ours if window != (0, 0, *SIZE)]
        assert abs(len(ours) - len(theirs)) < 70
        assert_alike(ours, theirs)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A data set of pictures with masks, boxes and labels."""
    folder, made, rng = str(tmp_path_factory.mktemp("scenes") / "set"), [], np.random.default_rng(4)
    columns = {"image": "png", "mask": "png", "boxes": "ndarray", "classes": "ndarray:int32", "number": "int"}
    with fb.MDSWriter(out=folder, columns=columns) as writer:
        for number in range(90):
            height, width = (int(side) for side in rng.integers(30, 120, 2))
            corners = np.sort(rng.uniform(0, 1, (1 + number % 5, 2, 2)), axis=1) * (width, height)
            boxes = corners.reshape(-1, 4).astype(np.float32)
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            classes = np.arange(len(boxes), dtype=np.int32) + 100 * number
            made.append((pixels, boxes, classes))
            writer.write(
                {
                    "image": Image.fromarray(pixels),
                    "mask": Image.fromarray(pixels[:, :, 0]),
                    "boxes": boxes,
                    "classes": classes,
                    "number": number,
                }
            )
    return folder, made


PAIR = "pair"


def rows_of(folder, joint, *names):
    """Returns the rows of a `Joint` by the sample's number."""
    with fb.Loader(local=folder, fields={PAIR: joint, "number": fb.Scalar("number")}, batch_size=16, order=fb.Order(augment_seed=SEED)) as loader:
        return {
            number: [np.asarray(batch[name][row]) for name in names] for batch in loader for row, number in enumerate(batch["number"].tolist())
        }


@pytest.mark.parametrize("borders", [None, (3, 8, 0, 5)])
def test_a_crop_by_boxes_is_torchvision_s_for_the_same_part(scenes, borders):
    folder, made = scenes
    ops = (*([] if borders is None else [fb.Pad(borders)]), fb.RandomIoUCrop(sampler_options=(0.0, 0.3, 0.5)))
    left, top, right, bottom = borders or (0, 0, 0, 0)
    joint = fb.Joint(
        image=fb.Image("image", *ops),
        mask=fb.Mask("mask", *ops),
        boxes=fb.Boxes("boxes"),
        kept=fb.Boxes("boxes", min_size=1),
        labels=fb.BoxLabels("classes", of="kept"),
    )
    removed = 0
    for number, (image, mask, got, kept, labels) in rows_of(folder, joint, "image", "mask", "boxes", "kept", "labels").items():
        pixels, boxes, classes = made[number]
        size = pixels.shape[:2]
        [stage, *_] = fb.drawn(fb.Image("image", *ops), size, name=PAIR, augment_seed=SEED, draw=number, boxes=boxes.tolist())
        y, x, height, width = stage["window"]
        moved = tv_tensors.BoundingBoxes(torch.tensor(boxes) + torch.tensor([left, top, left, top]), format="XYXY", canvas_size=size)
        middle = (moved[:, :2] + moved[:, 2:]).numpy() / 2 - (x + left, y + top)
        inside = ((middle > 0) & (middle < (width, height))).all(1)
        expected = functional.crop(moved, y + top, x + left, height, width).numpy()
        expected[~inside] = 0
        assert np.abs(got - expected).max() < 2e-3
        whole = functional.pad(Image.fromarray(pixels), [left, top, right, bottom])
        cut = np.asarray(functional.crop(whole, y + top, x + left, height, width))
        assert np.array_equal(image, cut.transpose(2, 0, 1)) and np.array_equal(mask, cut[:, :, 0])
        keep = v2.functional.sanitize_bounding_boxes(torch.tensor(expected), format="XYXY", canvas_size=(height, width))[1].numpy()
        assert np.abs(kept - expected[keep]).max(initial=0) < 2e-3 and np.array_equal(labels, classes[keep])
        removed += (~keep).sum()
    assert 30 < removed < 250


def test_boxes_have_a_different_format_in_the_batch(scenes):
    folder, made = scenes
    joint = fb.Joint(image=fb.Image("image"), same=fb.Boxes("boxes"), other=fb.Boxes("boxes", to="cxcywh", min_size=0, min_area=40))
    for number, (same, other) in rows_of(folder, joint, "same", "other").items():
        boxes = torch.tensor(made[number][1])
        keep = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) >= 40
        expected = functional.convert_bounding_box_format(boxes, "XYXY", "CXCYWH")[keep].numpy()
        assert np.abs(same - boxes.numpy()).max() < 1e-4 and np.abs(other - expected).max(initial=0) < 1e-4


@pytest.mark.parametrize(
    "joint, sentence",
    [
        (fb.Joint(image=fb.Image("image", fb.RandomIoUCrop())), "put the Image into a Joint with its Boxes"),
        (
            fb.Joint(a=fb.Mask("mask", fb.RandomIoUCrop()), b=fb.Image("image", fb.RandomIoUCrop()), boxes=fb.Boxes("boxes", of="b")),
            "put the picture of the Boxes first",
        ),
        (fb.Joint(a=fb.Image("image", fb.ScaleJitter((9, 9))), b=fb.Mask("mask")), "same random operations"),
        (fb.Joint(a=fb.Image("image", fb.CenterCropOrPad(9, padding_mode="edge")), boxes=fb.Boxes("boxes")), "borders that repeat"),
    ],
)
def test_pictures_that_do_not_fit_their_boxes_are_errors(scenes, joint, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=scenes[0], fields={PAIR: joint}, batch_size=2)


def test_an_image_alone_has_no_boxes_to_be_cropped_by(scenes):
    field = fb.Image("image", fb.RandomIoUCrop())
    with pytest.raises(fb.ConfigError, match="put the Image into a Joint with its Boxes"):
        fb.Loader(local=scenes[0], fields={"x": field}, batch_size=2)
    with pytest.raises(fb.ConfigError, match="pass `boxes`"):
        fb.drawn(field, SIZE, name="x", augment_seed=1)
