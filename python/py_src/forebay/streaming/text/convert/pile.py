"""The Pile, from its files of JSON lines: train/*.jsonl, val.jsonl, test.jsonl."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from glob import glob

from ..._convert import make_parser, make_writer, merge_shard_groups

_COLUMNS = {"text": "str", "pile_set_name": "str"}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = make_parser(__doc__, size_limit=1 << 27, compression="zstd:16", progress=False)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the files")
    return parser.parse_args(arguments)


def each_sample(filename: str) -> Iterator[dict[str, str]]:
    """Yields the samples of a file.

    Raises:
        ValueError: A line has wrong fields.
    """
    with open(filename, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            document = json.loads(line)
            if sorted(document) != ["meta", "text"] or sorted(document["meta"]) != ["pile_set_name"]:
                raise ValueError(f"Invalid sample fields in line {number} of {filename}: {sorted(document)}")
            yield {"text": document["text"], "pile_set_name": document["meta"]["pile_set_name"]}


def file_to_dir(arguments: Namespace, filename: str) -> dict[str, int]:
    """Writes a file as a separate data set; returns the number of samples of each source."""
    counts: Counter[str] = Counter()
    split = os.path.splitext(os.path.relpath(filename, arguments.in_root))[0]
    with make_writer(arguments, split, _COLUMNS) as writer:
        for sample in each_sample(filename):
            writer.write(sample)
            counts[sample["pile_set_name"]] += 1
    return dict(counts)


def main(args: Namespace) -> None:
    """Writes all files, each in a process, and merges the training files to one data set."""
    files = sorted(glob(os.path.join(args.in_root, "train", "*.jsonl")))
    files += [os.path.join(args.in_root, f"{split}.jsonl") for split in ("val", "test")]
    with ProcessPoolExecutor() as pool:
        for filename, counts in zip(files, pool.map(file_to_dir, [args] * len(files), files)):
            print(json.dumps({"file": filename, "counts": counts}, sort_keys=True))
    train = os.path.join(args.out_root, "train")
    merge_shard_groups(train, train)


if __name__ == "__main__":
    main(parse_args())
