"""WebVid with its videos as files, from the data set with its videos in the shards."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from ....._shards import ShardReader
from ....base.format import MDSWriter
from ....base.util import get_list_arg

_FOLDER = 1000
"""Videos per folder."""

COLUMNS = {
    "videoid": "str",
    "name": "str",
    "page_idx": "str",
    "page_dir": "str",
    "duration": "int",
    "contentUrl": "str",
    "content_path": "str",
}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--in", type=str, required=True, help="folder of the data set with videos")
    parser.add_argument("--out_mds", type=str, required=True, help="folder of the new data set without videos")
    parser.add_argument("--out_mp4", type=str, required=True, help="folder of the videos")
    parser.add_argument("--compression", type=str, default="zstd:16", help='such as "zstd:7"; "": not compressed')
    parser.add_argument("--hashes", type=str, default="sha1,xxh3_64", help="hashes to record, comma-separated")
    parser.add_argument("--size_limit", type=int, default=1 << 25, help="largest raw shard, in bytes")
    return parser.parse_args(arguments)


def main(args: Namespace) -> None:
    """Writes the videos and the data set."""
    dataset = ShardReader(getattr(args, "in"))
    with MDSWriter(
        out=args.out_mds,
        columns=COLUMNS,
        compression=args.compression,
        hashes=get_list_arg(args.hashes),
        size_limit=args.size_limit,
    ) as writer:
        for i, sample in enumerate(dataset):
            sample["content_path"] = f"{i // _FOLDER:03}/{i % _FOLDER:03}.mp4"
            filename = os.path.join(args.out_mp4, sample["content_path"])
            os.makedirs(os.path.dirname(filename), exist_ok=True)
            with open(filename, "wb") as file:
                file.write(sample.pop("content"))
            writer.write(sample)


if __name__ == "__main__":
    main(parse_args())
