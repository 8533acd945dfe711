"""Calls of a loader's `transform`, and a warning where it augments a whole batch with a single draw."""

from __future__ import annotations

import functools
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import ConfigError

__all__ = ["Transform"]

_RANDOM = frozenset(
    ["AugMix", "AutoAugment", "ColorJitter", "ElasticTransform", "GaussianBlur", "JPEG", "RandAugment", "ScaleJitter"]
    + ["TrivialAugmentWide"]
)
"""Operations of torchvision that draw once per call, next to those whose names begin with Random. MixUp and CutMix are
made for batches, and GaussianNoise draws for each value."""

_OBJECTS_MAX = 10_000
"""Objects that are searched for operations. A transform may refer to a whole model."""


class Transform:
    """Function of a batch. The first call is watched for random operations of torchvision that get the whole batch."""

    def __init__(self, function: Any) -> None:
        if not callable(function):
            raise ConfigError(f"transform is a function of a batch, but it is {function!r}")
        self._function = function
        # Taken by the first call and never released.
        self._first = threading.Lock()

    def __call__(self, batch: Any) -> Any:
        """Returns the function's result. It may not end an epoch, so its StopIteration is a RuntimeError."""
        try:
            if "torchvision.transforms" not in sys.modules or not self._first.acquire(blocking=False):
                return self._function(batch)
            return self._watched(batch)
        except StopIteration as error:
            raise RuntimeError("transform raised StopIteration") from error

    def _watched(self, batch: Any) -> Any:
        thread = threading.get_ident()
        names: dict[str, None] = {}

        def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if threading.get_ident() == thread and _has_batch([*args, *kwargs.values()]):
                names[type(module).__name__] = None

        hooks = [module.register_forward_pre_hook(note, with_kwargs=True) for module in _random_modules(self._function)]
        try:
            result = self._function(batch)
        finally:
            for hook in hooks:
                hook.remove()
        if names:
            warnings.warn(
                f"transform passes a whole batch to {', '.join(names)} of torchvision, which draws once per call, so all samples of a "
                'batch are augmented alike: call it for each sample, as in torch.stack([augment(x) for x in batch["x"]])',
                stacklevel=4,
            )
        return result


def _has_batch(values: Any) -> bool:
    """Returns true if there is a tensor with several pictures among `values`."""
    for value in values:
        if isinstance(value, (list, tuple)):
            is_batch = _has_batch(value)
        elif isinstance(value, Mapping):
            is_batch = _has_batch(value.values())
        else:
            shape = getattr(value, "shape", ())
            is_batch = len(shape) >= 4 and shape[0] > 1
        if is_batch:
            return True
    return False


def _random_modules(function: Any) -> Iterator[Any]:
    """Yields torchvision's random operations that `function` refers to."""
    waiting, seen = [function], {}
    while waiting and len(seen) < _OBJECTS_MAX:
        value = waiting.pop()
        if id(value) in seen:
            continue
        # The value is kept, so that no other object gets its id.
        seen[id(value)] = value
        if _is_random(value):
            yield value
        waiting.extend(_parts(value))


def _is_random(value: Any) -> bool:
    kind = type(value)
    if not kind.__module__.startswith("torchvision.transforms") or not hasattr(value, "register_forward_pre_hook"):
        return False
    # A range of one value is no choice.
    ranges = (getattr(value, name, None) for name in ("sigma", "quality"))
    if any(isinstance(both, (list, tuple)) and both[0] == both[-1] for both in ranges):
        return False
    return kind.__name__.startswith("Random") or kind.__name__ in _RANDOM


def _parts(value: Any) -> list[Any]:
    """Returns the objects that a call of `value` may use."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, types.FunctionType):
        cells = []
        for cell in value.__closure__ or ():
            try:
                cells.append(cell.cell_contents)
            except ValueError:
                pass  # The variable has no value yet.
        named = [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *filter(_may_call, named)]
    if isinstance(value, (type, types.ModuleType)) or not callable(value):
        return []
    parts: list[Any] = [*getattr(value, "__dict__", {}).values()]
    if hasattr(value, "children") and hasattr(value, "register_forward_pre_hook"):
        parts.extend(value.children())
    else:
        parts.append(getattr(type(value), "__call__", None))
    return parts


def _may_call(value: Any) -> bool:
    return callable(value) or isinstance(value, (list, tuple))


def _names(code: types.CodeType) -> Iterator[str]:
    """Yields the names in `code` and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
