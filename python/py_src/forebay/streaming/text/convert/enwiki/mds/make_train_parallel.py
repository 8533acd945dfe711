"""BERT's training samples from many files, with one process per CPU and one data set per group of files."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from ...... import _forebay
from . import create_pretraining_data


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the files")
    parser.add_argument("--in_pattern", type=str, default="part-%05d-of-00500", help="name of a file, of its number")
    parser.add_argument("--in_num_shards", type=int, default=500, help="number of files")
    parser.add_argument("--out_root", type=str, required=True, help="folder of the data sets' folders")
    parser.add_argument("--out_pattern", type=str, default="group-%03d", help="name of a folder, of its number")
    create_pretraining_data.add_arguments(parser)
    parser.set_defaults(compression="zstd:16", hashes="sha1,xxh3_64", size_limit=1 << 27, max_seq_length=512)
    return parser.parse_args(arguments)


def groups(arguments: Namespace, count: int) -> Iterator[Namespace]:
    """Yields the arguments of each of `count` groups of files."""
    files = [os.path.join(arguments.in_root, arguments.in_pattern % i) for i in range(arguments.in_num_shards)]
    for group in range(count):
        part = files[group * len(files) // count : (group + 1) * len(files) // count]
        folder = os.path.join(arguments.out_root, arguments.out_pattern % group)
        if part:
            yield Namespace(**{**vars(arguments), "input_file": ",".join(part), "output_dir": folder})


def main(args: Namespace) -> None:
    """Writes the data sets."""
    cpus = _forebay.cpu_count()
    with ProcessPoolExecutor(cpus) as pool:
        list(pool.map(create_pretraining_data.main, groups(args, cpus)))


if __name__ == "__main__":
    main(parse_args())
