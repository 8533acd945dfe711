"""Common parts of the converters: arguments, writer, progress."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from glob import glob
from typing import Any, TypeVar

from .base.format import MDSWriter
from .base.util import get_list_arg

__all__ = ["make_parser", "make_writer", "merge_shard_groups", "show_progress"]

T = TypeVar("T")


def make_parser(description: str, size_limit: int, compression: str = "", progress: bool = True) -> ArgumentParser:
    """Makes a parser of the arguments of every converter.

    Args:
        description: Description of the converter.
        size_limit: Default of the largest raw shard, in bytes.
        compression: Default compression of shards. "": none.
        progress: True if the converter can show its progress.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument("--out_root", type=str, required=True, help="folder of the new data set")
    parser.add_argument("--compression", type=str, default=compression, help='such as "zstd:7"; "": not compressed')
    parser.add_argument("--hashes", type=str, default="sha1,xxh64", help="hashes to record, comma-separated")
    parser.add_argument("--size_limit", type=int, default=size_limit, help="largest raw shard, in bytes")
    if progress:
        parser.add_argument("--progress_bar", type=int, default=1, help="show progress, 0 or 1")
        parser.add_argument("--leave", type=int, default=0, help="keep the progress bar at the end, 0 or 1")
    return parser


def make_writer(arguments: Namespace, split: str, columns: dict[str, str]) -> MDSWriter:
    """Makes the writer of a split from the arguments."""
    return MDSWriter(
        out=os.path.join(arguments.out_root, split),
        columns=columns,
        compression=arguments.compression,
        hashes=get_list_arg(arguments.hashes),
        size_limit=arguments.size_limit,
        progress_bar=bool(getattr(arguments, "progress_bar", False)),
    )


def show_progress(arguments: Namespace, items: Iterable[T], total: int | None = None) -> Iterable[T]:
    """Returns `items` with a progress bar, if the arguments enable one."""
    if not arguments.progress_bar:
        return items
    from tqdm import tqdm

    bar: Any = tqdm(items, total=total, leave=bool(arguments.leave))
    return bar


def merge_shard_groups(in_root: str, out_root: str) -> None:
    """Makes one data set of the data sets in the folders of `in_root`: renumbers and moves shards, removes the folders.

    Unlike with `merge_index`, no folders remain: every shard is in `out_root`, which may be `in_root` itself.
    """
    os.makedirs(out_root, exist_ok=True)
    shards = []
    for folder in sorted(glob(os.path.join(in_root, "*", ""))):
        index = os.path.join(folder, "index.json")
        with open(index, encoding="utf-8") as file:
            for shard in json.load(file)["shards"]:
                for info in filter(None, (shard["raw_data"], shard["zip_data"])):
                    old = os.path.join(folder, info["basename"])
                    prefix, _, rest = info["basename"].split(".", 2)
                    info["basename"] = f"{prefix}.{len(shards):05}.{rest}"
                    # With compression only the compressed file exists.
                    if os.path.exists(old):
                        os.rename(old, os.path.join(out_root, info["basename"]))
                shards.append(shard)
        os.remove(index)
        os.rmdir(folder)
    with open(os.path.join(out_root, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 2, "shards": shards}, file, sort_keys=True)
