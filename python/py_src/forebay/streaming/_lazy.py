"""Names of a package that are imported when they are first asked for: `import forebay.streaming` needs neither torch nor
torchvision nor a cloud's library, and a program pays for what it uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy(package: str, modules: Mapping[str, Iterable[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """What a package assigns to its `__getattr__` and `__dir__`.

    Args:
        package: The package's `__name__`.
        modules: For each module below the package, the names that the package hands on from it. A module that stands
            without names is itself the name.

    Returns:
        The two functions.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # The next look-up finds it without this function.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes, *modules})

    return find, names
