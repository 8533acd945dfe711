"""ImageNet, from folders of a split's classes: IN_ROOT/train/n01440764/n01440764_18.JPEG."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from glob import glob

import numpy as np

from ..._convert import make_parser, make_writer, show_progress
from ...base.util import get_list_arg


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 26)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the splits")
    parser.add_argument("--splits", type=str, default="train,val", help="splits to write, comma-separated")
    parser.add_argument("--validate", type=int, default=1, help="open every picture, 0 or 1")
    parser.add_argument("--extensions", type=str, default="jpeg", help="extensions of files, comma-separated")
    return parser.parse_args(arguments)


def check_extensions(filenames: list[str], extensions: set[str]) -> None:
    """Raises AssertionError for a file with an extension outside of `extensions`."""
    for filename in filenames:
        extension = filename.rpartition(".")[2].lower()
        assert extension in extensions, f"{filename} is none of {', '.join(sorted(extensions))}"


def get_classes(filenames: list[str], class_names: list[str] | None = None) -> tuple[list[int], list[str]]:
    """Returns the class of each file, numbered in the order of the folders' names, and the names.

    Raises:
        AssertionError: `class_names` is given, and the folders differ from it.
    """
    folders = [os.path.basename(os.path.dirname(filename)) for filename in filenames]
    found = sorted(set(folders))
    assert class_names is None or class_names == found, "splits have different classes"
    numbers = {name: number for number, name in enumerate(found)}
    return [numbers[folder] for folder in folders], found


def main(args: Namespace) -> None:
    """Writes the splits, each in a random order."""
    class_names = None
    for split in get_list_arg(args.splits):
        filenames = sorted(glob(os.path.join(args.in_root, split, "*", "*")))
        check_extensions(filenames, set(get_list_arg(args.extensions)))
        classes, class_names = get_classes(filenames, class_names)
        order = np.random.permutation(len(filenames)).tolist()
        with make_writer(args, split, {"i": "int", "x": "jpeg", "y": "int"}) as writer:
            for i in show_progress(args, order):
                if args.validate:
                    _check_picture(filenames[i])
                with open(filenames[i], "rb") as file:
                    writer.write({"i": i, "x": file.read(), "y": classes[i]})


def _check_picture(filename: str) -> None:
    from PIL import Image

    Image.open(filename).close()


if __name__ == "__main__":
    main(parse_args())
