"""Sources of samples and their shares, and data sets of the library `datasets` that are already on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ._arguments import Count, address, by_name, checked, checks, none_or, path, quoted, shown, text, within
from ._choices import Grouping
from .errors import ConfigError
from ._groups import GROUPS, Fetch, Select, TokenWindow, elsewhere, given, group, moved, token_window


@by_name('local="folder" or remote="s3://bucket/set"', elsewhere, **moved("Stream", ("select", "window", "fetch")))
@dataclass(frozen=True, kw_only=True)
class Stream:
    """One folder of shards, remote, local or both, and its weight in the mix: `Stream(remote="s3://bucket/a", proportion=0.7)`.

    At most one of `proportion`, `repeat` and `choose` may be set, and either all streams of a loader have a proportion
    or none has. An option that is None has the loader's value.

    Args:
        remote: URL or path of the shards' folder, or files, such as `s3://bucket/train-{000..146}.tar` or a list. None: `local` has them.
        local: Folder that holds the shards, or will. None: a stable folder in the user's cache directory.
        split: Sub-folder of both, such as "train", or split of a folder of files without an index.
        files: Files that `remote` names are samples, whatever their extensions: "each", or "stem" for those that share a stem. Or the folder or pattern of each column below `remote`, such as {"image": "images", "mask": "masks"}: a sample has the files of one stem.
        manifest: CSV, TSV or JSON-lines file with a line for each sample: its files below `remote`, in columns such as `file_name` and `mask_file_name`, and values. Or annotations of COCO, `instances_train2017.json`.
        ignore_counts: Read tars and record files once to find their samples and all their fields, and use no counts that came with them.
        select: Samples to keep or draw.
        window: Tokens of a sample, in files of token ids, or a window of tokens. None: the loader's `window`.
        proportion: Share of an epoch, relative to the proportions of all streams.
        repeat: Occurrences of each sample in an epoch: 0.5 takes every second sample.
        choose: Samples of this stream in an epoch.
        fetch: Fetches of this stream's shards. None: as in the loader's `fetch`.
    """

    remote: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None
    local: str | os.PathLike[str] | None = None
    split: str | None = None
    files: Grouping | Mapping[str, str] | None = None
    manifest: str | os.PathLike[str] | None = None
    ignore_counts: bool = False
    select: Select | None = None
    window: Count | TokenWindow | None = None
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None
    fetch: Fetch | None = None

    def __repr__(self) -> str:
        # An address may have a password or a signature in it.
        return f"Stream({', '.join(f'{name}={shown(value)}' for name, value in vars(self).items())})"


def _files(name: str, value: Any) -> Any:
    """Checks the grouping of files, or the folder or pattern of each column."""
    if not isinstance(value, Mapping):
        return none_or(text, name, value)
    if not value or not all(isinstance(part, str) for part in (*value.keys(), *value.values())):
        raise ConfigError(f'{name} has the folder or pattern of each column, such as {{"image": "images"}}, but it is {shown(value)}')
    return dict(value)


_OWN = {"remote": address, "split": path, "files": _files, "manifest": path, "window": token_window}
_CHECKS = checks(Stream.__annotations__, without=_OWN.keys() | GROUPS.keys()) | _OWN


def config_of(stream: Stream, split: str | None = None, select: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Returns the engine's form of a stream; `split` and the options of `select` are the loader's, for options that are None here."""
    config = {name: value for name, value in vars(stream).items() if value is not None and name not in GROUPS}
    if split is not None:
        config.setdefault("split", split)
    if is_dataset_dict(stream.remote):
        # The split is taken here: all files are in one.
        config["remote"] = arrow_files(dataset_of(stream.remote, config.pop("split", None)))
    elif is_dataset(stream.remote):
        config["remote"] = arrow_files(stream.remote)
    config = checked(_CHECKS, config)
    own = given("select", stream.select)
    if "weights" in own or "balance" in own:
        select = {name: value for name, value in select.items() if name not in ("weights", "balance")}
    chosen = {**select, **own}
    if "fraction" not in chosen and "fraction_seed" not in own:
        chosen.pop("fraction_seed", None)
    if chosen:
        config["select"] = chosen
    if stream.fetch is not None:
        config["fetch"] = group("fetch", stream.fetch)
    return config


def configs_of(streams: Any, split: str | None, select: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the engine's form of `streams`."""
    if not isinstance(streams, Sequence) or not all(isinstance(stream, Stream) for stream in streams):
        raise ConfigError(f"streams is a list of forebay.Stream, such as [Stream(remote=...)], but it is {shown(streams)}")
    configs = []
    for index, stream in enumerate(streams):
        with within(f"streams[{index}]"):
            configs.append(config_of(stream, split, select))
    return configs


# Changes in memory after which the files still have the rows and the columns that remain.
_HARMLESS = {"replace_schema_metadata", "select", "drop", "remove_column"}


def is_dataset(value: Any) -> bool:
    """Returns True for a `datasets.Dataset`."""
    return hasattr(value, "cache_files") and hasattr(value, "flatten_indices")


def is_dataset_dict(value: Any) -> bool:
    """Returns True for a `datasets.DatasetDict`."""
    return isinstance(value, Mapping) and len(value) > 0 and all(map(is_dataset, value.values()))


def dataset_of(datasets: Mapping[str, Any], split: str | None) -> Any:
    """Returns the split of a `datasets.DatasetDict`, or its only one.

    Raises:
        ConfigError: There is no such split, or more than one to choose from.
    """
    if split is None and len(datasets) == 1:
        return next(iter(datasets.values()))
    if split not in datasets:
        known = ", ".join(datasets)
        has = "has more than one split" if split is None else f"has no split {split!r}"
        raise ConfigError(f'the datasets.DatasetDict {has}; there are {known}: choose one, as in split="{next(iter(datasets))}"')
    return datasets[split]


def arrow_files(dataset: Any) -> str:
    """Returns the files of a `datasets.Dataset` as a `remote`.

    Raises:
        ConfigError: Its rows are not the rows of its files.
    """
    if dataset._indices is not None:
        raise ConfigError(
            "the rows of the datasets.Dataset are selected or in a different order: pass dataset.flatten_indices(), or pass the "
            "whole data set with shuffle=True"
        )
    table = dataset.data
    files = []
    for blocks in getattr(table, "blocks", [[table]]):
        path = getattr(blocks[0], "path", None)
        if len(blocks) > 1 or path is None:
            raise _changed("is in memory, or has columns of several files")
        changes = {name for name, *_ in blocks[0].replays} - _HARMLESS
        if changes:
            raise _changed(f"was changed after its files were written ({', '.join(sorted(changes))})")
        files.append(path)
    if not files:
        raise ConfigError("the datasets.Dataset has no files, because it is empty: pass one with rows")
    return "::".join(map(quoted, files))


def _changed(how: str) -> ConfigError:
    return ConfigError(f"the datasets.Dataset {how}: write it with dataset.save_to_disk(folder), and pass the folder")
