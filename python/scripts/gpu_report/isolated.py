"""A function in a process of its own: whatever ends it, or keeps it waiting, ends nothing else.

The process is a fork, since a Python that imports torch anew takes seconds. So the parent must not have touched CUDA, whose state
does not go through a fork, nor have threads that hold locks. The child sends its result as JSON through a pipe, with its length in
front: a grandchild may keep the pipe open for ever.
"""

import contextlib
import ctypes
import faulthandler
import json
import os
import signal
import sys
import tempfile
import time
import traceback

POLL_SECONDS = 0.02
"""Between two looks at the child: nothing against what is measured, even on one core."""

LEAVE_SECONDS = 5.0
"""For a child that has sent its result, whose driver may have much to tidy up."""

KILL_SECONDS = 10.0
"""For a killed child; one that waits in the kernel may stay for longer, and is left there."""

STACK_SECONDS = 5.0
"""Before the end, a child that is still at it writes down where it stands; a quarter of the time if that is less."""

ENDING = (signal.SIGINT, signal.SIGTERM)
"""End the parent, and must end the child before."""

LENGTH_BYTES = 8

PR_SET_PDEATHSIG = 1


class Ended(RuntimeError):
    """The child gave no result; the text says why, and `stack` where it stood, if that is known."""

    def __init__(self, why, stack):
        super().__init__(why)
        self.stack = stack


def call(function, seconds):
    """The result of `function()`, which JSON can hold, out of a child that has so many seconds. Nothing of the child is left
    afterwards, except for processes that moved to another group. Only the main thread may call.

    Raises:
        Ended: A signal ended the child, or its time was over, or it raised.
    """
    for stream in (sys.stdout, sys.stderr):
        # The child would write what is in the buffer a second time.
        stream.flush()
    with tempfile.TemporaryFile() as stacks, _endings_kept() as endings:
        reading, writing = os.pipe()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            os.close(reading)
            _child(function, writing, stacks, seconds, parent)
        os.close(writing)
        with contextlib.suppress(OSError):
            # Both do it, whoever comes first: from here on there is a group to kill.
            os.setpgid(child, child)
        try:
            received, status = _await(child, reading, seconds, endings)
        finally:
            os.close(reading)
            is_gone = _kill(child)
        stacks.seek(0)
        stack = stacks.read().decode(errors="replace")
    sys.stderr.write(stack)
    if _is_whole(received):
        return json.loads(received[LENGTH_BYTES:])
    raise Ended(_why(status, seconds, is_gone), stack)


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


def _child(function, pipe, stacks, seconds, parent):
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
        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(seconds - min(STACK_SECONDS, seconds / 4), file=stacks)
        message = json.dumps(function()).encode()
        with open(pipe, "wb") as file:
            file.write(len(message).to_bytes(LENGTH_BYTES, "little") + message)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _await(child, pipe, seconds, endings):
    """What the child sent until it ended, or was to be ended, and its status if it ended by itself."""
    os.set_blocking(pipe, False)
    received, end, was_whole = bytearray(), time.monotonic() + seconds, False
    while True:
        # Asked before reading: all that an ended child has sent lies in the pipe.
        status = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        is_over = status is not None or endings or time.monotonic() >= end
        with contextlib.suppress(BlockingIOError):
            while some := os.read(pipe, 1 << 16):
                received += some
        if is_over:
            return received, status
        if _is_whole(received) and not was_whole:
            end, was_whole = min(end, time.monotonic() + LEAVE_SECONDS), True
        time.sleep(POLL_SECONDS)


def _is_whole(received):
    length = int.from_bytes(received[:LENGTH_BYTES], "little")
    return len(received) >= LENGTH_BYTES and len(received) == LENGTH_BYTES + length


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
