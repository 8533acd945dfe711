"""Functions of the package for which the engine has a faster way, as they were when their class was made.

A program may override such a function in a subclass, replace it in the class itself or set it on one object. The engine
calls no Python, so each of the three turns the faster way off.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Originals"]


class Originals:
    """Functions of a class or module by name.

    Args:
        home: The class or module, before a program has changed it.
        *names: Names of the functions.
    """

    def __init__(self, home: Any, *names: str) -> None:
        self._functions = {name: _function(home, name) for name in names}

    def are_replaced(self, found: Any) -> bool:
        """Returns true if one of the functions is a different one in `found`: an object, class or module."""
        for name, function in self._functions.items():
            if _function(found, name) is not function:
                return True
        return False


def _function(home: Any, name: str) -> Any:
    found = getattr(home, name)
    # A bound method is a new object at each access.
    return getattr(found, "__func__", found)
