"""Samples of a step by name, and the file of a run that names them later."""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from . import _forebay
from ._forebay import __version__, redact
from ._arguments import anywhere, readable
from ._choices import Stats
from .errors import ConfigError
from .remotes import library_stores
from ._shards import EngineReader

_ON_DEVICES = ("device_decode", "share_decode", "gpu_direct_storage")
"""Options that need a device, which a run that only names samples does without."""

_OF_STORES = ("cache_limit", "fetch")
"""Options with which the samples of a run are read, besides the engine's `ca_file`."""


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


class Run:
    """A run, from the file of `Loader.save_run`: its plan without its data.

    Args:
        path: The file.
        remote: Addresses of the data of each stream, if they are not the ones in the file, such as ones with a signature.

    Raises:
        ConfigError: The file does not belong to a run, or there is not an address for each stream.
        StateError: The data has changed since.
    """

    def __init__(self, path: str | os.PathLike[str], remote: Sequence[str] | None = None) -> None:
        document = read_run(path)
        config = dict(document["config"])
        config["fields"] = _each_tokenizer(config.get("fields"), _unpacked)
        streams = config["streams"]
        if remote is not None and len(remote) != len(streams):
            raise ConfigError(
                f"the run has {len(streams)} streams, and there are {len(remote)} addresses: write --remote once for each stream, "
                "in their order"
            )
        addresses: Sequence[str | None] = [None] * len(streams) if remote is None else remote
        config["streams"] = [_with_remote(stream, address) for stream, address in zip(streams, addresses, strict=True)]
        config["engine"] |= dict.fromkeys(_ON_DEVICES, False)
        self.ranks: int = config["world"]["world_size"]
        options = {name: config.get(name) for name in _OF_STORES} | {"engine": {"ca_file": config["engine"].get("ca_file")}}
        self._streams = [options | {"streams": [stream], "batch_size": 1} for stream in config["streams"]]
        self.engine = _forebay.Engine(json.dumps(config), "cpu", library_stores(*(s.get("remote") for s in config["streams"])))
        self.engine.load_state_dict(json.dumps(document["state"]), True)

    @staticmethod
    def save(path: str | os.PathLike[str], config: dict[str, Any], state: dict[str, Any], stats: Stats) -> None:
        """Writes the file of a run of the engine's `config`, without secrets, and with its process and figures for `forebay top`."""
        streams = [s | {"remote": redact(s["remote"])} if s.get("remote") else s for s in config["streams"]]
        rank, world = config["world"]["rank"], config["world"] | {"rank": 0, "local_rank": 0}
        config = config | {"streams": streams, "world": world, "fields": _each_tokenizer(config.get("fields"), _packed)}
        process = {"host": os.uname().nodename, "pid": os.getpid(), "rank": rank}
        document = {"forebay": __version__, "process": process, "config": config, "state": state, "stats": stats}
        # A reader finds the old file or the new one.
        new = f"{os.fspath(path)}.{os.getpid()}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
        os.replace(new, path)

    def samples_of(self, step: int, ranks: Iterable[int] | None = None) -> list[Sample]:
        """Returns the samples of step number `step`, of all ranks or of `ranks`."""
        return of_engine(self.engine, *self.place_of(step), range(self.ranks) if ranks is None else ranks)

    def place_of(self, step: int) -> tuple[int, int]:
        """Returns the epoch of a step and the batch in it."""
        return self.engine.place_of_step(step)

    def with_keys(self, samples: Sequence[Sample]) -> list[Sample]:
        """Returns `samples`, and samples of tars with their keys. Tars that are not on this machine are fetched into the run's folders."""
        readers: dict[int, EngineReader] = {}

        def named(sample: Sample) -> Sample:
            if sample.key is not None or not sample.file.lower().endswith(".tar"):
                return sample
            if sample.stream not in readers:
                readers[sample.stream] = EngineReader(self._streams[sample.stream])
            columns = readers[sample.stream].columns(sample.number)
            return sample._replace(key=next((value for name, _, value in columns if name == "__key__"), None))

        return [named(sample) for sample in samples]


_PACKED = "zlib,base64:"
"""Start of a packed tokenizer: neither a tokenizer.json nor a file of ranks begins with it."""


def _each_tokenizer(fields: list[Any] | None, change: Callable[[str], str]) -> list[Any] | None:
    """Returns the engine's form of fields with changed contents of tokenizers."""
    if fields is None:
        return None

    def changed(spec: dict[str, Any]) -> dict[str, Any]:
        inner = {"fields": _each_tokenizer(spec["fields"], change)} if "fields" in spec else {}
        own = {"tokenizer": change(spec["tokenizer"])} if "tokenizer" in spec else {}
        return spec | inner | own

    return [[name, changed(spec)] for name, spec in fields]


def _are_fields(fields: Any) -> bool:
    """True for the engine's form of fields."""
    if fields is None or not isinstance(fields, list):
        return fields is None
    specs = [pair[1] if isinstance(pair, list) and len(pair) == 2 else None for pair in fields]
    return all(isinstance(spec, dict) and isinstance(spec.get("tokenizer", ""), str) and _are_fields(spec.get("fields")) for spec in specs)


def _packed(contents: str) -> str:
    """Packs the contents of a tokenizer. The run's file has them, because a path or a hash does not bring back a file that has changed."""
    return _PACKED + base64.b64encode(zlib.compress(contents.encode(), 9)).decode()


def _unpacked(packed: str) -> str:
    """Returns the contents of a packed tokenizer, or of one from before they were packed."""
    if not packed.startswith(_PACKED):
        return packed
    try:
        return zlib.decompress(base64.b64decode(packed.removeprefix(_PACKED))).decode()
    except (ValueError, zlib.error) as error:
        raise ConfigError(f"the tokenizer in the file of the run is damaged: {error}") from None


def read_run(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the contents of the file of a run, without a look at its data."""
    wrong = f"{os.fspath(path)} is not the file of a run, which Loader.save_run writes"
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise ConfigError(f"{wrong}: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{wrong}: it is not JSON") from None
    try:
        is_run = all(isinstance(document[name], dict) for name in ("config", "state"))
        is_run = is_run and all(isinstance(stream, dict) for stream in document["config"]["streams"])
        is_run = is_run and isinstance(document["config"]["world"]["world_size"], int)
        is_run = is_run and all(isinstance(document["config"][name], dict) for name in ("engine", "fetch"))
        is_run = is_run and _are_fields(document["config"].get("fields"))
    except (KeyError, TypeError):
        is_run = False
    if not is_run:
        keys = f"with the keys {', '.join(list(document)[:5])}" if isinstance(document, dict) else "of a different kind"
        raise ConfigError(f"{wrong}: it is a document {keys}")
    return document


def _with_remote(stream: dict[str, Any], remote: str | None) -> dict[str, Any]:
    """Returns a stream that is read on this machine, which may not have the folder of the run's machines."""
    stream = stream | ({"remote": remote} if remote is not None else {})
    local = stream.get("local")
    is_elsewhere = local is not None and stream.get("remote") and not os.path.exists(local)
    return {name: value for name, value in stream.items() if not (is_elsewhere and name == "local")}
