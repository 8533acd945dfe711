"""English Wikipedia as plain text, one sample per line, from part-00000-of-00500 and so on, and eval.txt."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from glob import glob

from ..._convert import make_parser, make_writer, show_progress


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 25, compression="zstd:7")
    parser.add_argument("--in_root", type=str, required=True, help="folder of the files")
    return parser.parse_args(arguments)


def process_split(arguments: Namespace, filenames: list[str], split: str) -> None:
    """Writes the non-empty lines of files."""
    with make_writer(arguments, split, {"text": "str"}) as writer:
        for filename in show_progress(arguments, filenames):
            with open(filename, encoding="utf-8") as lines:
                for text in filter(None, map(str.strip, lines)):
                    writer.write({"text": text})


def main(args: Namespace) -> None:
    """Writes both splits."""
    parts = sorted(glob(os.path.join(args.in_root, "part-*-of-*")))
    process_split(args, parts, "train")
    process_split(args, [os.path.join(args.in_root, "eval.txt")], "val")


if __name__ == "__main__":
    main(parse_args())
