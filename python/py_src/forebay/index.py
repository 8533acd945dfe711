"""Indexes for existing data, as `forebay index` makes them: of tars, pictures, files, tables, JPEGs in MDS shards, and lengths in tokens."""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

from . import _forebay, remotes
from ._arguments import folder, shown
from ._command import Results
from .errors import ConfigError, Error
from ._indexes import FileReport, LengthReport, TarReport, index_files, index_lengths, index_tars
from .fields import Tokenize
from .files.stores import settings_of
from ._streams import Stream

__all__ = ["FileReport", "LengthReport", "Report", "TarReport", "index", "index_files", "index_lengths", "index_tars"]


@dataclass
class Report:
    """Figures of a copy."""

    shards: int = 0
    """Shards copied."""
    jpegs: int = 0
    """Values of "jpeg" columns."""
    indexed: int = 0
    """JPEGs with a row index: baseline files without errors."""
    transcoded: int = 0
    """JPEGs that were progressive."""
    sample_bytes: int = 0
    """Uncompressed bytes of the samples."""
    index_bytes: int = 0
    """Bytes of the indexes."""


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
        source: Folder with index.json and MDS shards.
        out: New or empty folder.
        transcode: Rewrite progressive JPEGs as baseline ones.
        threads: Number of shards that are copied in parallel, each fully in memory. None: the CPUs of this process.
        progress: Function that is called after each shard with the report so far and the number of shards.

    Returns:
        The figures of the copy.

    Raises:
        ConfigError: `out` is not empty, a folder is a URL, or no column is "jpeg".
        FormatError: A shard is damaged. The copy then has no index.json, so it cannot be used as a data set.
        UnsupportedError: The shards are not MDS.
    """
    copy = _forebay.IndexedCopy(folder("source", source), folder("out", out), transcode)
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


def command(results: Results, **options: Any) -> int:
    """Runs the command; returns its exit code."""
    given = types.SimpleNamespace(**options)
    are_samples = given.files is not None or given.manifest is not None
    if given.tokenizer is not None:
        _index_lengths(results, given)
    elif not are_samples and (_forebay.is_tar_list(given.source) or _is_folder_of_tars(given.source)):
        _index_tars(results, given)
    elif are_samples or _forebay.is_file_list(given.source) or not _has_mds(given.source):
        report = index_files(given.source, given.out, kind=given.files, manifest=given.manifest, overwrite=given.overwrite)
        results.show(f"{report.url}: {report.samples} samples", **asdict(report))
    elif given.out is None and not os.path.isdir(given.source):
        raise ConfigError(f"there is no folder {shown(given.source)}; a list of files has their extension, as in 'train/*.tar'")
    elif given.out is None:
        raise ConfigError("the data set needs a folder for its copy, as a second argument")
    else:
        _index_jpegs(results, given)
    return 0


def _index_jpegs(results: Results, given: types.SimpleNamespace) -> None:
    def progress(report: Report, shards: int) -> None:
        rate = results.per_second(report.sample_bytes / 1e6)
        results.progress(f"{report.shards} of {shards} shards, {report.jpegs} JPEGs, {rate:.0f} MB/s")

    report = index(given.source, given.out, transcode=given.transcode, threads=given.threads, progress=progress)
    share = 100 * report.index_bytes / max(report.sample_bytes, 1)
    results.show(
        f"{report.indexed} of {report.jpegs} JPEGs have a row index ({report.transcoded} were progressive and are baseline now); "
        f"the index takes {report.index_bytes} bytes, {share:.2f} % of the samples",
        **asdict(report),
    )
    if report.indexed < report.jpegs:
        results.note("the rest are damaged, progressive (use --transcode), or of a rare kind")


def _end(option: str | None) -> bool | str | None:
    return {"yes": True, "no": False}.get(option, option) if option is not None else None


@contextlib.contextmanager
def _continued_if_stopped() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command continues where this one was") from None


def _index_lengths(results: Results, given: types.SimpleNamespace) -> None:
    special = given.allowed_special
    tokens = Tokenize(
        given.column,
        given.tokenizer,
        encoding=given.encoding,
        path=given.path,
        add_bos=_end(given.add_bos),
        add_eos=_end(given.add_eos),
        allowed_special="all" if special == "all" else special.split(",") if special else (),
        errors=given.errors,
    )
    with _continued_if_stopped():
        stream = Stream(remote=given.source, local=given.local, split=given.split, files=given.files, manifest=given.manifest)
        report = index_lengths(
            stream,
            tokens,
            cache_limit=given.cache_limit,
            progress=lambda read, shards: results.progress(f"{read} of {shards} shards are read"),
        )
    figures = {"samples": report.samples, "tokens": report.tokens, "longest": report.longest}
    results.show(f"{report.samples} samples, {report.tokens} tokens, the longest has {report.longest}", **figures)


def _is_folder_of_tars(source: str) -> bool:
    try:
        return _forebay.TarSet.is_folder(source, settings_of(None), remotes.served())
    except Error:
        # The index of a different kind has the reason.
        return False


def _has_mds(source: str) -> bool:
    """True for a folder with an index of shards."""
    if _forebay.is_url(source):
        return False
    index = os.path.join(source, "index.json")
    if not os.path.isfile(index):
        return not os.path.isdir(source)
    try:
        with open(index, "rb") as file:
            return not file.read(32).startswith(b'{"forebay_files":')
    except OSError:
        return True


def _index_tars(results: Results, given: types.SimpleNamespace) -> None:
    def progress(report: TarReport, tars: int) -> None:
        results.progress(f"{report.tars} of {tars} tars, {report.samples} samples")

    with _continued_if_stopped():
        report = index_tars(given.source, given.out, overwrite=given.overwrite, threads=given.threads, progress=progress)
    results.show(f"{report.url}: {report.tars} tars, {report.samples} samples", **asdict(report))
