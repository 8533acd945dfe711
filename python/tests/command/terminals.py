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
    env = {name: value for name, value in os.environ.items() if name not in without}
    env |= {"TERM": term, **environment}
    return in_terminal(program(*arguments), size=(rows, columns), stderr=stderr, env=env)


def in_terminal(command, typed="", size=(24, 80), stderr=None, **settings):
    """Exit code of a program, and all that it shows in a terminal in which `typed` is typed."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=stderr or its, start_new_session=bool(typed), **settings)
    os.close(its)
    os.write(own, typed.encode())
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
