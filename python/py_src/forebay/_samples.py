"""Samples of a step by name, and the file of a run, by which the command names them later."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _forebay
from ._forebay import __version__, redact
from ._arguments import anywhere, readable
from ._choices import Stats


@readable
class Sample(NamedTuple):
    """Sample of a batch.

    Attributes:
        stream: Stream, from 0.
        shard: Shard of the stream, from 0. With `stream` and `index` a row of the output `sample_ids`.
        index: Index in the shard.
        number: Number in the stream, as in `subset`.
        file: File of the sample, below the stream's folder: its first one, if it is files, else the file of its shard or table.
        key: Path of the sample's first file, if it is files. A tar has the keys of its samples itself: `forebay which --keys`.
        rank: Rank that gets it.
        row: Row of that rank's batch, if no sample before it was skipped.
        repeat: True if the row only makes ranks equally long.
        row_group: Row group of a Parquet file or batch of an Arrow file, from 0, if the sample is a row of a table.
        row_in_group: Row in that group, from 0.
        offset: First token in the pack, which is the row, if documents are packed.
        first_token: First token in the document.
        tokens: Tokens of the document in the pack.
    """

    stream: int
    shard: int
    index: int
    number: int
    file: str
    key: str | None
    rank: int
    row: int
    repeat: bool
    row_group: int | None = None
    row_in_group: int | None = None
    offset: int | None = None
    first_token: int | None = None
    tokens: int | None = None


def of_engine(engine: _forebay.Engine, epoch: int, batch: int, ranks: Iterable[int]) -> list[Sample]:
    """Returns the samples of `ranks` in a batch."""
    samples = []
    for rank in ranks:
        rows = json.loads(engine.samples_of(epoch, batch, rank))
        samples += [Sample(rank=rank, row=sample.pop("pack", row), **sample) for row, sample in enumerate(rows)]
    return samples


def in_any_folder(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the engine's `config` of a loader with whole paths: its run may be named in a different working directory."""

    def whole(config: dict[str, Any], name: str) -> dict[str, Any]:
        return config | {name: anywhere(config[name])} if config.get(name) else config

    def absolute(config: dict[str, Any], name: str) -> dict[str, Any]:
        return config | {name: os.path.abspath(config[name])} if config.get(name) else config

    streams = [absolute(whole(stream, "remote"), "local") for stream in config["streams"]]
    return config | {"streams": streams, "engine": absolute(config["engine"], "ca_file")}


def save_run(path: str | os.PathLike[str], config: dict[str, Any], state: dict[str, Any], stats: Stats) -> None:
    """Writes the file of a run of the engine's `config`, without secrets, and with its process and figures for `forebay top`."""
    streams = [s | {"remote": redact(s["remote"])} if s.get("remote") else s for s in config["streams"]]
    rank, world = config["world"]["rank"], config["world"] | {"rank": 0, "local_rank": 0}
    config = config | {"streams": streams, "world": world, "fields": _with_packed_tokenizers(config.get("fields"))}
    process = {"host": os.uname().nodename, "pid": os.getpid(), "rank": rank}
    document = {"forebay": __version__, "process": process, "config": config, "state": state, "stats": stats}
    # A reader finds the old file or the new one.
    new = f"{os.fspath(path)}.{os.getpid()}.new"
    with open(new, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
    os.replace(new, path)


def _with_packed_tokenizers(fields: list[Any] | None) -> list[Any] | None:
    """Returns the engine's form of fields with packed tokenizers, as `forebay which`, `diff` and `preview` unpack them.

    The run's file has them, because a path or a hash does not bring back a file that has changed.
    """
    if fields is None:
        return None

    def packed(spec: dict[str, Any]) -> dict[str, Any]:
        inner = {"fields": _with_packed_tokenizers(spec["fields"])} if "fields" in spec else {}
        if "tokenizer" in spec:
            inner["tokenizer"] = "zlib,base64:" + base64.b64encode(zlib.compress(spec["tokenizer"].encode(), 9)).decode()
        return spec | inner

    return [[name, packed(spec)] for name, spec in fields]
