"""Worker that calls the function in a separate process, and the main function of that process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from ..errors import ConfigError, MapError
from .batch import Call, Failure, WorkerFailure
from .calls import called
from .shared import Channel, Packed, Segment, packed

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


_PARENT_SECONDS = 1.0
"""Interval between two looks at the parent process."""


def serve(pipe: Connection, outgoing: Segment, incoming: Segment) -> None:
    """Calls the function, which was pickled and comes first, for the samples that the pipe brings, until the pipe is closed.

    The first answer is the error of a function that cannot be loaded, or None. The next ones are outcomes, or one `WorkerFailure`.
    """
    # Ctrl-C is for the parent process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    channel = Channel(pipe, outgoing, incoming)
    try:
        function = channel.receive(copies=True)
    except (EOFError, OSError):
        return
    try:
        loaded = pickle.loads(function)
    except BaseException as error:
        channel.send(Failure.of(error).text)
        return
    if "torch" in sys.modules:
        # There are as many processes as workers.
        sys.modules["torch"].set_num_threads(1)
    channel.send(None)
    while True:
        try:
            (load,) = channel.receive_each(copies=False)
        except (EOFError, OSError):
            return
        try:
            outcomes = [_packed(_portable(outcome)) for outcome in called(loaded, load())]
        except BaseException as error:
            outcomes = [packed(WorkerFailure(*_portable(Failure.of(error))))]
        try:
            channel.send_each(outcomes)
        except MemoryError as error:
            channel.send(WorkerFailure(Failure.of(error).text, None))
        except OSError:
            # The parent process has ended.
            return


def _end_with_parent() -> None:
    """Ends this process when the parent process has ended, also in the middle of a call."""
    parent = multiprocessing.parent_process()
    number = os.getppid()
    while parent is not None and os.getppid() == number and parent.is_alive():
        parent.join(_PARENT_SECONDS)
    os._exit(1)


def _portable(outcome: Any) -> Any:
    """Returns an outcome without the parts that only this process has: the traceback becomes text, an error that cannot be pickled is left out."""
    if not isinstance(outcome, Failure) or outcome.error is None:
        return outcome
    error = outcome.error
    details = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        # Some can be pickled, and then not be loaded.
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = None
    return Failure(outcome.text, error, details)


def _packed(outcome: Any) -> Packed:
    """Returns an outcome to send: the failure of a result that cannot be pickled."""
    try:
        return packed(outcome)
    except Exception:
        return packed(_refused(outcome))


def _refused(outcome: Any) -> Failure:
    """Returns the failure of a result that cannot be pickled."""
    for name, value in outcome.items():
        try:
            packed(value)
        except Exception as error:
            reason = Failure.of(error).text
            return Failure(f"TypeError: its output {name} cannot be sent from a process, because it cannot be pickled: {reason}", None)
    return Failure("TypeError: its result cannot be sent from a process, because it cannot be pickled", None)
