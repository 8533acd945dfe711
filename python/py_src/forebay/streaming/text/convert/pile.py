"""The Pile, from its files of JSON lines: train/*.jsonl, val.jsonl, test.jsonl."""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from glob import glob

from ..._convert import make_parser, make_writer

_COLUMNS = {"text": "str", "pile_set_name": "str"}
_FILES = ("raw_data", "zip_data")


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """The program's arguments."""
    parser = make_parser(__doc__, size_limit=1 << 27, compression="zstd:16", progress=False)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the files")
    return parser.parse_args(arguments)


def each_sample(filename: str) -> Iterator[dict[str, str]]:
    """The samples of a file.

    Raises:
        ValueError: A line has other fields.
    """
    with open(filename, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            document = json.loads(line)
            if sorted(document) != ["meta", "text"] or sorted(document["meta"]) != ["pile_set_name"]:
                raise ValueError(f"Invalid sample fields in line {number} of {filename}: {sorted(document)}")
            yield {"text": document["text"], "pile_set_name": document["meta"]["pile_set_name"]}


def file_to_dir(arguments: Namespace, filename: str) -> dict[str, int]:
    """Writes a file as a data set of its own; how many samples of each source it has."""
    counts: Counter[str] = Counter()
    split = os.path.splitext(os.path.relpath(filename, arguments.in_root))[0]
    with make_writer(arguments, split, _COLUMNS) as writer:
        for sample in each_sample(filename):
            writer.write(sample)
            counts[sample["pile_set_name"]] += 1
    return dict(counts)


def merge_shard_groups(root: str) -> None:
    """Makes one data set of those in the folders of `root`: shards are numbered on and moved up, the folders go."""
    shards = []
    for folder in sorted(glob(os.path.join(root, "*", ""))):
        index = os.path.join(folder, "index.json")
        with open(index, encoding="utf-8") as file:
            for shard in json.load(file)["shards"]:
                for info in filter(None, (shard[name] for name in _FILES)):
                    old = os.path.join(folder, info["basename"])
                    prefix, _, rest = info["basename"].split(".", 2)
                    info["basename"] = f"{prefix}.{len(shards):05}.{rest}"
                    # With compression only the compressed file is there.
                    if os.path.exists(old):
                        os.rename(old, os.path.join(root, info["basename"]))
                shards.append(shard)
        os.remove(index)
        os.rmdir(folder)
    with open(os.path.join(root, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 2, "shards": shards}, file, sort_keys=True)


def main(arguments: Namespace) -> None:
    """Writes all files, each in a process, and makes one data set of those to train with."""
    files = sorted(glob(os.path.join(arguments.in_root, "train", "*.jsonl")))
    files += [os.path.join(arguments.in_root, f"{split}.jsonl") for split in ("val", "test")]
    with ProcessPoolExecutor() as pool:
        for filename, counts in zip(files, pool.map(file_to_dir, [arguments] * len(files), files)):
            print(json.dumps({"file": filename, "counts": counts}, sort_keys=True))
    merge_shard_groups(os.path.join(arguments.out_root, "train"))


if __name__ == "__main__":
    main(parse_args())
