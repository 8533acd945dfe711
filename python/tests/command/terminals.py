"""The command in pseudo-terminals and pipes, and its expected texts."""

import fcntl
import os
import pathlib
import pty
import struct
import subprocess
import sys
import termios

GOLDEN = pathlib.Path(__file__).parent / "golden"


def program(*arguments):
    return [sys.executable, "-m", "forebay", *map(str, arguments)]


def run(*arguments, stdin=None, **environment):
    """Ended command in pipes."""
    env = {**os.environ, **environment}
    return subprocess.run(program(*arguments), stdin=stdin, capture_output=True, text=True, env=env, timeout=600)


def shown(*arguments, columns, term="xterm-256color", rows=24, stderr=None, without=("NO_COLOR", "COLUMNS"), **environment):
    """Exit code of the command, and all that it shows in a terminal: its errors too, unless `stderr` is a file for them."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in without}
    env |= {"TERM": term, **environment}
    process = subprocess.Popen(program(*arguments), stdin=its, stdout=its, stderr=stderr or its, env=env)
    os.close(its)
    text = b""
    try:
        while piece := os.read(own, 1 << 16):
            text += piece
    except OSError:
        # The last process with the terminal has closed it.
        pass
    finally:
        os.close(own)
    return process.wait(600), text.decode().replace("\r\n", "\n")


def compared(name, text):
    """Compares a text with the expected one."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("FOREBAY_WRITE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: FOREBAY_WRITE_GOLDEN=1 writes it again"
