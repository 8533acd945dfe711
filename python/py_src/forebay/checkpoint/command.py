"""The checkpoints of a folder, as `forebay checkpoint` lists them."""

from __future__ import annotations

import datetime
import os

from .._command import Results
from .._forebay import is_url, size_text
from .commit import folder_of
from .retention import Found, remove_incomplete as remove, survey

_DAY = 86400.0


def command(results: Results, *, prefix: str, remove_incomplete: bool, age: float) -> int:
    """Runs the command; returns its exit code."""
    for url in remove(prefix, age=age) if remove_incomplete else ():
        results.show(f"removed {url}", removed=url)
    found = survey(prefix, None)
    if not found and not results.is_json:
        folder = folder_of("prefix", prefix)
        is_there = is_url(folder) or os.path.isdir(folder)
        results.show(f"no checkpoint under {prefix}" + ("" if is_there else ": there is no such folder"))
    now = datetime.datetime.now(datetime.timezone.utc)
    for each in found:
        step = None if each.commit is None else each.commit.step
        state = "whole" if each.problem is None else each.problem
        number, time = "" if step is None else step, _time(each)
        results.show(
            f"{number:>10}  {size_text(each.size):>11}  {_age(now, time):>9}  {each.url}  {state}",
            url=each.url,
            step=step,
            bytes=each.size,
            time=None if time is None else time.isoformat(),
            problem=each.problem,
        )
    return int(any(each.problem is not None for each in found))


def _time(found: Found) -> datetime.datetime | None:
    return found.changed if found.commit is None else found.commit.time


def _age(now: datetime.datetime, time: datetime.datetime | None) -> str:
    if time is None:
        # Its store has no times.
        return "?"
    elapsed = (now - time).total_seconds()
    for length, name in ((_DAY, "days"), (3600.0, "h"), (60.0, "min")):
        if elapsed >= 2 * length:
            return f"{elapsed / length:.0f} {name}"
    return f"{max(elapsed, 0.0):.0f} s"
