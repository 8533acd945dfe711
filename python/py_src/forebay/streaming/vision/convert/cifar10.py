"""CIFAR-10 from its batches, which torchvision reads, and downloads if they are missing."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from torchvision.datasets import CIFAR10

from ..._convert import make_parser
from ...base.util import get_list_arg
from .base import convert_image_class_dataset


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 20)
    parser.add_argument("--in_root", type=str, required=True, help="folder of CIFAR-10's files")
    parser.add_argument("--splits", type=str, default="train,val", help="splits to write, comma-separated")
    return parser.parse_args(arguments)


def main(arguments: Namespace) -> None:
    """Writes the splits."""
    for split in get_list_arg(arguments.splits):
        convert_image_class_dataset(
            CIFAR10(arguments.in_root, train=split == "train", download=True),
            arguments.out_root,
            split,
            arguments.compression,
            get_list_arg(arguments.hashes),
            arguments.size_limit,
            bool(arguments.progress_bar),
            bool(arguments.leave),
        )


if __name__ == "__main__":
    main(parse_args())
