"""LAION-400M from the Parquet files of img2dataset, which may still be running.

A file NNNNN.parquet is complete when NNNNN_stats.json exists. It becomes one shard, which is uploaded. When a file
`done` exists too, all files are complete, and the index is made and uploaded.
"""

from __future__ import annotations

import json
import math
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from .....base.format import MDSWriter
from .....base.storage import CloudUploader
from .....base.util import get_list_arg

_TEXTS = ("NSFW", "LICENSE", "caption", "url", "key", "status", "error_message", "exif")
_NUMBERS = ("width", "height", "original_width", "original_height")
COLUMNS = {
    **{name.lower(): "str" for name in _TEXTS},
    **dict.fromkeys(_NUMBERS, "int32"),
    "similarity": "float64",
    "jpg": "bytes",
}


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Parses the arguments of the program."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--local", type=str, required=True, help="folder of the Parquet files")
    parser.add_argument("--remote", type=str, required=True, help="target of shards and index")
    parser.add_argument("--keep_parquet", type=int, default=1, help="keep Parquet files, 0 or 1")
    parser.add_argument("--keep_mds", type=int, default=1, help="keep shards after their upload, 0 or 1")
    parser.add_argument("--hashes", type=str, default="sha1,xxh64", help="hashes to record, comma-separated")
    parser.add_argument("--poll_interval", type=float, default=30, help="polling interval in seconds")
    return parser.parse_args(arguments)


def each_downloaded_shard(local: str) -> Iterator[int]:
    """Yields the numbers of the complete files.

    Raises:
        RuntimeError: A file before the last one is missing.
    """
    count = sum(name.endswith("_stats.json") for name in os.listdir(local))
    for number in range(count):
        if not os.path.exists(os.path.join(local, f"{number:05}_stats.json")):
            raise RuntimeError(f"Stats file is missing: {number:05}_stats.json of {count}")
        yield number


def _sample(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a row to a sample. Values that are missing after a failed download are empty or 0."""

    def number(value: float | None) -> int:
        return 0 if value is None or math.isnan(value) else int(value)

    return {
        **{name.lower(): row[name] or "" for name in _TEXTS},
        **{name: number(row[name]) for name in _NUMBERS},
        "similarity": row["similarity"],
        "jpg": row["jpg"] or b"",
    }


def convert(parquet: str, folder: str, hashes: list[str]) -> None:
    """Writes a Parquet file as a data set of one shard, uncompressed because JPEG does not get smaller."""
    from pyarrow.parquet import ParquetFile

    with MDSWriter(out=folder, columns=COLUMNS, hashes=hashes, size_limit=None) as writer:
        with ParquetFile(parquet) as file:
            for batch in file.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    writer.write(_sample(row))


def convert_and_upload_shards(arguments: Namespace) -> bool:
    """Writes and uploads the complete files that are not done yet; returns true if all files are done."""
    # Checked first, so that files that were completed before it are found below.
    is_last = os.path.exists(os.path.join(arguments.local, "done"))
    for number in each_downloaded_shard(arguments.local):
        done = os.path.join(arguments.local, f"{number:05}.done")
        if os.path.exists(done):
            continue
        parquet = os.path.join(arguments.local, f"{number:05}.parquet")
        folder = os.path.join(arguments.local, f"{number:05}.mds")
        shard = f"shard.{number:05}.mds"
        if not os.path.exists(os.path.join(folder, "index.json")):
            convert(parquet, folder, get_list_arg(arguments.hashes))
        if not os.path.exists(os.path.join(folder, shard)):
            os.rename(os.path.join(folder, "shard.00000.mds"), os.path.join(folder, shard))
        _upload(arguments, folder, shard, keep_local=bool(arguments.keep_mds))
        with open(done, "w", encoding="utf-8"):
            pass
        if not arguments.keep_parquet:
            os.remove(parquet)
        print(f"Shard {number:05}: done")
    return is_last


def collect_and_upload_index(arguments: Namespace) -> None:
    """Writes and uploads the index of all shards."""
    shards = []
    for number in each_downloaded_shard(arguments.local):
        with open(os.path.join(arguments.local, f"{number:05}.mds", "index.json"), encoding="utf-8") as file:
            (shard,) = json.load(file)["shards"]
        shard["raw_data"]["basename"] = f"shard.{number:05}.mds"
        shards.append(shard)
    with open(os.path.join(arguments.local, "index.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 2, "shards": shards}, file)
    _upload(arguments, arguments.local, "index.json", keep_local=True)


def _upload(arguments: Namespace, folder: str, name: str, keep_local: bool) -> None:
    CloudUploader.get((folder, arguments.remote), keep_local=keep_local, exist_ok=True).upload_file(name)


def main(args: Namespace) -> None:
    """Writes and uploads all files, and waits for files that are not complete yet."""
    while not convert_and_upload_shards(args):
        time.sleep(args.poll_interval)
    collect_and_upload_index(args)


if __name__ == "__main__":
    main(parse_args())
