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
    with pytest.raises(fb.FormatError, match="no annotations of COCO.*captions.json"):
        fb.Loader(streams=[stream(coco, "../annotations/captions.json")], batch_size=1, fields=FIELDS)
