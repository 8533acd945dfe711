"""Verification of data sets, as `forebay verify` has it.

Reads all files of a data set, in a folder or behind a URL, and compares them with its index.json: sizes, every hash that the
index has, compressed files with raw ones, and the tables of offsets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Any

from . import _forebay
from ._arguments import path
from ._command import Results
from .errors import ConfigError, Error
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
    missing: list[str] = field(default_factory=list)
    """Names of the absent shards of a folder without a remote, or of a URL."""
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
    source: str | os.PathLike[str],
    *,
    remote: str | os.PathLike[str] | None = None,
    repair: bool = False,
    complete: bool = False,
    threads: int | None = None,
    progress: Callable[[Report, int], None] | None = None,
) -> Report:
    """Compares all files of a data set with its index, as in `verify("s3://bucket/set")`.

    Args:
        source: Folder or URL of the data set.
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
    where, origin = path("source", source), None if remote is None else path("remote", remote)
    checked = _forebay.Verification(where, origin, library_stores(where, origin))
    report = Report(is_cache=remote is not None)

    def check(number: int) -> tuple[int, int | None, list[tuple[str, str]], bool]:
        found, damaged = checked.check(number)
        if not (repair if damaged else complete and found is None):
            return number, found, damaged, False
        try:
            checked.repair(number)
        except Error as error:
            damaged = [(file, f"{reason}; it cannot be repaired: {error}") for file, reason in damaged]
            return number, None, damaged or [(f"shard {number}", f"it is absent and cannot be fetched: {error}")], False
        return number, *checked.check(number), True

    pool = ThreadPoolExecutor(threads or _forebay.cpu_count(), "forebay-verify")
    try:
        for done in as_completed([pool.submit(check, number) for number in range(len(checked))]):
            number, found, damaged, is_repaired = done.result()
            report.shards += 1
            report.bytes += found or 0
            if found is None and not damaged:
                report.absent += 1
                report.missing += [] if report.is_cache else [checked.name(number)]
            report.repaired += is_repaired
            report.damaged |= dict(damaged)
            if progress is not None:
                progress(report, len(checked))
    finally:
        pool.shutdown(cancel_futures=True)
    return report


def command(results: Results, **options: Any) -> int:
    """Runs the command; returns its exit code."""

    def progress(report: Report, shards: int) -> None:
        rate = results.per_second(report.bytes / 1e6)
        results.progress(f"{report.shards} of {shards} shards, {len(report.damaged)} damaged files, {rate:.0f} MB/s")

    report = verify(progress=progress, **options)
    for file, reason in sorted(report.damaged.items()):
        results.show(f"{file}: {reason}", file=file, reason=reason)
    for file in sorted(report.missing):
        results.show(f"{file}: it is missing", file=file, reason="it is missing")
    whole = report.shards - report.absent
    text = f"{whole} of {report.shards} shards are there, {report.bytes} bytes were compared"
    figures = {"shards": report.shards, "absent": report.absent, "bytes": report.bytes, "repaired": report.repaired}
    results.show(
        f"{text}, {report.repaired} shards were fetched" if report.repaired else text,
        **figures,
        damaged=len(report.damaged),
        intact=report.is_intact,
    )
    if report.damaged and not report.is_cache and not _forebay.is_url(options["source"]):
        results.note("--repair with --remote URL replaces damaged shards with the shards of the URL")
    if report.absent and not report.is_cache:
        results.note(f"{report.absent} shards are missing: a folder that holds some shards of a remote is checked with --remote URL")
    return int(not report.is_intact)

