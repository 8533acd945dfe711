"""The command in pseudo-terminals and pipes."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def program(*arguments):
    return [sys.executable, "-m", "forebay", *map(str, arguments)]


def run(*arguments, stdin=None, **environment):
    """Ended command in pipes."""
    env = {**os.environ, **environment}
    return subprocess.run(program(*arguments), stdin=stdin, capture_output=True, text=True, env=env, timeout=600)


def shown(*arguments, columns, term="xterm-256color", **environment):
    """Exit code of the command, and all that it shows in a terminal."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": term, **environment}
    process = subprocess.Popen(program(*arguments), stdin=its, stdout=its, stderr=its, env=env)
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
