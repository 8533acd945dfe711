"""Calls of the function for one sample after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .batch import Call, Failure
from .collate import SAME
from .generator import of_key

__all__ = ["called", "caller_of"]

_TEXTS = (str, bytes)
"""Types of values that no function changes in place."""


def caller_of(function: Callable[[dict[str, Any], Any], Any]) -> Callable[[Sequence[Call]], list[Any]]:
    """Returns the caller of a worker that calls the function itself, with views of the batch's memory."""
    return lambda calls: [_outcome(function, call, True) for call in calls]


def called(function: Callable[[dict[str, Any], Any], Any], calls: Sequence[Call]) -> list[Any]:
    """Returns the outcomes of calls with copies of the batch's rows."""
    return [_outcome(function, call, False) for call in calls]


def _outcome(function: Callable[[dict[str, Any], Any], Any], call: Call, has_views: bool) -> Any:
    given = dict(call.sample)
    try:
        result = function(call.sample, of_key(call.key))
        if not isinstance(result, dict):
            raise TypeError(f"it has to return a dict of outputs, but it returned a {type(result).__name__}")
        if not result or not all(isinstance(name, str) for name in result):
            raise ValueError("it has to return a dict with at least one output, and text as names")
    except BaseException as error:
        return Failure.of(error)

    def is_same(name: str, value: Any) -> bool:
        return name in given and value is given[name] and (has_views or isinstance(value, _TEXTS))

    return {name: SAME if is_same(name, value) else value for name, value in result.items()}
