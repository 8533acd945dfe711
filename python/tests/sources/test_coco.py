"""Annotations of COCO as the manifest of a stream."""

import json

import numpy as np
import pytest
from PIL import Image

import forebay as fb

CATEGORIES = [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}]
BOXES = {0: [], 1: [[1, 2, 3, 4]], 2: [[0, 0, 2.5, 3], [4, 4, 8, 6]]}


@pytest.fixture
def coco(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "coco/train").mkdir(parents=True)
    (tmp_path / "coco/annotations").mkdir()
    images, annotations = [], []
    # Not in the order of their ids, which is the order of the samples.
    for number in (2, 0, 1):
        Image.new("RGB", (20 + number, 16), (number, 50, 90)).save(tmp_path / f"coco/train/{number:012}.png")
        images.append({"id": 100 + number, "file_name": f"{number:012}.png", "width": 20 + number, "height": 16})
        for box in BOXES[number]:
            shape = [[box[0], box[1], box[0] + box[2], box[1], box[0], box[1] + box[3]]]
            found = {"id": len(annotations), "image_id": 100 + number, "bbox": box, "area": 2.5, "iscrowd": 0, "segmentation": shape}
            annotations.append({"category_id": (18, 3)[len(annotations) % 2], **found})
    document = {"info": {}, "images": images, "annotations": annotations, "categories": CATEGORIES}
    (tmp_path / "coco/annotations/instances_train.json").write_text(json.dumps(document))
    return tmp_path / "coco"


FIELDS = {
    "joint": fb.Joint(x=fb.Image("file"), boxes=fb.Boxes("objects", "boxes", format="xywh"), labels=fb.BoxLabels("objects", "labels")),
    "id": fb.Scalar("image_id"),
    "objects": fb.Text("objects"),
}


def stream(coco, manifest):
    return fb.Stream(remote=coco / "train", manifest=str(manifest))


@pytest.mark.parametrize("manifest", ["../annotations/instances_train.json", None])
def test_samples_are_images_by_their_ids_with_boxes_and_labels(coco, manifest):
    manifest = manifest or coco / "annotations/instances_train.json"
    for _ in range(2):
        with fb.Loader(streams=[stream(coco, manifest)], batch_size=1, framework="numpy", fields=FIELDS) as loader:
            classes, rows = loader.classes, list(loader)
        assert classes == ["car", "dog"]
        assert [int(row["id"][0]) for row in rows] == [100, 101, 102]
        labels = [[classes.index({18: "dog", 3: "car"}[c]) for c in json.loads(row["objects"][0])["category_ids"]] for row in rows]
        for number, row in enumerate(rows):
            assert row["x"][0].shape == (3, 16, 20 + number) and row["x"][0][0, 0, 0] == number
            assert np.asarray(row["boxes"][0]).reshape(-1, 4).tolist() == BOXES[number]
            assert row["labels"][0].tolist() == labels[number]
            segmentations = json.loads(row["objects"][0])["segmentations"]
            assert [shape[0][:2] for shape in segmentations] == [box[:2] for box in BOXES[number]]


def test_boxes_follow_the_operations_of_the_picture(coco):
    joint = fb.Joint(x=fb.Image("file", fb.Resize((32, 44))), boxes=fb.Boxes("objects", "boxes", format="xywh"))
    streams = [stream(coco, "../annotations/instances_train.json")]
    with fb.Loader(streams=streams, batch_size=3, framework="numpy", fields={"j": joint}) as loader:
        batch = next(iter(loader))
    assert batch["x"].shape == (3, 3, 32, 44)
    assert batch["boxes"][2].tolist() == [[0, 0, 5, 6], [8, 8, 16, 12]]


def test_a_picture_that_does_not_exist_is_named_with_its_image(coco):
    (coco / "train/000000000001.png").unlink()
    with pytest.raises(fb.NotFoundError, match="relative to the folder of the images.*000000000001.png.*image 101"):
        fb.Loader(streams=[stream(coco, "../annotations/instances_train.json")], batch_size=1, fields=FIELDS)


def test_a_document_of_another_form_is_an_error(coco):
    (coco / "annotations/captions.json").write_text('{"images": [], "annotations": []}')
    with pytest.raises(fb.FormatError, match="not in the form of COCO.*captions.json"):
        fb.Loader(streams=[stream(coco, "../annotations/captions.json")], batch_size=1, fields=FIELDS)


# Height and width of all pictures of `segmented`.
SIZE = (16, 24)


def rectangle(left, top, right, bottom):
    mask = np.zeros(SIZE, np.uint8)
    mask[top:bottom, left:right] = 1
    return mask, [left, top, right, top, right, bottom, left, bottom]


def counts_of(mask):
    pixels = mask.ravel(order="F")
    return np.diff([0, *np.flatnonzero(np.diff(pixels, prepend=0)), len(pixels)]).tolist()


def objects_of(number):
    """Returns masks and segmentations of the objects of a picture: a polygon, several, run lengths of a crowd, and their text."""
    (one, first), (two, second) = rectangle(number, 1, number + 5, 9), rectangle(2, 10, 20, 15)
    both = np.maximum(one, two)
    # Of the second one, by pycocotools.
    text = {"size": list(SIZE), "counts": "Z15;000000000000000000000000000000000f1"}
    runs = {"size": list(SIZE), "counts": counts_of(both)}
    return [(one, [first]), (both, [first, second]), (both, runs), (two, text)][: 1 + number % 4]


@pytest.fixture
def segmented(tmp_path, monkeypatch):
    """A folder of COCO with 12 pictures, and the masks of their objects. Objects of different pictures are mixed in the file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "coco/train").mkdir(parents=True)
    images, annotations, masks = [], [], {}
    for number in range(12):
        Image.new("RGB", SIZE[::-1], (number, 50, 90)).save(tmp_path / f"coco/train/{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": SIZE[1], "height": SIZE[0]})
        masks[number] = [mask for mask, _ in objects_of(number)]
    for place in range(4):
        for number in range(12):
            for mask, segmentation in objects_of(number)[place : place + 1]:
                (top, bottom), (left, right) = ((side.min(), side.max() + 1) for side in np.nonzero(mask))
                box = [int(left), int(top), int(right - left), int(bottom - top)]
                found = {"id": len(annotations), "image_id": number, "bbox": box, "iscrowd": int(isinstance(segmentation, dict))}
                annotations.append({**found, "category_id": (18, 3)[place % 2], "segmentation": segmentation})
    document = {"images": images, "annotations": annotations, "categories": CATEGORIES}
    # With line breaks, as some programs write it.
    (tmp_path / "coco/instances.json").write_text(json.dumps(document, indent=1))
    return tmp_path / "coco", masks


def loader_of(folder, *ops, **options):
    joint = fb.Joint(
        x=fb.Image("file", *ops),
        boxes=fb.Boxes("objects", "boxes", format="xywh", to="xyxy", min_size=1),
        labels=fb.BoxLabels("objects", "labels"),
        crowds=fb.BoxLabels("objects", "iscrowd"),
        masks=fb.ObjectMasks("objects", "segmentations"),
        map=fb.ClassMap("objects", "segmentations", "category_ids", overlap=255),
    )
    streams = [fb.Stream(remote=folder / "train", manifest=str(folder / "instances.json"))]
    options = {"batch_size": 2, "framework": "numpy", "fields": {"scene": joint, "id": fb.Scalar("image_id")}} | options
    return fb.Loader(streams=streams, **options)


def test_masks_and_classes_are_drawn_from_all_forms_of_segmentations(segmented):
    folder, masks = segmented
    with loader_of(folder) as loader:
        rows = [(batch, row) for batch in loader for row in range(len(batch["id"]))]
    assert [int(batch["id"][row]) for batch, row in rows] == list(masks)
    for batch, row in rows:
        expected = masks[int(batch["id"][row])]
        drawn, boxes = batch["masks"][row], batch["boxes"][row]
        assert drawn.dtype == np.uint8 and np.array_equal(drawn, np.stack(expected))
        for mask, (left, top, right, bottom) in zip(drawn, boxes.astype(int), strict=True):
            assert mask[top:bottom, left:right].any(0).all() and mask.sum() == mask[top:bottom, left:right].sum()
        # Labels have no gaps, and ids of categories have: 18 is the second class, 3 the first.
        assert batch["labels"][row].tolist() == [(1, 0)[place % 2] for place in range(len(expected))]
        assert batch["crowds"][row].tolist() == [int(place > 1) for place in range(len(expected))]
        classes = np.zeros(SIZE, int)
        for place, mask in enumerate(expected):
            classes = np.where(mask > 0, np.where(classes > 0, 255, (18, 3)[place % 2]), classes)
        assert np.array_equal(batch["map"][row], classes)


def test_masks_move_with_the_picture_and_a_resumed_epoch_has_the_same(segmented):
    folder, _ = segmented
    ops = (fb.RandomResizedCrop((12, 20), scale=(0.3, 1)), fb.RandomHorizontalFlip(), fb.RandomRotation(10, fill=9), fb.ColorJitter(0.4))
    names = ("x", "boxes", "labels", "masks", "map")

    def contents(batch):
        return [[np.asarray(row).tolist() for row in batch[name]] for name in names]

    with loader_of(folder, *ops, shuffle=True, seed=5) as loader:
        whole = [contents(batch) for batch in loader]
        again = [contents(batch) for batch in loader]
    assert len(whole) == 6 and whole != again
    with loader_of(folder, *ops, shuffle=True, seed=5) as loader:
        epoch = iter(loader)
        start, state = [contents(next(epoch)) for _ in range(2)], loader.state_dict()
    with loader_of(folder, *ops, shuffle=True, seed=5) as loader:
        loader.load_state_dict(state)
        assert start + [contents(batch) for batch in loader] == whole
        assert [contents(batch) for batch in loader] == again
    for batch in whole:
        rows = dict(zip(names, batch, strict=True))
        for labels, masks, classes in zip(rows["labels"], rows["masks"], rows["map"], strict=True):
            masks, classes = np.array(masks).reshape(-1, 12, 20), np.array(classes)
            assert classes.shape == (12, 20) and len(masks) == len(labels)
            assert (classes[masks.any(0)] > 0).all()


def test_an_object_that_cannot_be_drawn_is_named_with_its_file_and_may_be_skipped(segmented):
    folder, masks = segmented
    document = json.loads((folder / "instances.json").read_text())
    for annotation in document["annotations"]:
        if annotation["image_id"] == 3 and annotation["iscrowd"]:
            annotation["segmentation"] = {"counts": [1, 2, 1000], "size": list(SIZE)}
    (folder / "instances.json").write_text(json.dumps(document))
    with pytest.raises(fb.DecodeError, match=r"more pixels than its size.*object 2.*3\.png"), loader_of(folder) as loader:
        list(loader)
    with loader_of(folder, batch_size=1, skip=fb.Skip(errors=1)) as loader:
        assert [int(batch["id"][0]) for batch in loader] == [number for number in masks if number != 3]


def test_a_folder_of_resized_pictures_is_an_error(segmented):
    folder, _ = segmented
    Image.new("RGB", (12, 8)).save(folder / "train/0.png")
    with pytest.raises(fb.DecodeError, match="does not have the size of its annotations.*picture 12x8, annotated 24x16"), loader_of(folder) as loader:
        list(loader)
