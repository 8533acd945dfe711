"""Checks of the arguments of adapters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from .._arguments import shown
from ..errors import ConfigError
from .._loader import Loader


def one_device(owner: str, loader: Any) -> None:
    """Raises ConfigError unless `loader` is a Loader with one device; `owner` is the adapter."""
    if not isinstance(loader, Loader):
        found = shown(loader) if loader is None or isinstance(loader, str) else f"a {type(loader).__name__}"
        raise ConfigError(f"{owner} takes a forebay.Loader, such as {owner}(forebay.Loader(remote=..., batch_size=...)), but this is {found}")
    if not loader.adapter.has_one_device:
        raise ConfigError(f'{owner} has one batch per step, but device is a list: pass a name, such as device="cuda:0"')


def refuse(owner: str, arguments: Mapping[str, Any]) -> None:
    """Raises ConfigError if there are arguments that an adapter does not have, with the advice of the loader's own error."""
    for name in arguments:
        advice = f"pass forebay.Loader(..., {name}=...)"
        if name not in inspect.signature(Loader).parameters:
            try:
                Loader(**{name: None})
            except TypeError as error:
                advice = str(error)
        raise ConfigError(f"{owner} has no argument {name}, because the loader makes the batches: {advice}")
