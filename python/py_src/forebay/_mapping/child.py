"""Main function of a worker process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import Any

from .batch import Failure, WorkerFailure
from .calls import called
from .shared import Channel, Packed, Segment, packed

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
