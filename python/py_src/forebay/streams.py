"""Sources of samples and their shares."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .arguments import Count, Seconds, address, by_name, checked, checks, path, shown, within
from .arrow_data import arrow_files, is_dataset
from .choices import Grouping, Hash
from .errors import ConfigError
from .selections import Fraction, SampleValues, Subset, fraction, sample_values, subset

__all__ = ["Stream", "configs_of"]


@by_name('local="folder" or remote="s3://bucket/set"')
@dataclass(frozen=True, kw_only=True)
class Stream:
    """One folder of shards, remote, local or both, and its weight in the mix.

    At most one of `proportion`, `repeat` and `choose` may be set, and either all streams of a loader have a proportion
    or none has. An option that is None has the loader's value.

    `subset`, `fraction` and `filter` choose samples before the weights count, and all hold together. Two numbers name a fraction,
    and not a word such as "train": `split` is a folder that the data set has, and the bounds alone give the size of a
    part, so (0, 0.8), (0.8, 0.9) and (0.9, 1) make three parts, and (k/5, (k+1)/5) five folds. Sizes are exact. Membership
    follows from the seed, the sample's number in the stream and the stream's length, and from nothing else.

    With `weights` or `balance` the stream's part of an epoch is drawn with replacement among the samples that are kept, each
    with a probability in proportion to its weight. An array has a number for every sample, kept or not.

    Args:
        remote: URL or path of the shards' folder, or files, such as `s3://bucket/train-{000..146}.tar`. None: `local` has them.
        local: Folder that holds the shards, or will. None: a stable folder in the user's cache directory.
        split: Sub-folder of both, such as "train", or split of a folder of files without an index.
        files: Files that `remote` names are samples, whatever their extensions: "each", or "stem" for those that share a stem.
        manifest: CSV, TSV or JSON-lines file with a line for each sample: its files below `remote`, in columns such as `file_name` and `mask_file_name`, and values.
        ignore_counts: Read tars and record files once to find their samples and all their fields, in place of counts of other programs.
        subset: Samples to keep, by number: text such as "0:1000, 5000:6000", a list of numbers, or a file of them.
        fraction: Seeded part to keep, such as (0, 0.9) and (0.9, 1): neighbouring parts share no sample and miss none.
        fraction_seed: Seed of `fraction`. None: 0.
        filter: Condition on number and text columns of the samples to keep, such as `class < 100 and name != "unknown"`.
        weights: Weight of each sample, to draw with replacement: a number column, an array of numbers, or its `.npy` file.
        balance: Column of the classes that an epoch draws equally often, with replacement.
        proportion: Share of an epoch, relative to the other streams' proportions.
        repeat: Occurrences of each sample in an epoch: 0.5 takes every second sample.
        choose: Samples of this stream in an epoch.
        download_retry: Total attempts per download.
        download_timeout: Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        validate_hash: Hash that must match when a shard is downloaded or unpacked, such as "xxh64".
        keep_zip: Keep compressed shards next to the unpacked ones.
        window: Tokens of a sample, in files of token ids. None: a sample is a document.
        window_stride: Tokens from the start of a window to the start of the next one. None: `window`.
    """

    remote: str | os.PathLike[str] | None = None
    local: str | os.PathLike[str] | None = None
    split: str | None = None
    files: Grouping | None = None
    manifest: str | os.PathLike[str] | None = None
    ignore_counts: bool = False
    subset: Subset | None = None
    fraction: Fraction | None = None
    fraction_seed: int | None = None
    filter: str | None = None
    weights: SampleValues | None = None
    balance: str | None = None
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None
    download_retry: Count | None = None
    download_timeout: Seconds | None = None
    validate_hash: Hash | None = None
    keep_zip: bool | None = None
    window: Count | None = None
    window_stride: Count | None = None

    def __repr__(self) -> str:
        # An address may have a password or a signature in it.
        return f"Stream({', '.join(f'{name}={shown(value)}' for name, value in vars(self).items())})"

    def _config(self, **defaults: Any) -> dict[str, Any]:
        """Returns the engine's form; `defaults` are the loader's values of options that are None here."""
        config = {name: value for name, value in vars(self).items() if value is not None}
        if is_dataset(self.remote):
            config["remote"] = arrow_files(self.remote)
        defaults = {name: value for name, value in defaults.items() if value is not None}
        if "weights" in config or "balance" in config:
            defaults = {name: value for name, value in defaults.items() if name not in ("weights", "balance")}
        if "fraction" not in defaults | config:
            defaults.pop("fraction_seed", None)
        return checked(_CHECKS, defaults | config)


_OWN = {"remote": address, "split": path, "manifest": path}
_OWN |= {"subset": subset, "fraction": fraction, "weights": sample_values}
_CHECKS = checks(Stream.__annotations__, without=_OWN) | _OWN


def configs_of(streams: Any, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the engine's form of `streams`."""
    if not isinstance(streams, Sequence) or not all(isinstance(stream, Stream) for stream in streams):
        raise ConfigError(f"streams is a list of forebay.Stream, such as [Stream(remote=...)], but it is {shown(streams)}")
    configs = []
    for place, stream in enumerate(streams):
        with within(f"streams[{place}]"):
            configs.append(stream._config(**defaults))
    return configs
