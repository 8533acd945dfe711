"""A function in a process of its own: whatever ends it, or keeps it waiting, ends nothing else.

The process is a fork, since a Python that imports torch anew takes seconds. So the parent must not have touched CUDA, whose state
does not go through a fork, nor have threads that hold locks. The child sends JSON through a pipe, with its length in front, since a
grandchild may keep the pipe open for ever: first what it has found so far, as often as it likes, then its result. What it says on
its two outputs goes into a file, which the parent repeats while it comes.
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
"""Between two looks at the child: nothing against what is measured, even on one core."""

LEAVE_SECONDS = 5.0
"""For a child that has sent its result, whose driver may have much to tidy up."""

KILL_SECONDS = 10.0
"""For a killed child; one that waits in the kernel may stay for longer, and is left there."""

STACK_SECONDS = 5.0
"""Before the end, a child that is still at it writes down where it stands; a quarter of the time if that is less."""

SAID_BYTES_MAX = 16 << 10
"""Of what a child said, so much of the end is kept."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""End the parent, and must end the child before."""

LENGTH_BYTES = 8

PR_SET_PDEATHSIG = 1


@dataclasses.dataclass
class Answer:
    """What came of a child. One that gave no result has a sentence `why`."""

    result: typing.Any = None
    so_far: typing.Any = None
    why: str | None = None
    stack: str = ""
    """Where it stood when it crashed or its time was almost over."""
    said: str = ""


def call(function, seconds):
    """What becomes of `function(tell)` in a child that has so many seconds; its result and what it gives to `tell` are what JSON
    can hold. Nothing of the child is left afterwards, except for processes that moved to another group. Only the main thread may
    call.
    """
    for stream in (sys.stdout, sys.stderr):
        # The child would write what is in the buffer a second time.
        stream.flush()
    with tempfile.TemporaryFile() as stacks, tempfile.TemporaryFile() as said, _endings_kept() as endings:
        reading, writing = os.pipe()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            os.close(reading)
            _child(function, writing, stacks, said, seconds, parent)
        os.close(writing)
        with contextlib.suppress(OSError):
            # Both do it, whoever comes first: from here on there is a group to kill.
            os.setpgid(child, child)
        messages, echo = _Messages(reading), _Echo(said)
        try:
            status = _await(child, messages, echo, seconds, endings)
        finally:
            os.close(reading)
            is_gone = _kill(child)
            echo.go_on()
        stacks.seek(0)
        stack = stacks.read().decode(errors="replace")
        kept = echo.last()
    sys.stderr.write(stack)
    why = None if messages.is_whole else _why(status, seconds, is_gone)
    return Answer(messages.result, messages.so_far, why, stack, kept)


class _Messages:
    """What comes through the pipe: `so_far` is what came last before the result, which there is once the messages are whole."""

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
    """Repeats what a child writes into a file on this process's output."""

    def __init__(self, file):
        self._file, self._at = file, 0

    def go_on(self):
        while some := os.pread(self._file.fileno(), 1 << 16, self._at):
            self._at += len(some)
            # Nobody may be left to read it.
            with contextlib.suppress(OSError):
                sys.stdout.write(some.decode(errors="replace"))
                sys.stdout.flush()

    def last(self):
        """The end of it, as text."""
        start = max(0, self._at - SAID_BYTES_MAX)
        return os.pread(self._file.fileno(), SAID_BYTES_MAX, start).decode(errors="replace")


@contextlib.contextmanager
def _endings_kept():
    """Signals that end this process wait until the child is gone: an exception out of a handler could come between any two steps.
    Gives the list of those that came.
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


def _child(function, pipe, stacks, said, seconds, parent):
    """Calls, sends, and leaves without the interpreter's end, which is the parent's."""
    code = 1
    try:
        os.setpgid(0, 0)
        for number in ENDING:
            signal.signal(number, signal.SIG_DFL)
        # A parent that is killed can end nothing.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(code)
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        for stream in (sys.stdout, sys.stderr):
            # What a crash would lose otherwise.
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
    """Until the child has ended, or is to be ended; its status if it ended by itself."""
    end, was_whole = time.monotonic() + seconds, False
    while True:
        # Asked before reading: all that an ended child has sent lies in the pipe.
        status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        is_over = status is not None or endings or time.monotonic() >= end
        messages.receive()
        echo.go_on()
        if is_over:
            return status
        if messages.is_whole and not was_whole:
            end, was_whole = min(end, time.monotonic() + LEAVE_SECONDS), True
        time.sleep(POLL_SECONDS)


def _kill(child):
    """Ends the child's whole group, its workers too; whether the child has gone. Its number is its own until it is waited for."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    end = time.monotonic() + KILL_SECONDS
    while not (is_gone := os.waitpid(child, os.WNOHANG)[0] == child) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return is_gone


def _why(status, seconds, is_gone):
    if status is None:
        return f"took longer than {seconds:g} seconds" + ("" if is_gone else ", and does not end when it is killed")
    if status.si_code == os.CLD_EXITED:
        return f"ended with status {status.si_status} and no result"
    return f"ended by signal {signal.Signals(status.si_status).name}"
