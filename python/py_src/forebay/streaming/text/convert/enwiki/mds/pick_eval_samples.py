"""Makes a data set of some samples of a source data set, at equal distances."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ......_shards import ShardReader
from .....base.format import MDSWriter
from .....base.util import get_list_arg
from .create_pretraining_data import COLUMNS


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the source data set")
    parser.add_argument("--out_root", type=str, required=True, help="folder of the new data set")
    parser.add_argument("--compression", type=str, default="zstd:16", help='such as "zstd:7"; "": not compressed')
    parser.add_argument("--hashes", type=str, default="sha1,xxh3_64", help="hashes to record, comma-separated")
    parser.add_argument("--size_limit", type=int, default=1 << 26, help="largest raw shard, in bytes")
    parser.add_argument("--num_examples_to_pick", type=int, default=10000, help="samples to take")
    return parser.parse_args(arguments)


def main(args: Namespace) -> None:
    """Writes the samples."""
    dataset = ShardReader(args.in_root)
    count = args.num_examples_to_pick
    with MDSWriter(
        out=args.out_root,
        columns=COLUMNS,
        compression=args.compression,
        hashes=get_list_arg(args.hashes),
        size_limit=args.size_limit,
    ) as writer:
        for i in range(count):
            writer.write(dataset[i * len(dataset) // count])


if __name__ == "__main__":
    main(parse_args())
