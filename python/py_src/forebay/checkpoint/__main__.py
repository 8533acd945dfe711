"""Lists the checkpoints of a folder, oldest first, and removes the leftovers of unfinished saves.

    python -m forebay.checkpoint s3://bucket/run
    python -m forebay.checkpoint s3://bucket/run --remove-incomplete

The result is 1 if a folder is not a whole checkpoint.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence

from ..errors import Error
from .retention import Found, remove_incomplete, survey

_DAY = 86400.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its result."""
    parser = argparse.ArgumentParser(
        prog="python -m forebay.checkpoint", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("prefix", help="URL or path of the folder of a run")
    parser.add_argument(
        "--remove-incomplete", action="store_true", help="remove folders without a commit that are older than --age"
    )
    parser.add_argument(
        "--age", type=float, default=86400.0, help="seconds since the last change; a newer folder may be in use [default: 86400, a day]"
    )
    given = parser.parse_args(arguments)
    try:
        if given.remove_incomplete:
            for url in remove_incomplete(given.prefix, age=given.age):
                print(f"removed {url}")
        found = survey(given.prefix, None)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not found:
        print(f"no checkpoint under {given.prefix}")
    now = datetime.datetime.now(datetime.timezone.utc)
    for each in found:
        step = "" if each.commit is None or each.commit.step is None else str(each.commit.step)
        state = "whole" if each.problem is None else each.problem
        print(f"{step:>10}  {_size(each.size):>9}  {_age(now, each):>9}  {each.url}  {state}")
    return int(any(each.problem is not None for each in found))


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"


def _age(now: datetime.datetime, found: Found) -> str:
    time = found.changed if found.commit is None else found.commit.time
    if time is None:
        # Its store has no times.
        return "?"
    elapsed = (now - time).total_seconds()
    for length, name in ((_DAY, "days"), (3600.0, "h"), (60.0, "min")):
        if elapsed >= 2 * length:
            return f"{elapsed / length:.0f} {name}"
    return f"{max(elapsed, 0.0):.0f} s"


if __name__ == "__main__":
    sys.exit(main())
