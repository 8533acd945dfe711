"""The Colossal Clean Crawled Corpus, from its files of JSON lines, or without them from Hugging Face's hub."""

from __future__ import annotations

import gzip
import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from glob import glob
from typing import Any

from ..._convert import make_parser, make_writer, show_progress

# Name of a split in the source and here, and its number of samples.
_SPLITS = (("train", "train", 364868892), ("validation", "val", 364608))
_COLUMNS = {"text": "str", "timestamp": "str", "url": "str"}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 27, compression="zstd:7")
    parser.add_argument(
        "--in_root", type=str, default=None, help="folder of c4-train.*.json.gz and c4-validation.*.json.gz"
    )
    return parser.parse_args(arguments)


def each(in_root: str | None, split: str) -> Iterator[dict[str, Any]]:
    """Yields the samples of a split.

    Raises:
        FileNotFoundError: The folder has no file of the split.
    """
    if in_root is None:
        import datasets

        yield from datasets.load_dataset("allenai/c4", "en", split=split, streaming=True)
        return
    filenames = sorted(glob(os.path.join(in_root, f"c4-{split}.*.json.gz")))
    if not filenames:
        raise FileNotFoundError(f"{in_root} has no file c4-{split}.*.json.gz")
    for filename in filenames:
        with gzip.open(filename, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def main(args: Namespace) -> None:
    """Writes both splits."""
    for there, here, count in _SPLITS:
        samples = each(args.in_root, there)
        with make_writer(args, here, _COLUMNS) as writer:
            for sample in show_progress(args, samples, count):
                writer.write({name: _text(sample[name]) for name in _COLUMNS})


def _text(value: Any) -> str:
    """Converts times, which the hub's library returns as objects and the files contain as text."""
    return value if isinstance(value, str) else value.strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(parse_args())
