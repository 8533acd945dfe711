"""ADE20K, from the folders images/ and annotations/ of its scene-parsing release."""

from __future__ import annotations

import os
import random
from argparse import Namespace
from collections.abc import Sequence
from glob import glob

from ..._convert import make_parser, make_writer, show_progress
from ...base.util import get_list_arg

_FOLDERS = {"train": "training", "val": "validation"}
_COUNTS = {"train": 20206, "val": 2000}

# Unreadable pictures of the release.
_DAMAGED = frozenset(["00003020", "00001701", "00013508", "00008455"])


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 22)
    parser.add_argument("--in_root", type=str, required=True, help="folder of images/ and annotations/")
    parser.add_argument("--splits", type=str, default="train,val", help="splits to write, comma-separated")
    parser.add_argument("--whole", type=int, default=1, help="reject an incomplete release, 0 or 1")
    return parser.parse_args(arguments)


def get(in_root: str, split: str, shuffle: bool) -> list[tuple[str, str, str]]:
    """Returns name, picture file and annotation file of each sample of a split.

    Raises:
        FileNotFoundError: A folder is missing.
        ValueError: There is no such split.
    """
    if split not in _FOLDERS:
        raise ValueError(f"Split must be one of 'train', 'val', not {split}")
    images = os.path.join(in_root, "images", _FOLDERS[split])
    annotations = os.path.join(in_root, "annotations", _FOLDERS[split])
    for what, folder in (("Images", images), ("Annotations", annotations)):
        if not os.path.exists(folder):
            raise FileNotFoundError(f"{what} path does not exist: {folder}")
    samples = []
    for image in sorted(glob(os.path.join(images, f"ADE_{split}_*.jpg"))):
        name = os.path.splitext(os.path.basename(image))[0]
        number = name.removeprefix(f"ADE_{split}_")
        if split != "train" or number not in _DAMAGED:
            samples.append((number, image, os.path.join(annotations, f"{name}.png")))
    if shuffle:
        random.shuffle(samples)
    return samples


def main(args: Namespace) -> None:
    """Writes the splits, the training split in a random order."""
    for split in get_list_arg(args.splits):
        samples = get(args.in_root, split, shuffle=split == "train")
        if args.whole and len(samples) != _COUNTS[split]:
            raise ValueError(
                f"Number of samples in a dataset doesn't match. Expected {_COUNTS[split]}, but got {len(samples)}; "
                "--whole 0 accepts an incomplete release"
            )
        with make_writer(args, split, {"uid": "bytes", "x": "jpeg", "y": "png"}) as writer:
            for number, image, annotation in show_progress(args, samples):
                with open(image, "rb") as x, open(annotation, "rb") as y:
                    writer.write({"uid": number.encode(), "x": x.read(), "y": y.read()})


if __name__ == "__main__":
    main(parse_args())
