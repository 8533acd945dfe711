"""Calls of the function for the samples in sequence, the generators that they get, and the rows as they were before them.

The engine has the key of a sample's generator (loader/src/decode/draw.rs), of seed, epoch, stream and draw.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._arguments import U32, whole
from .._forebay import function_key
from .batch import Call, Failure
from .rows import SAME, Given

_TEXTS = (str, bytes)
"""Types of values that no function modifies."""


def caller_of(function: Callable[[dict[str, Any], Any], Any]) -> Callable[[Sequence[Call]], list[Any]]:
    """Returns the caller of a worker that calls the function itself, with views of the batch's memory.

    After an error the memory of the rows that are tried again is as it was before the call.
    """

    def caller(calls: Sequence[Call]) -> list[Any]:
        originals, outcomes = [], []
        try:
            for call in calls:
                originals.append(Originals(call.sample))
                outcomes.append(_outcome(function, call, True))
                if isinstance(outcomes[-1], Failure):
                    originals[-1].restore()
        except BaseException:
            # All these rows are tried again.
            for original in originals:
                original.restore()
            raise
        return outcomes

    return caller


def called(function: Callable[[dict[str, Any], Any], Any], calls: Sequence[Call]) -> list[Any]:
    """Returns the outcomes of calls with copies of the batch's rows.

    Raises:
        BaseException: An error that is not about the sample: lack of memory, or one that ends programs.
    """
    return [_outcome(function, call, False) for call in calls]


def _outcome(function: Callable[[dict[str, Any], Any], Any], call: Call, has_views: bool) -> Any:
    given = {name: (value, getattr(value, "shape", None)) for name, value in call.sample.items()}
    try:
        result = function(call.sample, of_key(call.key))
        if not isinstance(result, dict):
            returned = ": end it with `return sample`" if result is None else f", but it returned a {type(result).__name__}"
            raise TypeError(f"it has to return a dict of outputs{returned}")
        if not result or not all(isinstance(name, str) for name in result):
            raise ValueError("it has to return a dict with at least one output, and text as names")
    except MemoryError:
        # No fault of the sample, as those that are not an Exception.
        raise
    except Exception as error:
        return Failure.of(error)

    def marked(name: str, value: Any) -> Any:
        original, shape = given.get(name, (None, None))
        if value is not original or value is None:
            return value
        # A function may change the shape of the tensor itself.
        is_same = getattr(value, "shape", None) == shape and (has_views or isinstance(value, _TEXTS))
        return SAME if is_same else Given(value)

    return {name: marked(name, value) for name, value in result.items()}


class Originals:
    """Copies of the arrays and tensors of a row that the function itself can change.

    Arrays of `framework="numpy"`, "jax" and "tensorflow" are read-only, and need none, unless their rows are padded.
    """

    def __init__(self, sample: Mapping[str, Any]) -> None:
        import numpy  # Not with the package, which works without it.

        torch = sys.modules.get("torch")
        # Views, because the function may change the shapes of its own ones.
        self._pairs: list[tuple[Any, Any]] = []
        for value in sample.values():
            if isinstance(value, numpy.ndarray):
                if value.flags.writeable:
                    self._pairs.append((value.view(), value.copy()))
            elif torch is not None and isinstance(value, torch.Tensor):
                self._pairs.append((value.detach(), value.detach().clone()))

    def restore(self) -> None:
        """Writes the copies back."""
        for view, copy in self._pairs:
            view[...] = copy


def sample_generator(augment_seed: int, epoch: int = 0, stream: int = 0, draw: int = 0) -> Any:
    """Returns the `numpy.random.Generator` that a `Map` passes to its function for a sample.

    Args:
        augment_seed: `Order(augment_seed=)` of the loader, or its `seed` without one.
        epoch: The epoch, from 0. This and the next two are a row of the output `sample_draws`.
        stream: The stream's number, from 0.
        draw: The sample's number in the epoch, before it is distributed to ranks.

    Raises:
        ConfigError: One of them is not a whole number, or too large.
    """
    seed, epoch, draw = whole("augment_seed", augment_seed), whole("epoch", epoch), whole("draw", draw)
    return of_key(function_key(seed, epoch, whole("stream", stream, 0, U32), draw))


def of_key(key: int) -> Any:
    """Returns the generator of a key."""
    import numpy

    return numpy.random.Generator(numpy.random.Philox(key=key))
