"""Worker that calls the function in an interpreter with its own lock.

numpy and torch cannot be imported there, so arrays are memoryviews and the generator is Python's.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConfigError
from .batch import Call, Caller, Failure
from .rows import Given
from .shared import anonymous_file

_VERSION = (3, 14)
"""First version of Python with `InterpreterPoolExecutor`."""

_MAIN = """
import os, pickle, random, sys, traceback

sys.path[:] = path
function = pickle.loads(pickled)

def run(calls):
    outcomes = [outcome(given(sample), key) for sample, key in pickle.loads(calls)]
    with open(results, "r+b", closefd=False) as file:
        file.seek(0)
        file.truncate()
        pickle.dump(outcomes, file)
        file.seek(0)

def given(sample):
    return {name: array(*value) if kind == "array" else value for name, (kind, value) in sample.items()}

def array(value, code, shape):
    view = memoryview(bytearray(value))
    return view.cast(code, shape) if all(shape) else view.cast(code)

def outcome(sample, key):
    got = dict(sample)
    try:
        result = function(sample, random.Random(key))
        if not isinstance(result, dict):
            returned = ": end it with `return sample`" if result is None else f", but it returned a {type(result).__name__}"
            raise TypeError(f"it has to return a dict of outputs{returned}")
        if not result or not all(isinstance(name, str) for name in result):
            raise ValueError("it has to return a dict with at least one output, and text as names")
        done = {name: passed(value, value is got.get(name)) for name, value in result.items()}
        pickle.dumps(done)
        return done, "", ""
    except MemoryError:
        raise
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        return None, text, "".join(traceback.format_exception(error))

def passed(value, is_given):
    if isinstance(value, memoryview):
        return "given" if is_given else "array", (value.tobytes(), value.format, value.shape)
    return "value", value
"""
"""Code of the interpreter, which cannot import this package: its extension works in the main interpreter only."""


def opener(function: Callable[..., Any], name: str) -> Callable[[], Caller]:
    """Returns the function that makes a worker's caller.

    Raises:
        ConfigError: This Python has no such interpreters, or the function cannot be pickled.
    """
    if sys.version_info < _VERSION:
        version = ".".join(map(str, sys.version_info[:2]))
        raise ConfigError(f'map: kind="interpreters" needs Python 3.14 or newer, and this is {version}: use "threads" or "processes"')
    try:
        pickled = pickle.dumps(function)
    except Exception as error:
        raise ConfigError(
            f'map: kind="interpreters" passes {name} to its interpreters, but it cannot be pickled ({error}): define it at the top of '
            "a module"
        ) from error
    return lambda: InterpreterCaller(pickled, name)


class InterpreterCaller:
    """Caller with an interpreter, which starts with it. One thread uses it.

    Raises:
        ConfigError: The interpreter cannot load the function.
    """

    def __init__(self, function: bytes, name: str) -> None:
        from concurrent import interpreters

        # A file in memory: results are larger than a pipe takes while no thread reads.
        self._results = anonymous_file()
        self._interpreter = interpreters.create()
        try:
            self._interpreter.prepare_main(pickled=function, results=self._results, path=tuple(map(str, sys.path)))
            self._interpreter.exec(_MAIN)
        except interpreters.ExecutionFailed as error:
            self.close()
            raise ConfigError(
                f"map: an interpreter cannot load {name}: {error.excinfo.formatted}. Define it at the top of a module that imports "
                'neither numpy nor torch, or use kind="threads" or "processes"'
            ) from error

    def __call__(self, calls: Sequence[Call]) -> list[Any]:
        """Returns the outcomes of the function for samples."""
        plain = [({name: _passed(value) for name, value in call.sample.items()}, call.key) for call in calls]
        self._interpreter.prepare_main(calls=pickle.dumps(plain))
        self._interpreter.exec("run(calls)")
        os.lseek(self._results, 0, os.SEEK_SET)
        with open(self._results, "rb", closefd=False) as file:
            outcomes = pickle.load(file)
        return [Failure(text, None, details) if done is None else _received(done) for done, text, details in outcomes]

    def close(self) -> None:
        """Ends the interpreter, in the thread that used it."""
        self._interpreter.close()
        os.close(self._results)


def _passed(value: Any) -> tuple[str, Any]:
    """Returns a value of a sample for an interpreter without numpy."""
    if hasattr(value, "numpy"):  # A tensor.
        value = value.numpy()
    if not hasattr(value, "dtype"):
        return "value", value
    if not value.shape:
        return "value", value.item()
    return "array", (value.tobytes(), memoryview(value).format, value.shape)


def _received(result: dict[str, Any]) -> dict[str, Any]:
    """Returns a result with arrays instead of memoryviews. Arrays that the function got are marked."""
    import numpy

    def array(value: bytes, code: str, shape: tuple[int, ...]) -> Any:
        return numpy.frombuffer(bytearray(value), numpy.dtype(code)).reshape(shape)

    def received(kind: str, value: Any) -> Any:
        if kind == "value":
            return value
        return Given(array(*value)) if kind == "given" else array(*value)

    return {name: received(*value) for name, value in result.items()}
