"""Indexes for existing data: `python -m forebay.index TARS`, `python -m forebay.index PICTURES`, `python -m forebay.index MDS OUT` and
`python -m forebay.index DATA --tokenizer FILE`.

With tar files, or their folder, it writes the index.json that a loader needs next to them, and nothing else; with a folder of
pictures or files of any kind, their list, so that loaders list nothing and a web server can have them; with Parquet and Arrow files their facts about their groups of
rows, so that loaders do not read it from each of them. With an MDS data set it writes a copy with row indexes: copies the data set from one folder to a second one, shard by shard, and appends to each shard the positions of the rows
of every JPEG, 0.2 to 0.3 % of its bytes. With them `forebay.Loader` skips the parts above and right of a crop; the
pixels are the same. Samples, their shards and their order do not change, and readers, such as MosaicML streaming,
ignore the index. Sizes and hashes in the copy's index.json are new. A cache therefore treats the copy as a different data
set, and a checkpoint of the original must be loaded with `strict=False`.

    python -m forebay.index "s3://bucket/train-{000..146}.tar"
    python -m forebay.index s3://bucket/train
    python -m forebay.index s3://bucket/photos/train
    python -m forebay.index "s3://bucket/tables/*.parquet"
    python -m forebay.index --files stem s3://bucket/pairs
    python -m forebay.index data/train data/train-indexed
    python -m forebay.index --transcode data/train data/train-indexed
    python -m forebay.index s3://bucket/texts --tokenizer tokenizer.json --column text

`--transcode` rewrites progressive JPEGs as baseline JPEGs with the same pixels and markers.

With `--tokenizer` the tokens of each sample of any data set are counted, and kept in the cache of this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from . import _forebay, remotes
from ._arguments import folder, shown
from ._command import positive
from .errors import Error
from ._file_index import FileReport, index_files
from .fields import Tokenize
from .files.stores import settings_of
from ._length_index import LengthReport, index_lengths
from ._progress import show
from ._streams import Stream
from ._tar_index import TarReport, index_tars

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0 on success."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m forebay.index", description=__doc__.split("\n\n")[1], formatter_class=argparse.RawTextHelpFormatter
    )
    source = "tar files or their folder, a folder or pattern of files or tables, or a folder with index.json and MDS shards"
    parser.add_argument("source", help=source)
    parser.add_argument("out", nargs="?", help="for MDS: folder for the copy, new or empty; else folder for index.json [default: theirs]")
    parser.add_argument("--overwrite", action="store_true", help="replace an index of tars or files")
    parser.add_argument("--files", choices=("each", "stem"), help="files of any kind: a sample each, or all files of one stem")
    parser.add_argument("--manifest", help="CSV, TSV or JSON-lines file, or annotations of COCO, that name the files")
    parser.add_argument("--transcode", action="store_true", help="rewrite progressive JPEGs as baseline, without loss")
    parser.add_argument("--threads", type=positive, help="shards at a time [default: the CPUs of this process; 16 tars]")
    _add_options_of_lengths(parser)
    given = parser.parse_args(arguments)
    try:
        _run(given, parser)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if given.tokenizer is not None:
        return _index_lengths(given)
    are_samples = given.files is not None or given.manifest is not None
    if not are_samples and (_forebay.is_tar_list(given.source) or _is_folder_of_tars(given.source)):
        return _index_tars(given)
    if are_samples or _forebay.is_file_list(given.source) or not _has_mds(given.source):
        return _index_files(given)
    if given.out is None and not os.path.isdir(given.source):
        parser.error(f"there is no folder {shown(given.source)}; a list of files has their extension, as in 'train/*.tar'")
    if given.out is None:
        parser.error("the data set needs a folder for its copy, as a second argument")
    return _index_jpegs(given)


def _index_jpegs(given: argparse.Namespace) -> None:
    start = time.monotonic()

    def progress(report: Report, shards: int) -> None:
        rate = report.sample_bytes / 1e6 / max(time.monotonic() - start, 1e-9)
        line = f"{report.shards} of {shards} shards, {report.jpegs} JPEGs, {rate:.0f} MB/s"
        show(line, is_last=report.shards == shards)

    report = index(given.source, given.out, transcode=given.transcode, threads=given.threads, progress=progress)
    share = 100 * report.index_bytes / max(report.sample_bytes, 1)
    print(
        f"{report.indexed} of {report.jpegs} JPEGs have a row index ({report.transcoded} were progressive and are baseline now); "
        f"the index takes {report.index_bytes} bytes, {share:.2f} % of the samples"
    )
    if report.indexed < report.jpegs:
        print("the rest are damaged, progressive (use --transcode), or of a rare kind")


def _add_options_of_lengths(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("lengths in tokens")
    options.add_argument("--tokenizer", help="path or URL of a tokenizer.json, or of ranks of tiktoken: count the tokens of each sample once")
    options.add_argument("--encoding", help="with ranks, the name of tiktoken's encoding, such as o200k_base")
    options.add_argument("--column", default="text", help="column with the text [default: text]")
    options.add_argument("--path", help="path to the text in a column of JSON documents, such as meta.text")
    options.add_argument("--add-bos", metavar="TOKEN", help="token before each text; yes or no: with or without the tokenizer's own")
    options.add_argument("--add-eos", metavar="TOKEN", help="token after each text, in the same way")
    options.add_argument("--allowed-special", metavar="TOKENS", help="special tokens that a text may contain, as in <a>,<b>; or all")
    options.add_argument("--errors", choices=("strict", "replace"), default="strict", help="bytes that are not UTF-8 [default: strict]")
    options.add_argument("--local", help="folder of the shards on this machine, as `local` of the Loader")
    options.add_argument("--cache-limit", help="bytes of shards there, such as 100gb, as `cache_limit` of the Loader")
    options.add_argument("--split", help="split of the data set, as `split` of the Loader")


def _end(option: str | None) -> bool | str | None:
    return {"yes": True, "no": False}.get(option, option) if option is not None else None


@contextlib.contextmanager
def _continued_if_stopped() -> Iterator[None]:
    """Ends the process at Ctrl-C. The same command continues its work later."""
    try:
        yield
    except KeyboardInterrupt:
        print("stopped: the same command continues where this one was", file=sys.stderr, flush=True)
        # An exit would wait for the shards or tars that are read at the moment.
        os._exit(130)


def _index_lengths(given: argparse.Namespace) -> None:
    start = time.monotonic()

    def progress(read: int, shards: int) -> None:
        show(f"{read} of {shards} shards are read, {time.monotonic() - start:.0f} s", is_last=False)

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
        report = index_lengths(stream, tokens, cache_limit=given.cache_limit, progress=progress)
    show(f"{report.samples} samples, {report.tokens} tokens, the longest has {report.longest}", is_last=True)


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


def _index_files(given: argparse.Namespace) -> None:
    report = index_files(given.source, given.out, kind=given.files, manifest=given.manifest, overwrite=given.overwrite)
    print(f"{report.url}: {report.samples} samples")


def _index_tars(given: argparse.Namespace) -> None:
    def progress(report: TarReport, tars: int) -> None:
        show(f"{report.tars} of {tars} tars, {report.samples} samples", is_last=report.tars == tars)

    with _continued_if_stopped():
        report = index_tars(given.source, given.out, overwrite=given.overwrite, threads=given.threads, progress=progress)
    print(f"{report.url}: {report.tars} tars, {report.samples} samples")


if __name__ == "__main__":
    sys.exit(main())
