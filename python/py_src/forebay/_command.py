"""Results of the package's commands: lines for people, or JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from ._forebay import one_line
from .errors import IoError


def visible(text: str) -> str:
    """Returns `text` in one line, with the characters that control a terminal or are no text as escapes."""
    return one_line(text.encode(errors="backslashreplace").decode())


class Results:
    """Results of a command on the standard output, as JSON objects if `is_json`, and its progress on the standard error."""

    def __init__(self, is_json: bool) -> None:
        self.is_json = is_json
        self._start = time.monotonic()
        self._has_progress = False

    def show(self, text: str, **record: Any) -> None:
        """Prints a result: `record` as JSON, or `text`."""
        self.progress("")
        try:
            print(json.dumps(record) if self.is_json else visible(text), flush=True)
        except OSError as error:
            # The rest of the results, also in the buffer, goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            # A reader that has seen enough, as `head` has, is no failure.
            if not isinstance(error, BrokenPipeError):
                raise IoError(f"the standard output cannot be written: {error}") from None

    def progress(self, text: str) -> None:
        """Shows how far the work is, only on a terminal: one line, which the next one replaces."""
        if (text or self._has_progress) and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            print(f"\r\x1b[K{visible(text)}", end="", file=sys.stderr, flush=True)
            self._has_progress = bool(text)

    def note(self, text: str) -> None:
        """Prints a line for people that is no result."""
        self.progress("")
        print(visible(text), file=sys.stderr)

    def fail(self, kind: str, message: str) -> int:
        """Prints an error; returns the exit code."""
        if self.is_json:
            self.show("", error=kind, message=message)
        self.note(f"error: {message}")
        return 2

    def per_second(self, count: float) -> float:
        """Rate of `count` since the start of the command."""
        return count / max(time.monotonic() - self._start, 1e-9)
