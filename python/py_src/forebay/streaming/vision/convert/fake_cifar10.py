"""Noise in the form of CIFAR-10, for measurements."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import convert_image_class_dataset

_CLASSES = 10


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=str, default="/tmp/fake_cifar10/", help="folder of the new data set")
    parser.add_argument("--num_train", type=int, default=8 * 8 * 16384, help="pictures to train with")
    parser.add_argument("--num_val", type=int, default=8 * 8 * 2048, help="pictures to validate with")
    return parser.parse_args(arguments)


class _Noise:
    """Pairs of noise and a class, made on demand."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Any, int]:
        from PIL import Image

        pixels = np.random.randint(0, 256, (32, 32, 3), np.uint8)
        return Image.fromarray(pixels), int(np.random.randint(_CLASSES))


def main(args: Namespace) -> None:
    """Writes both splits."""
    for split, count in (("train", args.num_train), ("val", args.num_val)):
        convert_image_class_dataset(_Noise(count), args.out, split)


if __name__ == "__main__":
    main(parse_args())
