"""Row indexes for data that exists: `python -m forebay.index SOURCE OUT`.

Copies an MDS data set from one folder to another, shard by shard, and puts behind the samples of each shard where the rows of
every JPEG start, 0.2 to 0.3 % of its bytes. `forebay.Loader` then does not decode what lies above and right of a crop; the
pixels are the same. Samples, their shards and their order stay as they are, and other readers, MosaicML streaming among
them, read past the index. Sizes and hashes in the copy's index.json are new, so it is another data set to a cache, and a
checkpoint of the original is loaded with `strict=False`.

    python -m forebay.index data/train data/train-indexed
    python -m forebay.index --transcode data/train data/train-indexed

With `--transcode`, progressive JPEGs become baseline ones of the same pixels, with all their markers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from . import _forebay
from .errors import Error
from .shards import _folder

__all__ = ["Report", "index"]


@dataclass
class Report:
    """What a copy holds."""

    shards: int = 0
    """Shards copied."""
    jpegs: int = 0
    """Values of "jpeg" columns."""
    indexed: int = 0
    """Those with a row index: flawless baseline files."""
    transcoded: int = 0
    """Those that were progressive."""
    sample_bytes: int = 0
    """Bytes of the samples, not compressed."""
    index_bytes: int = 0
    """Bytes of the indexes behind them."""


def index(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    transcode: bool = False,
    threads: int | None = None,
    progress: Callable[[Report, int], None] | None = None,
) -> Report:
    """Copies a data set and indexes its JPEGs.

    Args:
        source: A folder with index.json and MDS shards.
        out: A folder that is new or empty.
        transcode: Rewrite progressive JPEGs as baseline ones.
        threads: Shards at a time, each of which is in memory as a whole. None: the CPUs that this process may use.
        progress: Called behind each shard, with the report so far and how many shards there are.

    Returns:
        What was done.

    Raises:
        ConfigError: `out` holds something, one of both is a URL, or no column is "jpeg".
        FormatError: A shard is damaged. The copy then has no index.json, so nothing takes it for a data set.
        UnsupportedError: The shards are not MDS.
    """
    copy = _forebay.IndexedCopy(_folder(source), _folder(out), transcode)
    report = Report()
    pool = ThreadPoolExecutor(threads or _forebay.cpu_count(), "forebay-index")
    try:
        for done in as_completed([pool.submit(copy.shard, number) for number in range(len(copy))]):
            jpegs, indexed, transcoded, sample_bytes, index_bytes = done.result()
            report.shards += 1
            report.jpegs += jpegs
            report.indexed += indexed
            report.transcoded += transcoded
            report.sample_bytes += sample_bytes
            report.index_bytes += index_bytes
            if progress is not None:
                progress(report, len(copy))
    finally:
        pool.shutdown(cancel_futures=True)
    copy.finish()
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0 when all went well."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m forebay.index", description=__doc__.split("\n\n")[1], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", help="folder with index.json and MDS shards")
    parser.add_argument("out", help="folder for the copy, new or empty")
    parser.add_argument("--transcode", action="store_true", help="rewrite progressive JPEGs as baseline, without loss")
    parser.add_argument("--threads", type=int, help="shards at a time [default: the CPUs of this process]")
    given = parser.parse_args(arguments)
    if given.threads is not None and given.threads < 1:
        parser.error(f"--threads must be at least 1, not {given.threads}")
    start = time.monotonic()

    def progress(report: Report, shards: int) -> None:
        rate = report.sample_bytes / 1e6 / max(time.monotonic() - start, 1e-9)
        line = f"{report.shards} of {shards} shards, {report.jpegs} JPEGs, {rate:.0f} MB/s"
        # One line that changes on a terminal, lines elsewhere only at the end.
        if sys.stderr.isatty():
            print(f"\r{line}", end="\n" if report.shards == shards else "", file=sys.stderr, flush=True)
        elif report.shards == shards:
            print(line, file=sys.stderr)

    try:
        report = index(given.source, given.out, transcode=given.transcode, threads=given.threads, progress=progress)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    share = 100 * report.index_bytes / max(report.sample_bytes, 1)
    print(
        f"{report.indexed} of {report.jpegs} JPEGs have a row index ({report.transcoded} were progressive and are baseline now); "
        f"the index takes {report.index_bytes} bytes, {share:.2f} % of the samples"
    )
    if report.indexed < report.jpegs:
        print("those without one are damaged, or progressive, which --transcode rewrites, or of a rare kind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
