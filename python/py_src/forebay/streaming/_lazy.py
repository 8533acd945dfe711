"""Names of a module that are imported at first use. `import forebay.streaming` needs neither torch nor torchvision nor
a cloud's library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy(
    module: str, modules: Mapping[str, Iterable[str]], package: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions that a module assigns to its `__getattr__` and `__dir__`.

    Args:
        module: The module's `__name__`.
        modules: Names to export from each module of `package`. The modules are exported too.
        package: Package of the modules. None: `module`.

    Returns:
        The two functions.
    """
    package = package or module
    homes = {name: home for home, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        elif name in modules:
            value = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # The next lookup does not call this function.
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes, *modules})

    return find, names
