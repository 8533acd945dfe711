"""Call of a function in a separate process, so that a crash or a hang of it affects nothing else.

The process is a fork, because a new Python needs seconds to import torch. So the parent must not have used CUDA, since its
state does not survive a fork, and must not have threads that hold locks. The child sends JSON through a pipe, with its
length in front, because a grandchild may keep the pipe open forever: first intermediate results, any number of times,
then its result. Its standard output and error go into a file, which the parent prints as it grows.
"""

import contextlib
import ctypes
import dataclasses
import faulthandler
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import typing

POLL_SECONDS = 0.02
"""Polling interval of the child: negligible for the measurements, even on one core."""

LEAVE_SECONDS = 5.0
"""Time limit of the exit of a child that has sent its result; its driver may take long to clean up."""

KILL_SECONDS = 10.0
"""Time limit of a killed child; a child that waits in the kernel may take longer and is abandoned."""

STACK_SECONDS = 5.0
"""Time before the limit at which a running child writes its stack; a quarter of the limit if that is less."""

SAID_BYTES_MAX = 16 << 10
"""Kept length of the end of a child's output."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end the parent, which first ends the child."""

LENGTH_BYTES = 8

PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Answer:
    """Outcome of a child. Without a result it has a reason `why`."""

    result: typing.Any = None
    so_far: typing.Any = None
    why: str | None = None
    stack: str = ""
    """Stack at the crash or shortly before the time limit."""
    output: str = ""


def call(function, seconds):
    """Calls `function(send)` in a child with a time limit of `seconds`. Its result and the values that it reports must
    be JSON. Afterwards no process of the child remains, except the processes that moved to a different group. Only the main thread
    may call.
    """
    for stream in (sys.stdout, sys.stderr):
        # The child would write the contents of the buffer a second time.
        stream.flush()
    with tempfile.TemporaryFile() as stacks, tempfile.TemporaryFile() as output, _endings_kept() as endings:
        reading, writing = os.pipe()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            os.close(reading)
            _child(function, writing, stacks, output, seconds, parent)
        os.close(writing)
        with contextlib.suppress(OSError):
            # Both parent and child do it, so that the group exists from here on.
            os.setpgid(child, child)
        messages, echo = _Messages(reading), _Echo(output)
        try:
            status = _await(child, messages, echo, seconds, endings)
        finally:
            os.close(reading)
            is_gone = _kill(child)
            echo.forward()
        stacks.seek(0)
        stack = stacks.read().decode(errors="replace")
        kept = echo.last()
    sys.stderr.write(stack)
    why = None if messages.is_whole else _why(status, seconds, is_gone)
    return Answer(messages.result, messages.so_far, why, stack, kept)


class _Messages:
    """Messages of the pipe: `so_far` is the last intermediate result; the result exists when all messages are
    complete."""

    def __init__(self, pipe):
        os.set_blocking(pipe, False)
        self._pipe, self._received = pipe, bytearray()
        self.is_whole, self.result, self.so_far = False, None, None

    def receive(self):
        with contextlib.suppress(BlockingIOError):
            while some := os.read(self._pipe, 1 << 16):
                self._received += some
        while not self.is_whole and len(self._received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES], "little")
            if len(self._received) < end:
                return
            self.is_whole, value = json.loads(self._received[LENGTH_BYTES:end])
            if self.is_whole:
                self.result = value
            else:
                self.so_far = value
            del self._received[:end]


def _send(pipe, is_result, value):
    message = json.dumps([is_result, value]).encode()
    message = memoryview(len(message).to_bytes(LENGTH_BYTES, "little") + message)
    while message:
        message = message[os.write(pipe, message) :]


class _Echo:
    """Prints the output file of a child on this process's output."""

    def __init__(self, file):
        self._file, self._at = file, 0

    def forward(self):
        while some := os.pread(self._file.fileno(), 1 << 16, self._at):
            self._at += len(some)
            # The reader of this output may be gone.
            with contextlib.suppress(OSError):
                sys.stdout.write(some.decode(errors="replace"))
                sys.stdout.flush()

    def last(self):
        """Returns the end of the output as text."""
        start = max(0, self._at - SAID_BYTES_MAX)
        return os.pread(self._file.fileno(), SAID_BYTES_MAX, start).decode(errors="replace")


@contextlib.contextmanager
def _endings_kept():
    """Defers signals that end this process until the child is gone, because an exception of a handler could arrive
    anywhere. Provides the list of received signals.
    """
    came = []
    known = {number: signal.getsignal(number) for number in ENDING}
    kept = {number: handler for number, handler in known.items() if handler not in (signal.SIG_IGN, None)}
    for number in kept:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield came
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _child(function, pipe, stacks, output, seconds, parent):
    """Calls the function, sends the result, and exits without the interpreter's shutdown, which belongs to the
    parent."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        # A killed parent cannot end its child.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        for number in (1, 2):
            os.dup2(output.fileno(), number)
        for stream in (sys.stdout, sys.stderr):
            # A crash would lose this.
            stream.reconfigure(line_buffering=True)
        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(seconds - min(STACK_SECONDS, seconds / 4), file=stacks)
        _send(pipe, True, function(lambda value: _send(pipe, False, value)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _await(child, messages, echo, seconds, endings):
    """Waits until the child has ended, or must be ended; returns its status if it ended by itself."""
    end, was_whole = time.monotonic() + seconds, False
    while True:
        # Checked before reading, because all messages of an ended child are in the pipe.
        status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        is_over = status is not None or endings or time.monotonic() >= end
        messages.receive()
        echo.forward()
        if is_over:
            return status
        if messages.is_whole and not was_whole:
            end, was_whole = min(end, time.monotonic() + LEAVE_SECONDS), True
        time.sleep(POLL_SECONDS)


def _kill(child):
    """Kills the child's whole group, with its workers; returns true if the child is gone. Its pid is not reused before
    the wait."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    end = time.monotonic() + KILL_SECONDS
    while not (is_gone := os.waitpid(child, os.WNOHANG)[0] == child) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return is_gone


def _why(status, seconds, is_gone):
    if status is None:
        return f"took longer than {seconds:g} seconds" + ("" if is_gone else ", and does not end after a kill")
    if status.si_code == os.CLD_EXITED:
        return f"ended with status {status.si_status} and no result"
    return f"ended by signal {signal.Signals(status.si_status).name}"
