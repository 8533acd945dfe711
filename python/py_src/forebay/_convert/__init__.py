"""Conversion of the engine's batches to the user's framework, one module per framework.

    engine: dict of Tensor (DLPack), Ragged, list of str, list of bytes
       \\-> of_torch       tensors; lists stay lists
        -> of_numpy       arrays; lists stay lists
        -> of_jax         jax.Arrays, of one device or sharded; lists stay lists, on the host
        -> of_tensorflow  tensors, of text and bytes too
        -> dlpack         the engine's tensors, for more libraries

Before that, `ragged` makes one array of arrays of different lengths, where the program asks for it.

Tensors keep their memory where the framework accepts it. A framework is imported by its own module only, when a loader
is made for it, so that no framework needs a second one.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, get_args

from .._arguments import one_of
from .._choices import Framework
from ..errors import ConfigError, UnsupportedError
from .._world import World
from .batch import Batch, Convert, each
from .ragged import array

__all__ = ["FRAMEWORKS", "Batch", "converter", "mapped", "replicas"]

FRAMEWORKS = get_args(Framework)
"""Values of the loader's `framework`. All but "dlpack" are names of packages, for `import` and for pip."""


def converter(framework: str, batch: Batch) -> Convert:
    """Returns the function that converts the outputs of a batch to `framework`, which it imports.

    Raises:
        ConfigError: `framework` is unknown, or cannot have such a batch.
        UnsupportedError: The framework is not installed, or cannot be imported.
    """
    framework = one_of("framework", framework, FRAMEWORKS)
    if batch.sharding is not None and framework != "jax":
        raise ConfigError(f'sharding places arrays of JAX, but framework is "{framework}": pass framework="jax"')
    if batch.padding is not None:
        _import("numpy")
    if framework == "dlpack":
        convert = each(lambda tensor: tensor, array)
    else:
        _import(framework)
        convert = importlib.import_module(f"{__name__}.of_{framework}").converter(batch)
    return _after_padding(batch, convert)


def mapped(framework: str, batch: Batch) -> tuple[Convert, Convert]:
    """Returns two functions for a loader with a map: one converts the engine's outputs to rows for its function, which
    are tensors of torch or arrays of numpy, and the second one the function's results to `framework`.

    Raises:
        ConfigError: `framework` is unknown, or cannot have such a batch.
        UnsupportedError: The framework, or numpy, is not installed, or cannot be imported.
    """
    framework = one_of("framework", framework, FRAMEWORKS)
    _import("numpy")
    if framework not in ("dlpack", "numpy"):
        _import(framework)
    # Arrays of numpy support DLPack.
    module = "numpy" if framework == "dlpack" else framework
    to_rows, to_batch = importlib.import_module(f"{__name__}.of_{module}").mapped(batch)
    return _after_padding(batch, to_rows), to_batch


def replicas(sharding: Any, world: World, given: int | None) -> int | None:
    """Returns the number of consecutive ranks that load the same samples for `sharding`; see `sharding.py`."""
    return importlib.import_module(f"{__name__}.sharding").replicas(sharding, world, given)


def _after_padding(batch: Batch, convert: Convert) -> Convert:
    """Returns a converter that pads first, if rows are padded."""
    padding = batch.padding
    return convert if padding is None else lambda outputs: convert(padding(outputs))


def _import(framework: str) -> None:
    """Imports a framework."""
    try:
        importlib.import_module(framework)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == framework
        why = "it is not installed" if is_missing else f"its import failed: {error}"
        others = [f'"{other}"' for other in FRAMEWORKS if other not in ("dlpack", framework) and _is_installed(other)]
        others = f", or pass a framework that is installed: {', '.join(others)}" if others else ""
        default = ", which is the default" if framework == "torch" else ""
        raise UnsupportedError(f'framework is "{framework}"{default}, but {why}: pip install {framework}{others}') from error


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
