"""WebVid with its videos in the shards, from its list as CSV. Videos that are not available are left out."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ....base.format import MDSWriter
from ._crawl import each_row, fetch_all

COLUMNS = {
    "videoid": "str",
    "name": "str",
    "page_idx": "str",
    "page_dir": "str",
    "duration": "int",
    "contentUrl": "str",
    "content": "bytes",
}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in", type=str, required=True, help="the list")
    parser.add_argument("--out_root", type=str, required=True, help="folder of the new data set")
    parser.add_argument("--num_procs", type=int, default=64, help="videos that are fetched at a time")
    parser.add_argument("--limit", type=int, default=-1, help="rows to take; -1: all")
    return parser.parse_args(arguments)


def main(args: Namespace) -> None:
    """Writes the data set."""
    rows = each_row(getattr(args, "in"), args.limit)
    with MDSWriter(out=args.out_root, columns=COLUMNS) as writer:
        for sample in fetch_all(rows, args.num_procs):
            writer.write(sample)


if __name__ == "__main__":
    main(parse_args())
