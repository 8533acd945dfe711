"""Worker that calls the function in a separate process."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConfigError, MapError
from .batch import Call, Failure, WorkerFailure
from .child import serve
from .shared import Channel, Segment

_END_SECONDS = 5.0
"""Wait for a process that was asked to end."""


def pickled(function: Callable[..., Any], name: str) -> bytes:
    """Returns the function for a process.

    Raises:
        ConfigError: It cannot be pickled.
    """
    reason: BaseException | None = None
    if not _is_of_session(function):
        try:
            return pickle.dumps(function)
        except Exception as error:
            reason = error
    try:
        import cloudpickle
    except ImportError:
        why = f" ({reason})" if reason is not None else ": it was defined in this session, which has no file"
        raise ConfigError(
            f'map: kind="processes" passes {name} to its processes, but it cannot be pickled{why}: define it at the top of a module, '
            'install cloudpickle, or use kind="threads"'
        ) from reason
    try:
        return cloudpickle.dumps(function)
    except Exception as error:
        raise ConfigError(
            f'map: kind="processes" passes {name} to its processes, but not even cloudpickle can pickle it ({error}): make what it '
            'needs inside of it, or use kind="threads"'
        ) from error


def _is_of_session(function: Any) -> bool:
    """True for a function of an interactive session or of `python -c`, which worker processes cannot import."""
    main = sys.modules.get("__main__")
    module = getattr(function, "__module__", None) or type(function).__module__
    return module == "__main__" and getattr(main, "__file__", None) is None and getattr(main, "__spec__", None) is None


class ProcessCaller:
    """Caller that passes samples to a process, which starts with the first ones. One thread uses it.

    So `interrupt` can end a start that takes long.
    """

    def __init__(self, function: bytes, name: str) -> None:
        self._function = function
        self._name = name
        # Guards the next two against `close`, which a different thread calls.
        self._lock = threading.Lock()
        self._is_closed = False
        self._process: multiprocessing.process.BaseProcess | None = None
        self._channel: Channel | None = None

    def __call__(self, calls: Sequence[Call]) -> list[Any]:
        """Returns the outcomes of the function for samples.

        Raises:
            MapError: The process has died. The next call starts a new one. Or it had an error that is not about a sample.
            ConfigError: The process cannot be started, or cannot load the function.
        """
        if self._process is None:
            self._start()
        channel = self._channel
        assert channel is not None
        try:
            channel.send(calls)
            answers = channel.receive_each(copies=True)
        except (EOFError, OSError) as error:
            raise MapError(f"a process that ran {self._name} {self._fate()}: it took {len(calls)} samples") from error
        outcomes = [_loaded(load) for load in answers]
        if isinstance(outcomes[0], WorkerFailure):
            raise MapError(f"a process that ran {self._name} failed: {outcomes[0].text}") from outcomes[0].error
        return outcomes

    def _start(self) -> None:
        # Not by fork, as this process has threads.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        to, back = Segment(), Segment()
        channel = Channel(ours, to, back)
        process = context.Process(target=serve, args=(theirs, back, to), name="forebay-map", daemon=True)
        try:
            with self._lock:
                if self._is_closed:
                    raise MapError("the loader was closed")
                process.start()
                self._process, self._channel = process, channel
        except BaseException as error:
            channel.close()
            if not isinstance(error, AssertionError):
                raise
            raise ConfigError(f'map: this process may not start processes ({error}): use kind="threads"') from error
        finally:
            # The end of the process is then the end of the pipe.
            theirs.close()
        try:
            channel.send(self._function)
            refusal = channel.receive(copies=True)
        except (EOFError, OSError) as error:
            raise ConfigError(
                f"map: a process for {self._name} {self._fate()} before it was ready; its own message is above. It imports the main "
                'script, so the script starts the training under `if __name__ == "__main__":`'
            ) from error
        if refusal is not None:
            self._drop()
            raise ConfigError(
                f"map: a process cannot load {self._name}: {refusal}. Define it at the top of a module that the process can import, or "
                'use kind="threads"'
            )

    def _fate(self) -> str:
        """Describes the end of the process, and forgets it."""
        process = self._process
        self._drop()
        code = None if process is None else process.exitcode
        if code is None:
            return "has ended"
        if code >= 0:
            return f"has ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was killed by {name}" + (", perhaps for lack of memory" if name == "SIGKILL" else "")

    def _drop(self) -> None:
        """Ends the process."""
        with self._lock:
            process, channel, self._process, self._channel = self._process, self._channel, None, None
        if channel is not None:
            channel.close()
        if process is not None:
            process.join(_END_SECONDS)
            if process.exitcode is None:
                process.kill()
                process.join()

    def interrupt(self) -> None:
        """Ends a call that runs; its thread gets a MapError. Later calls fail."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Ends the process, in the thread that used it."""
        self._drop()


def _loaded(load: Callable[[], Any]) -> Any:
    """Returns an outcome that a process has sent: the failure of a result that cannot be loaded here."""
    try:
        return load()
    except MemoryError:
        raise
    except Exception as error:
        return Failure(f"TypeError: its result cannot be loaded from a process: {Failure.of(error).text}", error)
