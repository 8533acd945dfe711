"""Values of a commit as JSON, with notes of the values that JSON does not have: tuples, and numbers that are not finite.

Readers without the notes get lists instead of tuples, and null instead of such a number.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import ConfigError

Notes = list[list[Any]]
"""Pairs of a path, which is a list of keys and indexes, and the kind of the value there: "tuple", "nan", "inf" or "-inf"."""

_DEPTH_MAX = 100
"""Levels of a value. Deeper ones are most likely a cycle, and parsers in all languages have limits."""


def plain(name: str, value: Any) -> Any:
    """Returns a copy of `value` with plain numbers.

    Raises:
        ConfigError: It is not made of lists, tuples, dicts with text as keys, text, numbers, bools and None.
    """
    return _plain(value, name, 0)


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise ConfigError(f"{path.partition('[')[0]} has to be JSON of at most {_DEPTH_MAX} levels: save deeper objects in obj")
    if value is None or isinstance(value, (bool, str)):
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (list, tuple)):
        items = [_plain(item, f"{path}[{at}]", depth + 1) for at, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{path} has to be JSON, where keys are text, and it has the key {key!r}: save it in obj")
        return {key: _plain(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        # Numbers of numpy and torch.
        return _plain(value.item(), path, depth + 1)
    raise ConfigError(f"{path} has to be JSON, and {type(value).__name__} is not: save such objects in obj")


def packed(value: Any) -> tuple[Any, Notes]:
    """Returns a plain value as JSON has it, and the notes of the values that it does not have."""
    notes: Notes = []
    return _packed(value, [], notes), notes


def _packed(value: Any, path: list[Any], notes: Notes) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        notes.append([path, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"])
        return None
    if isinstance(value, dict):
        return {key: _packed(item, [*path, key], notes) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_packed(item, [*path, at], notes) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            # After the notes of its items, which are set before the list becomes a tuple.
            notes.append([path, "tuple"])
        return items
    return value


def unpacked(value: Any, notes: Notes) -> Any:
    """Returns the plain value from which `packed` made these two.

    Raises:
        KeyError, IndexError, TypeError, ValueError: A note is not about this value.
    """
    root = [value]
    for path, kind in notes:
        *before, last = [0, *path]
        home: Any = root
        for key in before:
            home = home[key]
        home[last] = tuple(home[last]) if kind == "tuple" else float(kind)
    return root[0]
