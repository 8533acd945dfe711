"""Devices of a process, each a rank."""

from __future__ import annotations

import sys
from typing import Any

from .errors import ConfigError
from ._world import World


def names_of(devices: list[Any]) -> list[str]:
    """Returns the names of devices, which may be torch.device objects."""
    for device in devices:
        if device is None or isinstance(device, (bool, int, float, bytes)):
            raise ConfigError(f'device is a name such as "cpu" or "cuda:0", or a list of names, but it is {device!r}')
    names = ["cpu" if str(device) == "cpu:0" else str(device) for device in devices]
    if not names:
        raise ConfigError("device is an empty list: name at least one device")
    if "cuda" in names and len(names) > 1:
        raise ConfigError(f'"cuda" is one device: in a list name each by its number, such as "cuda:0", but it is {names}')
    torch = sys.modules.get("torch")
    if names == ["cuda"] and torch is not None and torch.cuda.is_initialized():
        return [f"cuda:{torch.cuda.current_device()}"]
    return names


def world_of(world: World, number: int, devices: int) -> dict[str, int]:
    """Returns the ranks of device `number` of a process with `devices`."""
    return {
        "rank": world.rank * devices + number,
        "world_size": world.world_size * devices,
        "local_rank": world.local_rank * devices + number,
        "local_world_size": world.local_world_size * devices,
    }
