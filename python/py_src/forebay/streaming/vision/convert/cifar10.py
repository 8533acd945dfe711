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


def main(args: Namespace) -> None:
    """Writes the splits."""
    for split in get_list_arg(args.splits):
        convert_image_class_dataset(
            CIFAR10(args.in_root, train=split == "train", download=True),
            args.out_root,
            split,
            args.compression,
            get_list_arg(args.hashes),
            args.size_limit,
            bool(args.progress_bar),
            bool(args.leave),
        )


if __name__ == "__main__":
    main(parse_args())
