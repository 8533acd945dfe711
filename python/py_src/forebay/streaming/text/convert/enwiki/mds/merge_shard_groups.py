"""One data set of those that `make_train_parallel` wrote. Their shards are moved, and their folders go."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ....._convert import merge_shard_groups


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """The program's arguments."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in_root", type=str, required=True, help="folder of the data sets' folders")
    parser.add_argument("--out_root", type=str, required=True, help="folder that the one data set goes to")
    return parser.parse_args(arguments)


def main(arguments: Namespace) -> None:
    """Moves the shards and writes their index."""
    merge_shard_groups(arguments.in_root, arguments.out_root)


if __name__ == "__main__":
    main(parse_args())
