"""Registries: classes and functions by name, entered by programs and by entry points of other packages."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

import catalogue

__all__ = ["TypedRegistry", "construct_from_registry", "create_registry", "import_file", "save_registry"]

T = TypeVar("T")


class TypedRegistry(catalogue.Registry, Generic[T]):
    """A registry of catalogue's whose entries have a type, for type checkers, and a description.

    Args:
        namespace: The registry's name, in parts.
        entry_points: Whether other packages may enter something, in an entry-point group of the name with underscores.
        description: What it is for.
    """

    def __init__(self, namespace: Sequence[str], entry_points: bool = False, description: str = "") -> None:
        super().__init__(namespace, entry_points=entry_points)
        self.description = description

    def register_class(self, name: str, *, func: T | None = None) -> T:
        """Enters a class; without `func`, a decorator that does."""
        return self.register(name, func=func)


def create_registry(
    *namespace: str, generic_type: Any, entry_points: bool = False, description: str = ""
) -> TypedRegistry[Any]:
    """A new registry.

    Args:
        *namespace: Its name, in parts.
        generic_type: The type of its entries.
        entry_points: Whether other packages may enter something.
        description: What it is for.

    Raises:
        catalogue.RegistryError: There is one of that name.
    """
    if catalogue.check_exists(*namespace):
        raise catalogue.RegistryError(f"Namespace already exists: {namespace}")
    return TypedRegistry[generic_type](namespace, entry_points=entry_points, description=description)


def construct_from_registry(
    name: str,
    registry: TypedRegistry[Any],
    partial_function: bool = True,
    pre_validation_function: Callable[[Any], None] | type | None = None,
    post_validation_function: Callable[[Any], None] | None = None,
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """What an entry makes: an instance of a class, or a function with some arguments given.

    Args:
        name: The entry's name.
        registry: Where it is.
        partial_function: Whether a function is given its arguments and not called.
        pre_validation_function: Called with the entry, or a class of which it has to be a subclass.
        post_validation_function: Called with what is made.
        kwargs: The arguments.

    Raises:
        ValueError: The entry is not what the validation asks for, or can be called in no way.
    """
    entry = registry.get(name)
    if isinstance(pre_validation_function, type):
        if not issubclass(entry, pre_validation_function):
            raise ValueError(f"Expected {name} to be of type {pre_validation_function}, but got {type(entry)}")
    elif callable(pre_validation_function):
        pre_validation_function(entry)
    elif pre_validation_function is not None:
        raise ValueError(
            f"Expected pre_validation_function to be a callable or a type, but got {type(pre_validation_function)}"
        )
    if not callable(entry):
        raise ValueError(f"Expected {name} to be a class or function, but got {type(entry)}")
    if partial_function and not isinstance(entry, type):
        made = functools.partial(entry, **(kwargs or {}))
    else:
        made = entry(**(kwargs or {}))
    if post_validation_function is not None:
        post_validation_function(made)
    return made


def import_file(loc: str | Path) -> ModuleType:
    """Runs a file, which may enter things, as a module.

    Raises:
        FileNotFoundError: It is not there.
        RuntimeError: It fails; the cause says why.
    """
    if not os.path.exists(loc):
        raise FileNotFoundError(f"File {loc} does not exist.")
    spec = importlib.util.spec_from_file_location("python_code", str(loc))
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise RuntimeError(f"Error executing {loc}") from error
    return module


@contextlib.contextmanager
def save_registry() -> Iterator[None]:
    """Takes back what is entered within."""
    saved = copy.deepcopy(catalogue.REGISTRY)
    try:
        yield
    finally:
        catalogue.REGISTRY = saved
