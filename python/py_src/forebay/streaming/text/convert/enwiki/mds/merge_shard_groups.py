"""Merges the data sets of `make_train_parallel`. Their shards are moved and their folders removed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ....._convert import merge_shard_groups


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the data sets' folders")
    parser.add_argument("--out_root", type=str, required=True, help="folder of the merged data set")
    return parser.parse_args(arguments)


def main(args: Namespace) -> None:
    """Moves the shards and writes their index."""
    merge_shard_groups(args.in_root, args.out_root)


if __name__ == "__main__":
    main(parse_args())
