"""Checks of the arguments of adapters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .._arguments import shown
from ..errors import ConfigError
from .._loader import Loader

_OF_THE_LOADER = {
    "collate_fn": "transform",
    "multiprocessing_context": "map",
    "num_workers": "threads",
    "persistent_workers": "threads",
    "pin_memory": "device",
    "prefetch_factor": "engine=Engine(prefetch=...)",
    "timeout": "engine=Engine(stall_timeout=...)",
    "worker_init_fn": "map",
    "workers": "threads",
}
"""Arguments of torch's DataLoader and Keras's PyDataset that a loader has under a different name, or in a group."""


def one_device(owner: str, loader: Any) -> None:
    """Raises ConfigError unless `loader` is a Loader with one device; `owner` is the adapter."""
    if not isinstance(loader, Loader):
        found = shown(loader) if loader is None or isinstance(loader, str) else f"a {type(loader).__name__}"
        raise ConfigError(f"{owner} takes a forebay.Loader, such as {owner}(forebay.Loader(remote=..., batch_size=...)), but this is {found}")
    if not loader.adapter.has_one_device:
        raise ConfigError(f'{owner} has one batch per step, but device is a list: pass a name, such as device="cuda:0"')


def refuse(owner: str, arguments: Mapping[str, Any]) -> None:
    """Raises ConfigError if there are arguments that an adapter does not have."""
    for name in arguments:
        own, _, value = _OF_THE_LOADER.get(name, name).partition("=")
        if own in inspect.signature(Loader).parameters:
            call = f"forebay.Loader(..., {own}={value or '...'})"
            raise ConfigError(f"{owner} has no argument {name}, because the loader makes the batches: pass {call}")
        raise ConfigError(f"{owner} has no argument {name}: the order and the batches are the loader's, see help(forebay.Loader)")
