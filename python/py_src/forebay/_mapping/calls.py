"""Calls of the function for the samples in sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .batch import Call, Failure
from .rows import SAME, Given
from .generator import of_key
from .originals import Originals

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
