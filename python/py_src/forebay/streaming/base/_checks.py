"""Checks of a data set's arguments and folders, with the reference's messages where it has one.

A `dataset` is a `StreamingDataset`. Its module imports this one.
"""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from typing import Any

from ..._forebay import redact
from ._own_shards import folder
from .batching import batching_methods
from .format import get_index_basename
from .partition import algos as partition_algos
from .shuffle import algos as shuffle_algos
from .stream import Stream

# Tries of a garbage collection, a hundredth of a second apart.
_COLLECTIONS_MAX = 100

# Data sets of this process.
alive: weakref.WeakSet[Any] = weakref.WeakSet()


def check_arguments(dataset: Any) -> None:
    """Checks what the reference's constructor checks first."""
    _require(
        dataset.predownload is None or dataset.batch_size is None or dataset.predownload >= dataset.batch_size,
        f"predownload < batch_size ({dataset.predownload} < {dataset.batch_size}). This may result in slower batch time. "
        "Recommendation is to set predownload to at-least batch_size.",
        UserWarning,
    )
    _require(
        dataset.sampling_method in ("balanced", "fixed"),
        f"Invalid sampling method: {dataset.sampling_method}. Must be one of `balanced` or `fixed`.",
    )
    _require(
        dataset.sampling_granularity > 0,
        f"`sampling_granularity` must be a positive integer, but got {dataset.sampling_granularity}.",
    )
    _require(
        dataset.batching_method in batching_methods,
        f"Invalid batching method: {dataset.batching_method}. Must be one of {', '.join(batching_methods)}.",
    )
    _require(dataset.shuffle_seed >= 0, f"`shuffle_seed` must be non-negative, but got {dataset.shuffle_seed}.")


def check_order(dataset: Any) -> None:
    """Checks the arguments of the order. Called late, because programs set these attributes."""
    if not isinstance(dataset.batch_size, int):
        raise ValueError(
            "Please pass `batch_size` to StreamingDataset, the same as to the DataLoader: samples per batch and device. "
            "It determines the samples of each rank and worker"
        )
    # The reference's error for an unknown name is a KeyError.
    partition_algos[dataset.partition_algo]
    if dataset.shuffle:
        shuffle_algos[dataset.shuffle_algo]


def check_cache_limit(dataset: Any) -> None:
    """Checks that the indexes and a few shards fit."""
    limit = dataset._division.cache_limit
    if limit is None:
        return
    index_bytes = sum(stream.get_index_size() for stream in dataset.streams)
    _require(
        limit > index_bytes,
        f"Minimum cache usage ({index_bytes} bytes) of the indexes is larger than the cache limit ({limit} "
        "bytes). Raise `cache_limit`, by far if you can: evicted shards are fetched again.",
    )
    largest = max(part.max_size() for part in dataset._division.parts)
    dataset.max_shard_size_across_all_streams = largest
    _require(
        limit >= 4 * largest,
        f"Cache limit ({limit} bytes) is too low. Increase the `cache_limit` to at-least four times the "
        f"largest shard, which takes {largest} bytes raw and compressed, and by far if you can: evicted shards "
        "are fetched again.",
    )


def check_remotes(streams: Sequence[Stream]) -> None:
    """Checks that no data set of this process has filled one of the folders from a different remote: its index and
    shards would be read instead of the index and shards of this data set."""
    remotes = {os.path.abspath(folder(stream)): stream.remote for stream in streams if stream.remote is not None}
    for other in _others_with(set(remotes)):
        for stream in other.streams:
            path = os.path.abspath(folder(stream))
            ours = remotes.get(path, stream.remote)
            if stream.remote not in (None, ours) and os.path.exists(os.path.join(path, get_index_basename())):
                theirs, mine = redact(stream.remote), redact(ours)
                raise ValueError(
                    f"Reused local directory: {path} has the shards of {theirs}, and not of {mine}. Provide "
                    "a different one, or delete it first."
                )


def check_folders(dataset: Any) -> None:
    """Checks that no second data set of this process is about to use the same folder. Other processes may, and so may
    a data set that has been read, as in the reference."""
    ours = [os.path.abspath(folder(stream)) for stream in dataset.streams]
    filled = {folder for folder, stream in zip(ours, dataset.streams) if stream.remote is not None}
    if len(filled) < sum(stream.remote is not None for stream in dataset.streams):
        raise ValueError(f"Reused local directory: {ours}. Provide a different one.")

    for other in _others_with(filled):
        if not other._has_been_read():
            theirs = [os.path.abspath(folder(stream)) for stream in other.streams]
            raise ValueError(f"Reused local directory: {ours} vs {theirs}. Provide a different one.")


def _others_with(folders: set[str]) -> list[Any]:
    """Returns the data sets of this process that use one of the folders."""

    def found() -> list[Any]:
        return [other for other in alive if folders & {os.path.abspath(folder(stream)) for stream in other.streams}]

    if found():
        # Not one that is garbage in a reference cycle.
        _collect_garbage()
    return found()


def _collect_garbage() -> None:
    """Runs a full garbage collection. `gc.collect` alone does nothing while a second thread collects."""
    has_run = False

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal has_run
        has_run = has_run or phase == "stop" and info["generation"] == 2 and threading.get_ident() == thread

    thread = threading.get_ident()
    gc.callbacks.append(note)
    try:
        for _ in range(_COLLECTIONS_MAX):
            gc.collect()
            if has_run:
                return
            time.sleep(0.01)
    finally:
        gc.callbacks.remove(note)


def _require(condition: bool, message: str, category: type[Warning] | None = None) -> None:
    """Raises, or warns if there is a category, unless `condition` holds."""
    if condition:
        return
    if category is None:
        raise ValueError(message)
    warnings.warn(message, category, stacklevel=4)
