"""Conversion to MDS, as `forebay convert` has it."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

from . import _forebay
from ._arguments import anywhere, byte_size, destination, flag, path, shown, text, whole
from ._choices import Hash
from ._command import Results
from ._converted_columns import ABSENT, ConvertedColumns
from .errors import ConfigError, NotFoundError, UnsupportedError
from .fields.base import specs
from .files import list_files
from .files import open as open_file
from ._groups import TokenWindow, token_window
from .remotes import library_stores
from ._streams import Stream, config_of
from .verify import verify

__all__ = ["Report", "convert", "merge_parts"]

_PLAN = "convert.json"
_INDEX = "index.json"

_PART_SHARDS = 4
"""Shards of a part, so that few of them are shorter than the limit, and little is repeated after a kill."""
_PART_BYTES = 256 << 20
"""Bytes of a part without a limit of shards."""
_BATCH_ROWS = 256
_BATCH_BYTES = 8 << 20
"""Bounds of a batch; several are in memory."""


@dataclass
class Report:
    """Figures of a conversion."""

    samples: int = 0
    """Samples that are in complete parts."""
    parts: int = 0
    """Complete parts."""
    kept: int = 0
    """Complete parts that an earlier run has written."""


@dataclass(frozen=True)
class _Plan:
    """Division of a data set into parts, kept in the result while it is written."""

    source: str
    options: dict[str, Any]
    """Options of the Loader."""
    columns: ConvertedColumns
    writer: dict[str, Any]
    """Options of the MDSWriter."""
    digest: str
    """Text that differs for different samples, as far as that is known without reading them."""
    samples: int
    parts: int
    part_batches: int
    batch_size: int

    @property
    def part_samples(self) -> int:
        return self.part_batches * self.batch_size

    def conversion(self, threads: int, stores: _forebay.LibraryStores | None) -> _forebay.Conversion:
        """Opens the data set, with as many threads that decode."""
        given = {"batch_size": self.batch_size, "fields": specs(self.columns.fields()), "threads": threads}
        config = _config(self.source, self.options) | given | {"order": {"num_canonical_nodes": 1}}
        return _forebay.Conversion(json.dumps(config), self.columns.outputs(), ABSENT, self.columns.are_all, stores)


def convert(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    nulls: bool = False,
    compression: str | None = None,
    hashes: Sequence[Hash] = ("xxh64",),
    size_limit: int | str | None = 1 << 26,
    shuffle: int | None = None,
    window: int | None = None,
    window_stride: int | None = None,
    local: str | os.PathLike[str] | None = None,
    cache_limit: int | str | None = None,
    threads: int | None = None,
    progress: Callable[[Report, int], None] | None = None,
) -> Report:
    """Writes the samples of a data set as MDS, in their order, as in `convert("train-{000..146}.tar", "s3://bucket/mds")`.

    Args:
        source: Data set, as `remote` of a Loader.
        out: Folder to write to, new, empty, or with the files of an earlier run: a path, or a folder of a store.
        columns: Columns to write. None: all, also those that only some samples have; `__fields__` then has the names of the
            columns of each sample.
        nulls: Write nulls of tables as columns that a sample does not have. False: a null is an error.
        compression: As in MDSWriter.
        hashes: As in MDSWriter. They are compared when a killed run continues.
        size_limit: As in MDSWriter.
        shuffle: Seed of the order in which the samples are written, as for a shuffled Loader. None: their own order.
        window: Tokens of a sample, for files of token ids.
        window_stride: Tokens from the start of a window to the start of the next one. None: `window`.
        local: As in Loader, for a remote source.
        cache_limit: As in Loader.
        threads: Parts that are written at a time. None: the CPUs of this process.
        progress: Function that is called after each part with the report so far and the number of parts.

    Returns:
        The figures of all parts.

    Raises:
        ConfigError: An argument is wrong, or `out` has a different conversion or unknown files.
        FormatError: A sample is damaged.
        Error: A store fails; see `forebay.errors` for all kinds.
    """
    out = destination("out", out).rstrip("/")
    if shuffle is not None:
        whole("shuffle", shuffle)
    options = {"window": window, "window_stride": window_stride, "cache_limit": byte_size("cache_limit", cache_limit)}
    options |= {"local": None if local is None else path("local", local)}
    options |= {} if shuffle is None else {"shuffle": True, "seed": shuffle}
    source = anywhere(path("source", source))
    # The features of all records, also those that the first ones lack.
    options["ignore_counts"] = _forebay.is_record_list(source) or None
    options = {name: value for name, value in options.items() if value is not None}
    writer = {"compression": compression, "hashes": list(hashes), "size_limit": byte_size("size_limit", size_limit)}
    wanted = None if columns is None else [text("columns", name) for name in columns]
    plan = _plan(source, options, wanted, flag("nulls", nulls), writer)
    missing = _missing(out, plan)
    report = Report()
    for number in range(plan.parts):
        if number not in missing:
            report.parts, report.kept = report.parts + 1, report.kept + 1
            report.samples += _samples_of(plan, number)
    if progress is not None:
        progress(report, plan.parts)
    with contextlib.closing(_written(out, plan, missing, min(len(missing), threads or _forebay.cpu_count()))) as written:
        for number in written:
            report.parts, report.samples = report.parts + 1, report.samples + _samples_of(plan, number)
            if progress is not None:
                progress(report, plan.parts)
    merge_parts(out, [_part(number) for number in range(plan.parts)])
    return report


def merge_parts(out: str, parts: Sequence[str]) -> None:
    """Writes an index of the shards of all `parts`, which are folders below `out` with an index each, in their order."""
    shards = []
    for part in parts:
        with open_file(f"{out}/{part}/{_INDEX}") as file:
            for shard in json.load(file)["shards"]:
                for kind in ("raw_data", "zip_data"):
                    if shard.get(kind):
                        shard[kind]["basename"] = f"{part}/{shard[kind]['basename']}"
                shards.append(shard)
    _write(f"{out}/{_INDEX}", {"version": 2, "shards": shards})


def _plan(source: str, options: dict[str, Any], wanted: list[str] | None, nulls: bool, writer: dict[str, Any]) -> _Plan:
    """Opens the data set, and divides it."""
    config = _config(source, options) | {"batch_size": 1}
    described = json.loads(_forebay.Engine.describe(json.dumps(config), library_stores(source)))
    samples, mean = described["samples"], max(1, described["bytes"] // max(1, described["samples"]))
    batch_size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean))
    part_bytes = _PART_SHARDS * writer["size_limit"] if writer["size_limit"] else _PART_BYTES
    part_batches = max(1, -(-part_bytes // (mean * batch_size)))
    parts = -(-samples // (part_batches * batch_size))
    columns = ConvertedColumns.of(described, wanted, nulls)
    return _Plan(source, options, columns, writer, described["digest"], samples, parts, part_batches, batch_size)


def _config(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the engine's form of the arguments of a loader of `source`."""
    stream = Stream(remote=source, **{name: options[name] for name in ("local", "ignore_counts") if name in options})
    config = {name: options[name] for name in ("cache_limit", "shuffle", "seed") if name in options}
    if "window" in options:
        config["window"] = token_window("window", TokenWindow(options["window"], options.get("window_stride")))
    elif "window_stride" in options:
        raise ConfigError("window_stride is the distance of windows, and there is no window: set `window`, or omit window_stride")
    return {"streams": [config_of(stream)], **config}


def _part(number: int) -> str:
    return f"part.{number:05}"


def _samples_of(plan: _Plan, number: int) -> int:
    return min(plan.part_samples, plan.samples - number * plan.part_samples)


def _missing(out: str, plan: _Plan) -> list[int]:
    """Returns the parts that `out` lacks, or that have damaged files."""
    known = _read(f"{out}/{_PLAN}")
    if known is None:
        if _read(f"{out}/{_INDEX}") is not None:
            raise ConfigError(f"{shown(out)} has a data set already: choose a different folder, or remove it")
        # A store may have no lists.
        with contextlib.suppress(UnsupportedError):
            if (found := next(iter(list_files(f"{out}/")), None)) is not None:
                raise ConfigError(f"{shown(out)} has different files, such as {shown(found.url)}: choose a different folder")
        _write(f"{out}/{_PLAN}", asdict(plan))
        return list(range(plan.parts))
    own = json.loads(json.dumps(asdict(plan)))
    if known != own and known | {"digest": plan.digest} == own:
        raise ConfigError(
            f"{shown(out)} has the parts of a conversion of {shown(plan.source)}, which has changed since: choose a different folder, or "
            "remove this one"
        )
    if known != own:
        raise ConfigError(
            f"{shown(out)} has the parts of a conversion with a different source or options: continue with the same ones, or "
            "choose a different folder"
        )
    return [number for number in range(plan.parts) if not _is_intact(f"{out}/{_part(number)}")]


def _is_intact(part: str) -> bool:
    try:
        return verify(part).is_intact
    except NotFoundError:
        return False


def _read(url: str) -> Any:
    """Returns a document, or None if there is none."""
    try:
        with open_file(url) as file:
            return json.load(file)
    except NotFoundError:
        return None
    except ValueError:
        raise ConfigError(f"{url} is damaged: remove the folder, and convert again") from None


def _write(url: str, document: Any) -> None:
    if "://" not in url:
        os.makedirs(os.path.dirname(url) or ".", exist_ok=True)
    with open_file(url, "wb") as file:
        file.write(json.dumps(document).encode())


def _written(out: str, plan: _Plan, missing: Sequence[int], threads: int) -> Iterator[int]:
    """Writes the parts `missing`, as many as `threads` at a time, and yields the number of each when it is complete."""
    decoders, stores = max(1, _forebay.cpu_count() // max(threads, 1)), library_stores(plan.source, out)
    writer = {"columns": plan.columns.written(), "exist_ok": True, "threads": decoders, **plan.writer}
    opened: list[tuple[_forebay.Conversion, ThreadPoolExecutor]] = []
    numbers: dict[Future[None], int] = {}
    try:
        for thread in range(threads):
            conversion, pool = plan.conversion(decoders, stores), ThreadPoolExecutor(1, "forebay-convert")
            opened.append((conversion, pool))
            # Consecutive parts: the loader reads on where the last one ended.
            for number in missing[len(missing) * thread // threads : len(missing) * (thread + 1) // threads]:
                options = json.dumps(writer | {"out": f"{out}/{_part(number)}"})
                part = pool.submit(conversion.write, options, number * plan.part_batches, _samples_of(plan, number))
                numbers[part] = number
        for done in as_completed(numbers):
            done.result()
            yield numbers[done]
    finally:
        for conversion, pool in opened:
            pool.shutdown(wait=False, cancel_futures=True)
            conversion.close()


def command(results: Results, **options: Any) -> int:
    """Runs the command; returns its exit code."""

    def text(report: Report, parts: int) -> str:
        line = f"{report.parts} of {parts} parts, {report.samples} samples, {results.per_second(report.samples):.0f} samples/s"
        return f"{line}, {report.kept} parts kept" if report.kept else line

    report = convert(progress=lambda report, parts: results.progress(text(report, parts)), **options)
    results.show(text(report, report.parts), **asdict(report))
    return 0
