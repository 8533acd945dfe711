"""Calls of a loader's `transform`, and a warning where it augments a whole batch with a single draw."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from .errors import ConfigError

_RANDOM = frozenset(
    ["AugMix", "AutoAugment", "ColorJitter", "ElasticTransform", "GaussianBlur", "JPEG", "RandAugment", "ScaleJitter"]
    + ["TrivialAugmentWide"]
)
"""Operations of torchvision that draw once per call, in addition to the ones with names that begin with Random. MixUp and
CutMix are made for batches, and GaussianNoise draws for each value."""


class Transform:
    """Function of a batch. The first call is watched for random operations of torchvision that get the whole batch."""

    def __init__(self, function: Any) -> None:
        if not callable(function):
            raise ConfigError(f"transform is a function of a batch, but it is {function!r}")
        self._function = function
        # Taken by the first call and never released.
        self._first = threading.Lock()

    def __call__(self, batch: Any) -> Any:
        """Returns the function's result. It may not end an epoch, so its StopIteration is a RuntimeError.

        Raises:
            ConfigError: The result is None.
        """
        try:
            if "torchvision.transforms" not in sys.modules or not self._first.acquire(blocking=False):
                result = self._function(batch)
            else:
                result = self._watched(batch)
        except StopIteration as error:
            raise RuntimeError("transform raised StopIteration") from error
        if result is None:
            name = getattr(self._function, "__qualname__", None) or type(self._function).__name__
            raise ConfigError(
                f"transform has to return a batch, but {name} returned None: end it with `return batch`. To leave out samples, pass "
                "filter= to Loader; to leave out a batch, write `continue` in the loop"
            )
        return result

    def _watched(self, batch: Any) -> Any:
        from torch.nn.modules.module import register_module_forward_pre_hook

        thread = threading.get_ident()
        names: dict[str, None] = {}

        def note(module: Any, args: tuple[Any, ...]) -> None:
            if threading.get_ident() == thread and _is_random(module) and _has_batch(args):
                names[type(module).__name__] = None

        with register_module_forward_pre_hook(note):
            result = self._function(batch)
        if names:
            warnings.warn(
                f"transform passes a whole batch to {', '.join(names)} of torchvision, which draws once per call, so all samples of a "
                "batch are augmented alike: pass forebay.from_torchvision(...) to Image, or call it for each sample, as in "
                'torch.stack([augment(x) for x in batch["x"]])',
                stacklevel=5,
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


def _is_random(module: Any) -> bool:
    """Returns true for a module of torchvision that draws in each call."""
    kind = type(module)
    if not kind.__module__.startswith("torchvision.transforms"):
        return False
    # A range of one value is no choice.
    ranges = (getattr(module, name, None) for name in ("sigma", "quality"))
    if any(isinstance(both, (list, tuple)) and both[0] == both[-1] for both in ranges):
        return False
    return kind.__name__.startswith("Random") or kind.__name__ in _RANDOM
