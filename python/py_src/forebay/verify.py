"""Verification of data sets: `python -m forebay.verify PLACE`.

Reads all files of a data set, in a folder or behind a URL, and compares them with its index.json: sizes, every hash that the
index has, compressed files with raw ones, and the tables of offsets. With `--remote`, the folder is a cache of that remote:
shards may be absent, and `--repair` replaces the damaged ones. Jobs may run meanwhile; a shard that one reads is left as it is.

    python -m forebay.verify s3://bucket/train
    python -m forebay.verify data/train
    python -m forebay.verify /cache/train --remote s3://bucket/train --repair

The result is 0 if every file is intact at the end, 1 if not, and 2 if the data set cannot be read.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

from . import _forebay
from ._arguments import path
from ._command import positive
from .errors import ConfigError, Error
from ._progress import show
from .remotes import library_stores

__all__ = ["Report", "verify"]


@dataclass
class Report:
    """Result of a verification."""

    shards: int = 0
    """Shards that were checked."""
    bytes: int = 0
    """Bytes of the shards that are whole."""
    absent: int = 0
    """Shards without any file, after a repair."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that are damaged or missing, with the reason, after a repair."""
    repaired: int = 0
    """Shards that were replaced or fetched."""
    is_cache: bool = False
    """The folder has a remote, so that shards may be absent."""

    @property
    def is_intact(self) -> bool:
        """True if no file is damaged, and no shard is missing where all have to be there."""
        return not self.damaged and (self.is_cache or not self.absent)


def verify(
    place: str | os.PathLike[str],
    *,
    remote: str | os.PathLike[str] | None = None,
    repair: bool = False,
    complete: bool = False,
    threads: int | None = None,
    progress: Callable[[Report, int], None] | None = None,
) -> Report:
    """Compares all files of a data set with its index, as in `verify("s3://bucket/set")`.

    Args:
        place: Folder or URL of the data set.
        remote: URL or folder that the shards of a folder come from. The folder is then a cache, and shards may be absent.
        repair: Replace damaged shards with the shards of `remote`.
        complete: Fetch absent shards from `remote`.
        threads: Number of shards that are checked in parallel, each fully in memory. None: the CPUs of this process.
        progress: Function that is called after each shard with the report so far and the number of shards.

    Returns:
        The result. A shard that could not be repaired is in `damaged`, with the reason.

    Raises:
        ConfigError: `repair` or `complete` without `remote`, or `remote` for a URL.
        NotFoundError: There is no index.
        FormatError: The index is damaged.
        StaleError: The remote has a different index.
        Error: The store fails; see `forebay.errors` for all kinds.
    """
    if (repair or complete) and remote is None:
        raise ConfigError("shards are fetched from a remote: pass remote, the URL that they come from")
    where, origin = path("place", place), None if remote is None else path("remote", remote)
    checked = _forebay.Verification(where, origin, library_stores(where, origin))
    report = Report(is_cache=remote is not None)

    def check(number: int) -> tuple[int | None, list[tuple[str, str]], bool]:
        found, damaged = checked.check(number)
        if not (repair if damaged else complete and found is None):
            return found, damaged, False
        try:
            checked.repair(number)
        except Error as error:
            damaged = [(file, f"{reason}; it cannot be repaired: {error}") for file, reason in damaged]
            return None, damaged or [(f"shard {number}", f"it is absent and cannot be fetched: {error}")], False
        return *checked.check(number), True

    pool = ThreadPoolExecutor(threads or _forebay.cpu_count(), "forebay-verify")
    try:
        for done in as_completed([pool.submit(check, number) for number in range(len(checked))]):
            found, damaged, is_repaired = done.result()
            report.shards += 1
            report.bytes += found or 0
            report.absent += found is None and not damaged
            report.repaired += is_repaired
            report.damaged |= dict(damaged)
            if progress is not None:
                progress(report, len(checked))
    finally:
        pool.shutdown(cancel_futures=True)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its result."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m forebay.verify", description=__doc__.split("\n\n", 1)[1], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("place", help="folder or URL of the data set")
    parser.add_argument("--remote", help="URL or folder that the shards of a folder come from: the folder is its cache")
    parser.add_argument("--repair", action="store_true", help="replace damaged shards with the remote's")
    parser.add_argument("--complete", action="store_true", help="fetch absent shards from the remote")
    parser.add_argument("--threads", type=positive, help="shards at a time [default: the CPUs of this process]")
    given = parser.parse_args(arguments)
    start = time.monotonic()

    def progress(report: Report, shards: int) -> None:
        rate = report.bytes / 1e6 / max(time.monotonic() - start, 1e-9)
        line = f"{report.shards} of {shards} shards, {len(report.damaged)} damaged files, {rate:.0f} MB/s"
        show(line, is_last=report.shards == shards)

    try:
        report = verify(
            given.place,
            remote=given.remote,
            repair=given.repair,
            complete=given.complete,
            threads=given.threads,
            progress=progress,
        )
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for file, reason in sorted(report.damaged.items()):
        print(f"{file}: {reason}")
    whole = report.shards - report.absent
    print(f"{whole} of {report.shards} shards are there, {report.bytes} bytes were compared", end="")
    print(f", {report.repaired} shards were fetched" if report.repaired else "")
    if report.is_intact:
        return 0
    if report.damaged and given.remote is None and not _forebay.is_url(given.place):
        print("--repair with --remote URL replaces damaged shards with those of the URL")
    if report.absent and not report.is_cache:
        print(f"{report.absent} shards are missing: a folder that holds some shards of a remote is checked with --remote URL")
    return 1


if __name__ == "__main__":
    sys.exit(main())
