"""Data sets of WebVid's videos, one for each of some words in the sentence, to be mixed as streams."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import ExitStack

from ....base.format import MDSWriter
from ....base.util import get_list_arg
from ._crawl import each_row, fetch_all

COLUMNS = {
    "videoid": "str",
    "name": "str",
    "page_dir": "str",
    "duration": "int",
    "contentUrl": "str",
    "content": "bytes",
}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=str, required=True, help="the list")
    parser.add_argument("--filters", type=str, default="plane,train,automobile,cat,dog", help="words, comma-separated")
    parser.add_argument("--mds_root", type=str, required=True, help="folder of the data sets' folders")
    parser.add_argument("--num_procs", type=int, default=64, help="videos that are fetched at a time")
    parser.add_argument("--limit", type=int, default=-1, help="videos to take; -1: all")
    return parser.parse_args(arguments)


def main(args: Namespace) -> None:
    """Writes a data set for each word; a video with several words is in several data sets."""
    words = get_list_arg(args.filters)
    rows = (row for row in each_row(args.csv) if any(word in row["name"].lower().split() for word in words))
    if args.limit >= 0:
        rows = (row for row, _ in zip(rows, range(args.limit)))
    with ExitStack() as stack:
        writers = {
            word: stack.enter_context(MDSWriter(out=os.path.join(args.mds_root, word), columns=COLUMNS))
            for word in words
        }
        for sample in fetch_all(rows, args.num_procs):
            for word in words:
                if word in sample["name"].lower().split():
                    writers[word].write(sample)


if __name__ == "__main__":
    main(parse_args())
