"""COCO's detection, from the folders train2017/, val2017/ and annotations/."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._convert import make_parser, make_writer, show_progress

_COUNTS = {"train": 117266, "val": 4952}
_COLUMNS = {
    "img": "jpeg",
    "img_id": "int",
    "htot": "int",
    "wtot": "int",
    "bbox_sizes": "ndarray:float32",
    "bbox_labels": "ndarray:int64",
}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 25)
    parser.add_argument("--in_root", type=str, required=True, help="folder of pictures and annotations")
    parser.add_argument("--whole", type=int, default=1, help="reject an incomplete release, 0 or 1")
    return parser.parse_args(arguments)


def read_annotations(filename: str) -> list[dict[str, Any]]:
    """Returns the pictures with a box: `file_name`, `img_id`, `htot`, `wtot`, `bbox_sizes`, `bbox_labels`.

    Boxes are left, top, right, bottom, as parts of width and height. Labels are numbered from 1, in the order of the
    categories; 0 is the background.
    """
    with open(filename, encoding="utf-8") as file:
        release = json.load(file)
    labels = {category["id"]: number for number, category in enumerate(release["categories"], start=1)}
    pictures: dict[int, dict[str, Any]] = {}
    for image in release["images"]:
        if image["id"] in pictures:
            raise ValueError(f"{filename} describes picture {image['id']} twice")
        size = {"htot": image["height"], "wtot": image["width"]}
        boxes: dict[str, Any] = {"bbox_sizes": [], "bbox_labels": []}
        pictures[image["id"]] = {"file_name": image["file_name"], "img_id": image["id"], **size, **boxes}
    for annotation in release["annotations"]:
        picture = pictures[annotation["image_id"]]
        left, top, width, height = annotation["bbox"]
        across, down = picture["wtot"], picture["htot"]
        picture["bbox_sizes"].append((left / across, top / down, (left + width) / across, (top + height) / down))
        picture["bbox_labels"].append(labels[annotation["category_id"]])
    return [picture for picture in pictures.values() if picture["bbox_labels"]]


def each(folder: str, pictures: list[dict[str, Any]], shuffle: bool) -> Iterator[dict[str, Any]]:
    """Yields the samples, in a random order if `shuffle` is set."""
    count = len(pictures)
    for i in np.random.permutation(count) if shuffle else range(count):
        picture = dict(pictures[i])
        with open(os.path.join(folder, picture.pop("file_name")), "rb") as file:
            picture["img"] = file.read()
        picture["bbox_sizes"] = np.array(picture["bbox_sizes"], np.float32)
        picture["bbox_labels"] = np.array(picture["bbox_labels"], np.int64)
        yield picture


def main(args: Namespace) -> None:
    """Writes both splits, the training split in a random order."""
    for split, expected in _COUNTS.items():
        folder = os.path.join(args.in_root, f"{split}2017")
        annotations = os.path.join(args.in_root, "annotations", f"instances_{split}2017.json")
        for what, path in (("Images path", folder), ("Annotations file", annotations)):
            if not os.path.exists(path):
                raise FileNotFoundError(f"{what} does not exist: {path}")
        pictures = read_annotations(annotations)
        if args.whole and len(pictures) != expected:
            raise ValueError(
                f"Number of samples in a dataset doesn't match. Expected {expected}, but got {len(pictures)}; "
                "--whole 0 accepts an incomplete release"
            )
        samples = each(folder, pictures, shuffle=split == "train")
        with make_writer(args, split, _COLUMNS) as writer:
            for sample in show_progress(args, samples, len(pictures)):
                writer.write(sample)


if __name__ == "__main__":
    main(parse_args())
