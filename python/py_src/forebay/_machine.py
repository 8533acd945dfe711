"""Facts about Python that `forebay doctor` shows."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Sequence

_LIBRARIES = (("torch",), ("jax",), ("tensorflow", "tensorflow-cpu"), ("numpy",), ("pillow",))
"""Packages with versions that matter, each with its further names: types of batches, arrays and raw pixels."""


def facts() -> list[tuple[str, str]]:
    """Returns name and value of each fact."""
    return [("Python", platform.python_version()), ("libraries", ", ".join(map(_version, _LIBRARIES)))]


def _version(names: Sequence[str]) -> str:
    """Returns name and version of a package that has one of `names`, without importing it."""
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}"
    return f"no {names[0]}"
