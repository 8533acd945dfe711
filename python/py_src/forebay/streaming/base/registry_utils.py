"""Registries of classes and functions by name, filled by programs and by entry points of installed packages."""

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
    """Registry of catalogue with a type of entries, for type checkers, and a description.

    Args:
        namespace: Name of the registry, in parts.
        entry_points: Accept entries of installed packages, in an entry-point group of the same name with underscores.
        description: Purpose of the registry.
    """

    def __init__(self, namespace: Sequence[str], entry_points: bool = False, description: str = "") -> None:
        super().__init__(namespace, entry_points=entry_points)
        self.description = description

    def register_class(self, name: str, *, func: T | None = None) -> T:
        """Registers a class; without `func`, returns a decorator."""
        return self.register(name, func=func)


def create_registry(
    *namespace: str, generic_type: Any, entry_points: bool = False, description: str = ""
) -> TypedRegistry[Any]:
    """Makes a registry.

    Args:
        *namespace: Name of the registry, in parts.
        generic_type: Type of its entries.
        entry_points: Accept entries of installed packages.
        description: Purpose of the registry.

    Raises:
        catalogue.RegistryError: The name is in use.
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
    """Makes an instance of an entry's class, or binds arguments to an entry's function.

    Args:
        name: Name of the entry.
        registry: Registry of the entry.
        partial_function: Bind the arguments to a function instead of calling it.
        pre_validation_function: Function that is called with the entry, or a class that it must be a subclass of.
        post_validation_function: Function that is called with the result.
        kwargs: Arguments of the class or function.

    Raises:
        ValueError: The validation fails, or the entry cannot be called.
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
    """Runs a file, which may register entries, as a module.

    Raises:
        FileNotFoundError: The file does not exist.
        RuntimeError: The file fails; the cause is attached.
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
    """Removes the entries that are registered inside."""
    saved = copy.deepcopy(catalogue.REGISTRY)
    try:
        yield
    finally:
        catalogue.REGISTRY = saved
