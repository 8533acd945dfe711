"""Progress of commands on the terminal."""

from __future__ import annotations

import sys


def show(line: str, *, is_last: bool) -> None:
    """Shows the progress so far: on a terminal as one line that changes, elsewhere the last line alone."""
    if sys.stderr.isatty():
        # The line may be shorter than the one before.
        print(f"\r\x1b[K{line}", end="\n" if is_last else "", file=sys.stderr, flush=True)
    elif is_last:
        print(line, file=sys.stderr)
