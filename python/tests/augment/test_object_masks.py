"""Masks of objects and maps of classes that move with their picture, against masks that are stored as pictures."""

import dataclasses
import json

import numpy as np
import pytest
from PIL import Image
from test_boxes import LISTS

import forebay as fb

COUNT = 40


def rectangle(left, top, right, bottom):
    return [left, top, right, top, right, bottom, left, bottom]


def runs_of(mask):
    """Returns uncompressed run lengths of a mask."""
    pixels = mask.ravel(order="F")
    return np.diff([0, *np.flatnonzero(np.diff(pixels, prepend=0)), len(pixels)]).tolist()


def samples():
    """Returns pictures with the masks, segmentations, boxes and labels of their objects, which do not overlap."""
    rng = np.random.default_rng(8)
    for number in range(COUNT):
        height, width = (int(side) for side in rng.integers(30, 90, 2))
        masks, segmentations, boxes = [], [], []
        # More objects than move together in a pass, in some pictures.
        count = (0, 1, 3, 30)[number % 4]
        bounds = np.sort(rng.choice(width + 1, size=2 * count, replace=2 * count > width)).reshape(-1, 2).tolist()
        for place, (left, right) in enumerate(bounds):
            top, bottom = sorted(int(row) for row in rng.integers(0, height + 1, 2))
            mask = np.zeros((height, width), np.uint8)
            mask[top:bottom, left:right] = 1
            runs = {"counts": runs_of(mask), "size": [height, width]}
            segmentations.append(runs if place % 2 else [rectangle(left, top, right, bottom)])
            masks.append(mask)
            boxes.append([left, top, right, bottom])
        labels = (10 + rng.permutation(200)[:count]).tolist()
        document = {"boxes": boxes, "labels": labels, "segmentations": segmentations, "size": [height, width]}
        painted = np.full((height, width), 250, np.uint8)
        for mask, label in zip(masks, labels, strict=True):
            painted[mask > 0] = label
        yield np.full((height, width, 3), number, np.uint8), np.stack(masks or [np.zeros((height, width), np.uint8)])[:count], painted, document


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, made = str(tmp_path_factory.mktemp("objects") / "set"), list(samples())
    with fb.MDSWriter(out=folder, columns={"image": "png", "mask": "png", "objects": "json", "number": "int"}) as writer:
        for number, (pixels, _, painted, document) in enumerate(made):
            writer.write({"image": Image.fromarray(pixels), "mask": Image.fromarray(painted), "objects": document, "number": number})
    return folder, made


def rows_of(folder, *names, **fields):
    fields = {"joint": fb.Joint(**fields), "number": fb.Scalar("number")}
    with fb.Loader(local=folder, fields=fields, batch_size=8, framework="numpy") as loader:
        return {
            number: [np.array(batch[name][row]) for name in names] for batch in loader for row, number in enumerate(batch["number"].tolist())
        }


def masks(**options):
    return fb.ObjectMasks("objects", "segmentations", **options)


def classes(**options):
    return fb.ClassMap("objects", "segmentations", "labels", **options)


@pytest.mark.parametrize("name", LISTS)
def test_masks_and_classes_move_as_a_stored_mask_does(data, name):
    folder, made = data
    ops = LISTS[name]
    # Borders of the stored mask are 0, or 9 in one list, and of the map its background.
    stored = fb.Mask("mask", *ops, dtype="uint8")
    rows = rows_of(folder, "stored", "map", "masks", x=fb.Image("image", *ops), stored=stored, map=classes(background=250), masks=masks())
    assert len(rows) == COUNT
    for number, (stored, painted, drawn) in rows.items():
        stored[stored < 10] = 250
        assert np.array_equal(painted, stored)
        labels = made[number][3]["labels"]
        assert drawn.dtype == np.uint8 and drawn.shape == (len(labels), *stored.shape)
        for label, mask in zip(labels, drawn, strict=True):
            assert np.array_equal(mask, stored == label)


def test_colours_of_borders_are_not_in_masks(data):
    folder, _ = data
    grey = (fb.RandomZoomOut(fill=(9, 8, 7), p=1), fb.RandomRotation(40, fill=3), fb.RandomApply([fb.RandomAffine(30, fill=5)], 1), fb.Pad(4, fill=6))
    black = (fb.RandomZoomOut(p=1), fb.RandomRotation(40), fb.RandomApply([fb.RandomAffine(30)], 1), fb.Pad(4))
    first, second = (rows_of(folder, "map", "masks", x=fb.Image("image", *ops), map=classes(), masks=masks()) for ops in (grey, black))
    for number in first:
        assert all(np.array_equal(a, b) for a, b in zip(first[number], second[number], strict=True))


def test_masks_of_boxes_that_are_left_out_are_left_out(data):
    folder, made = data
    crop = fb.RandomResizedCrop((40, 50), scale=(0.05, 0.5))
    fields = {
        "x": fb.Image("image", crop),
        "boxes": fb.Boxes("objects", "boxes", min_size=2),
        "labels": fb.BoxLabels("objects", "labels"),
        "kept": masks(of="boxes"),
    }
    left_out = 0
    for number, (labels, kept) in rows_of(folder, "labels", "kept", **fields).items():
        assert kept.shape == (len(labels), 40, 50)
        left_out += len(made[number][3]["labels"]) - len(labels)
        for mask in kept:
            assert mask.any()
    assert left_out > 100


def test_a_crop_by_boxes_leaves_out_masks_with_their_boxes(data):
    folder, _ = data
    # A crop by boxes draws nothing in pictures without boxes.
    ops = (fb.RandomIoUCrop(), fb.Resize((40, 40)))
    fields = {"x": fb.Image("image", *ops), "boxes": fb.Boxes("objects", "boxes", min_size=1), "masks": masks()}
    for boxes, kept in rows_of(folder, "boxes", "masks", **fields).values():
        assert len(kept) == len(boxes.reshape(-1, 4))
        for (left, top, right, bottom), mask in zip(boxes.reshape(-1, 4), kept, strict=True):
            inside = np.argwhere(mask)
            # A thin mask may have no pixel after the resize.
            if len(inside):
                assert (inside.min(0) >= (top - 1.5, left - 1.5)).all() and (inside.max(0) <= (bottom + 1.5, right + 1.5)).all()


def write(folder, document, size=(20, 30)):
    picture = Image.new("RGB", (size[1], size[0]))
    with fb.MDSWriter(out=str(folder), columns={"image": "png", "objects": "str"}) as writer:
        writer.write({"image": picture, "objects": document if isinstance(document, str) else json.dumps(document)})
    return str(folder)


def one(folder, **fields):
    with fb.Loader(local=folder, fields={"joint": fb.Joint(x=fb.Image("image"), **fields)}, batch_size=1, framework="numpy") as loader:
        return next(iter(loader))


SQUARES = {"segmentations": [[rectangle(2, 2, 12, 12)], [rectangle(8, 8, 18, 18)]], "labels": [3, 7], "size": [20, 30]}


def test_pixels_of_several_objects_have_the_class_of_the_last_one_or_a_separate_class(tmp_path):
    folder = write(tmp_path / "set", SQUARES)
    a, b = np.zeros((2, 20, 30), bool)
    a[2:12, 2:12] = b[8:18, 8:18] = True
    last, own = np.where(b, 7, np.where(a, 3, 0)), np.where(a & b, 99, np.where(b, 7, np.where(a, 3, 255)))
    batch = one(folder, last=classes(), own=classes(overlap=99, background=255, dtype="int64"))
    assert batch["last"][0].dtype == np.uint8 and np.array_equal(batch["last"][0], last)
    assert batch["own"][0].dtype == np.int64 and np.array_equal(batch["own"][0], own)


def test_a_map_of_pictures_of_one_size_is_a_tensor(data):
    fields = {"joint": fb.Joint(x=fb.Image("image", fb.Resize((20, 30))), map=classes(background=255))}
    with fb.Loader(local=data[0], fields=fields, batch_size=8) as loader:
        batch = next(iter(loader))
    assert batch["map"].shape == (8, 20, 30)


def test_labels_above_255_fit_a_larger_type(tmp_path):
    folder = write(tmp_path / "set", {**SQUARES, "labels": [300, 65535]})
    assert set(np.unique(one(folder, map=classes(dtype="int32"))["map"][0])) == {0, 300, 65535}
    with pytest.raises(fb.DecodeError, match="does not fit the `dtype` of the ClassMap.*label 300.*object 0"):
        one(folder, map=classes())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"labels": [3, 0]}, "an object has the class of the `background`.*pass a `background` that no object has.*object 1"),
        ({"labels": [3, -1]}, "does not fit the `dtype`.*label -1"),
        ({"labels": [3]}, "number of segmentations of the sample differs from the number of its labels"),
        ({"segmentations": [[rectangle(0, 0, 1, 1)], None]}, "the object has no segmentation.*object 1"),
        ({"segmentations": [[[1, 2, 3, 4]], []]}, "fewer than three corners.*object 0"),
        ({"segmentations": {}}, "no list of segmentations at this path"),
        ({"segmentations": [[[1, 2, float("nan"), 4, 5, 6]], None]}, "not a finite number.*NaN.*object 0"),
        ({"segmentations": [{"counts": [5, 700], "size": [20, 30]}, None]}, "more pixels than its size"),
        ({"segmentations": [{"counts": "3", "size": [30, 20]}, None]}, "does not have the size of its annotations"),
        ({"size": [10, 15]}, "the picture does not have the size of its annotations: the file is a resized one.*picture 30x20, annotated 15x10"),
        ({"size": "large"}, r"is \[height, width\]"),
    ],
)
def test_objects_that_cannot_be_drawn_are_errors_with_the_reason(tmp_path, change, sentence):
    folder = write(tmp_path / "set", SQUARES | change)
    with pytest.raises(fb.DecodeError, match=sentence):
        one(folder, map=classes(), masks=masks())


def test_a_size_that_is_not_in_the_document_is_not_compared(tmp_path):
    folder = write(tmp_path / "a", {**SQUARES, "size": [1, 1], "shape": {"hw": [20, 30]}})
    for size in (None, "absent", "shape.hw", ["shape", "hw"]):
        assert one(folder, masks=masks(size=size))["masks"][0].sum() == 200
    folder = write(tmp_path / "b", {**SQUARES, "size": None})
    assert one(folder, masks=masks())["masks"][0].sum() == 200


def test_masks_that_are_not_as_many_as_their_boxes_are_an_error(tmp_path):
    folder = write(tmp_path / "set", {**SQUARES, "boxes": [[1, 2, 3, 4]]})
    with pytest.raises(fb.DecodeError, match="number of segmentations of the sample differs from the number of its boxes.*segmentations 2, boxes 1"):
        one(folder, boxes=fb.Boxes("objects", "boxes"), masks=masks())


def test_masks_of_more_pixels_than_the_limit_are_refused_before_they_are_drawn(tmp_path):
    side = 4000
    document = {"segmentations": [[rectangle(0, 0, 1, 1)]] * 40}
    with pytest.raises(fb.DecodeError, match="masks of the sample have more pixels than the limit allows"):
        one(write(tmp_path / "set", document, (side, side)), masks=masks())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"m": fb.ObjectMasks("objects")}, "masks of objects are fields of a Joint with their picture"),
        ({"m": classes()}, "masks of objects are fields of a Joint with their picture"),
        ({"j": fb.Joint(m=masks())}, "the Joint has no Image or Mask"),
        ({"j": fb.Joint(x=fb.Image("image"), m=masks(of="boxes"))}, "the Joint has no Boxes with this name"),
        ({"j": fb.Joint(x=fb.Image("image"), m=classes(of="y"))}, "the Joint has no Image or Mask with this name"),
        ({"j": fb.Joint(x=fb.Image("image"), m=fb.ObjectMasks("image"))}, "need a column of JSON documents, text or bytes"),
        ({"j": fb.Joint(x=fb.Image("image"), m=fb.ObjectMasks("objects", "a..b"))}, "has an empty part"),
        ({"j": fb.Joint(x=fb.Image("image", fb.AugMix()), m=masks())}, "AugMix"),
        ({"j": fb.Joint(x=fb.Image("image"), m=classes(overlap=0))}, "`overlap` of a ClassMap is not its `background`"),
        ({"j": fb.Joint(x=fb.Image("image"), m=classes(dtype="float32"))}, "labels must be integers"),
        ({"j": fb.Joint(x=fb.Image("image"), m=classes(background=300))}, "background of ClassMap is a whole number"),
        ({"j": fb.Joint(x=fb.Image("image"), m=fb.ObjectMasks("objects", 3))}, "path of ObjectMasks is text"),
        ({"j": fb.Joint(x=fb.Image("image"), m=masks(size=3))}, "size of ObjectMasks is text"),
        ({"j": fb.Joint(x=fb.Image("image"), m=fb.ClassMap("objects", None, None))}, "labels of ClassMap is text"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, fields, sentence):
    folder = write(tmp_path / "set", SQUARES)
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=folder, fields=fields, batch_size=1)


@pytest.mark.parametrize("field", [fb.Boxes("objects", "boxes"), fb.KeyPoints("objects", "points")], ids=["boxes", "points"])
def test_positions_without_masks_are_compared_with_the_size_of_the_picture_too(tmp_path, field):
    positions = {"boxes": [[1, 2, 3, 4]], "points": [[[1, 2], [3, 4]]]}
    folder = write(tmp_path / "a", {**positions, "size": [40, 60], "shape": {"hw": [20, 30]}})
    with pytest.raises(fb.DecodeError, match="the picture does not have the size of its annotations: the file is a resized one.*picture 30x20, annotated 60x40"):
        one(folder, found=field)
    for size in (None, "absent", "shape.hw", ["shape", "hw"]):
        assert one(folder, found=dataclasses.replace(field, size=size))["found"][0].ravel().tolist() == [1, 2, 3, 4]
    for number, size in enumerate(([20, 30], None, {"width": 60, "height": 40}, "40x60", [60], 123, [1.5, 2])):
        assert one(write(tmp_path / f"b{number}", {**positions, "size": size}), found=field)["found"][0].size == 4


def test_a_list_of_boxes_without_a_document_has_no_size(tmp_path):
    assert one(write(tmp_path / "set", "[[1, 2, 3, 4]]"), found=fb.Boxes("objects"))["found"][0].tolist() == [[1, 2, 3, 4]]
