"""Boxes that follow their picture, against torchvision's for the same numbers."""

import json

import numpy as np
import pytest
import torch
from odd_pictures import SEED
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import forebay as fb

COUNT = 90

PAIR = "pair"

CROP = fb.RandomResizedCrop((40, 50), scale=(0.1, 1.0))
FLIP = fb.RandomHorizontalFlip()

LISTS = {
    "nothing": (),
    "crop": (CROP, FLIP),
    "resize": (fb.Resize((33, 71)), fb.RandomVerticalFlip()),
    "short side": (fb.Resize(48), fb.CenterCrop(40)),
    "borders": (fb.Pad((3, 8, 0, 5)), FLIP, fb.RandomCrop((60, 20), pad_if_needed=True)),
    "colours between": (CROP, fb.ColorJitter(0.4), FLIP, fb.RandomInvert(), fb.CenterCrop(30)),
    "rotation": (fb.RandomRotation(50), CROP),
    "rotation, larger": (fb.RandomRotation(180, expand=True),),
    "rotation about a point": (fb.RandomRotation(70, center=(5, 9)), FLIP),
    "affine": (CROP, fb.RandomAffine(30, (0.2, 0.3), (0.6, 1.5), (-20, 20, -10, 10))),
    "perspective": (fb.RandomPerspective(0.7, 0.9), FLIP),
    "policy": (CROP, fb.TrivialAugmentWide()),
    "larger canvas": (fb.RandomZoomOut(p=0.8), FLIP),
    "scale jitter": (fb.ScaleJitter((60, 60)), fb.FixedSizeCrop(40), FLIP),
    "shortest side": (fb.RandomShortestSize((20, 40), max_size=70), fb.PadIfSmaller(50)),
    "letterbox": (fb.ResizeKeepRatio(48, 1.0, random_aspect_prob=0.5), fb.CenterCropOrPad(48, 9)),
    "crop or pad": (CROP, fb.RandomCropOrPad((60, 30)), FLIP),
    "random": (fb.RandomApply([fb.RandomRotation(20), fb.RandomHorizontalFlip()], 0.7), fb.RandomChoice([fb.RandomVerticalFlip(), FLIP])),
}


def samples():
    """Returns pictures with boxes; some pictures have none."""
    rng = np.random.default_rng(4)
    for number in range(COUNT):
        height, width = (int(side) for side in rng.integers(30, 120, 2))
        count = number % 5
        corners = np.sort(rng.uniform(0, 1, (count, 2, 2)), axis=1) * (width, height)
        yield np.full((height, width, 3), number, np.uint8), corners.reshape(count, 4).astype(np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("boxes") / "set", list(samples())
    columns = {"image": "png", "boxes": "ndarray", "classes": "ndarray:int32", "info": "json", "number": "int"}
    with fb.MDSWriter(out=str(folder), columns={**columns, "names": "ndarray"}) as writer:
        for number, (pixels, boxes) in enumerate(made):
            classes = np.arange(len(boxes), dtype=np.int32) + 100 * number
            # MDS has no arrays without elements: those samples have JSON alone.
            stored = boxes if len(boxes) else np.zeros((1, 4), np.float32)
            info = {"objects": {"boxes": functional_xywh(boxes).tolist(), "classes": classes.tolist()}}
            writer.write(
                {
                    "image": Image.fromarray(pixels),
                    "boxes": stored,
                    "classes": classes if len(classes) else np.array([-1], np.int32),
                    "names": np.repeat(classes[:, None], 3, 1) if len(classes) else np.full((1, 3), -1, np.int32),
                    "info": info,
                    "number": number,
                }
            )
    return str(folder), made


def functional_xywh(boxes):
    return np.concatenate([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def delivered(folder, *names, **fields):
    """Returns the rows of fields of a Joint by the sample's number."""
    fields = {PAIR: fb.Joint(**fields), "number": fb.Scalar("number")}
    with fb.Loader(local=folder, fields=fields, batch_size=16, framework="numpy", order=fb.Order(augment_seed=SEED)) as loader:
        return {
            number: [np.array(batch[name][row]) for name in names]
            for batch in loader
            for row, number in enumerate(batch["number"].tolist())
        }


def expected_boxes(boxes, pixels, steps):
    """Returns torchvision's boxes, and the size of the picture, for the steps of the engine."""
    height, width = pixels.shape[:2]
    result = tv_tensors.BoundingBoxes(torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4), format="XYXY", canvas_size=(height, width))
    picture = Image.fromarray(pixels)
    for step in steps:
        action = step.get("action")
        if action is None:
            functions = [
                lambda x, step=step: functional.crop(x, *step["crop"]),
                lambda x, step=step: functional.resize(x, step["resized"]),
                lambda x, step=step: functional.crop(x, *step["window"]),
            ]
            functions += [functional.horizontal_flip] if step["flip"] else []
        elif action in ("horizontal_flip", "vertical_flip"):
            functions = [getattr(functional, action)]
        elif action == "rotate":
            functions = [lambda x, step=step: functional.rotate(x, step["angle"], expand=step["expand"], center=step["center"])]
        elif action == "affine":
            arguments = {name: step[name] for name in ("angle", "translate", "scale", "shear", "center")}
            functions = [lambda x, arguments=arguments: functional.affine(x, **arguments)]
        elif action == "perspective":
            functions = [lambda x, step=step: functional.perspective(x, None, None, coefficients=step["coefficients"])]
        else:
            continue
        for function in functions:
            result, picture = function(result), function(picture)
    result = functional.clamp_bounding_boxes(result)
    return result.numpy(), (picture.height, picture.width)


@pytest.mark.parametrize("name", LISTS)
def test_boxes_are_torchvision_s_for_the_same_numbers(data, name):
    folder, made = data
    picture = fb.Image("image", *LISTS[name])
    rows = delivered(folder, "image", "boxes", image=picture, boxes=fb.Boxes("boxes"))
    moved = 0
    for number, (pixels, boxes) in enumerate(made):
        stored = boxes if len(boxes) else np.zeros((1, 4))
        image, got = rows[number]
        steps = fb.drawn(picture, pixels.shape[:2], name=PAIR, augment_seed=SEED, draw=number)
        expected, size = expected_boxes(stored, pixels, steps)
        assert image.shape[1:] == size and got.dtype == np.float32 and got.shape == expected.shape
        # torchvision computes matrices in single precision, and a grown picture to a whole pixel.
        assert np.abs(got - expected).max() < 2e-3, (number, steps)
        assert (got >= 0).all() and (got <= (size[1], size[0]) * 2).all()
        moved += not np.allclose(got, stored)
    assert (moved > COUNT / 3) == (name != "nothing")


def test_every_format_is_read_and_written(data):
    folder, made = data
    ops = (CROP, FLIP, fb.RandomRotation(15))
    fields = {"image": fb.Image("image", *ops), "boxes": fb.Boxes("boxes"), "wide": fb.Boxes("info", "objects.boxes", format="xywh")}
    for number, (corners, wide) in delivered(folder, "boxes", "wide", **fields).items():
        count = len(made[number][1])
        assert wide.shape == (count, 4) and wide.dtype == np.float32
        if count:
            assert np.abs(wide - functional_xywh(corners)).max() < 1e-3
    middles = {"image": fb.Image("image", *ops), "boxes": fb.Boxes("boxes", format="cxcywh")}
    for number, (got,) in delivered(folder, "boxes", **middles).items():
        stored = made[number][1] if len(made[number][1]) else np.zeros((1, 4))
        boxes = functional.convert_bounding_box_format(torch.tensor(stored), "CXCYWH", "XYXY").numpy()
        pixels = made[number][0]
        steps = fb.drawn(middles["image"], pixels.shape[:2], name=PAIR, augment_seed=SEED, draw=number)
        clamped = boxes.clip(0, pixels.shape[1::-1] * 2)
        expected, _ = expected_boxes(clamped, pixels, steps)
        expected = functional.convert_bounding_box_format(torch.tensor(expected), "XYXY", "CXCYWH").numpy()
        assert np.abs(got - expected).max() < 2e-3


def test_small_boxes_are_left_out_with_their_labels(data):
    folder, made = data
    picture, removed = fb.Image("image", CROP, FLIP), 0
    fields = {
        "labels": fb.BoxLabels("info", "objects.classes"),
        "boxes": fb.Boxes("info", "objects.boxes", format="xywh", min_size=4),
        "image": picture,
        "names": fb.BoxLabels("names", of="other", dtype="float32"),
        "other": fb.Boxes("boxes", min_size=4),
        "all": fb.Boxes("info", "objects.boxes", format="xywh"),
    }
    for number, (labels, boxes, names, all_boxes) in delivered(folder, "labels", "boxes", "names", "all", **fields).items():
        count = len(made[number][1])
        # torchvision also asks for an area of at least `min_area`.
        keep = v2.functional.sanitize_bounding_boxes(
            torch.tensor(all_boxes), format="XYWH", canvas_size=(41, 51), min_size=4.0, min_area=4.0
        )[1].numpy()
        assert len(all_boxes) == count and labels.dtype == np.int64 and names.dtype == np.float32
        assert np.array_equal(boxes, all_boxes[keep])
        classes = np.arange(count) + 100 * number
        assert np.array_equal(labels, classes[keep])
        if count:
            assert np.array_equal(names, np.repeat(classes[keep][:, None], 3, 1).astype(np.float32))
        else:
            assert names.shape == (0, 3)
        removed += count - len(boxes)
    assert COUNT / 5 < removed < COUNT * 3


def test_boxes_follow_the_picture_that_they_name(data):
    folder, made = data
    fields = {
        "small": fb.Image("image", CROP, FLIP, fb.Resize((20, 25))),
        "image": fb.Image("image", CROP, FLIP),
        "first": fb.Boxes("boxes"),
        "named": fb.Boxes("boxes", of="image"),
    }
    for first, named in delivered(folder, "first", "named", **fields).values():
        assert np.abs(first * 2 - named).max() < 1e-4


def test_boxes_are_the_same_on_any_number_of_ranks(data):
    folder, _ = data
    fields = {"pair": fb.Joint(image=fb.Image("image", CROP, FLIP), boxes=fb.Boxes("boxes")), "number": fb.Scalar("number")}
    options = {
        "local": folder,
        "fields": fields,
        "framework": "numpy",
        "order": fb.Order(augment_seed=SEED, num_canonical_nodes=2),
        "shuffle": True,
    }

    def rows(**more):
        with fb.Loader(**options, **more) as loader:
            return {n: np.array(box) for batch in loader for n, box in zip(batch["number"].tolist(), batch["boxes"], strict=True)}

    alone, many = rows(batch_size=8), {}
    for rank in range(3):
        many |= rows(batch_size=5, world=fb.World(rank=rank, world_size=3, local_rank=rank, local_world_size=3))
    assert alone.keys() == many.keys() and all(np.array_equal(box, many[number]) for number, box in alone.items())


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"boxes": fb.Boxes("boxes")}, "no Image or Mask"),
        ({"image": fb.Image("image"), "boxes": fb.Boxes("boxes", of="mask")}, "no Image or Mask"),
        ({"image": fb.Image("image"), "labels": fb.BoxLabels("classes")}, "no Boxes"),
        ({"image": fb.Image("image"), "boxes": fb.Boxes("number")}, "column of arrays"),
        ({"image": fb.Image("image"), "boxes": fb.Boxes("boxes", "a.b")}, "JSON documents"),
        ({"image": fb.Image("image"), "boxes": fb.Boxes("boxes", format="yxyx")}, "format of Boxes"),
        ({"image": fb.Image("image"), "boxes": fb.Boxes("boxes", min_size=-1)}, "min_size of Boxes"),
        ({"image": fb.Image("image", fb.AugMix()), "boxes": fb.Boxes("boxes")}, "AugMix"),
        ({"image": fb.Image("image", fb.Pad(3, padding_mode="reflect")), "boxes": fb.Boxes("boxes")}, "borders that repeat"),
    ],
)
def test_boxes_without_their_picture_are_errors(data, fields, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=data[0], fields={"x": fb.Joint(**fields)}, batch_size=2)


def test_boxes_outside_of_a_joint_are_errors(data):
    with pytest.raises(fb.ConfigError, match="fields of a Joint"):
        fb.Loader(local=data[0], fields={"x": fb.Boxes("boxes")}, batch_size=2)


@pytest.mark.parametrize(
    "boxes, labels, message",
    [
        ([[1, 2, 3]], [1], "expected 4"),
        ([[1, 2, 3, 4]], [1, 2], "differs from the number of its boxes"),
        (None, [1], "no list at this path"),
        ("text", [1], "a list"),
    ],
)
def test_a_sample_without_proper_boxes_is_an_error(tmp_path, boxes, labels, message):
    folder = str(tmp_path / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png", "info": "bytes"}) as writer:
        document = json.dumps({"boxes": boxes, "labels": labels}).encode()
        writer.write({"image": Image.new("RGB", (30, 20)), "info": document})
    fields = {"image": fb.Image("image"), "boxes": fb.Boxes("info", "boxes"), "labels": fb.BoxLabels("info", "labels")}
    with fb.Loader(local=folder, fields={"x": fb.Joint(**fields)}, batch_size=1) as loader, pytest.raises(fb.DecodeError, match=message):
        next(iter(loader))
