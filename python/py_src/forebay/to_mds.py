"""Conversion to MDS, as `forebay convert` has it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from . import _forebay
from ._arguments import anywhere, byte_size, destination, flag, path, shown, text, whole
from ._choices import Hash
from ._command import Results
from ._converted_columns import ConvertedColumns
from .errors import ConfigError, NotFoundError, StateError, UnsupportedError
from .files import list_files
from .files import open as open_file
from ._groups import Order, TokenWindow, token_window
from ._loader import Loader
from .remotes import library_stores
from ._samples import Sample
from ._streams import Stream, config_of
from .verify import verify
from ._world import World
from ._writer import MDSWriter

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

    def loader(self, threads: int | None) -> Loader:
        alone = {"order": Order(num_canonical_nodes=1), "world": World(0, 1, 0, 1)}
        given = {"fields": self.columns.fields(), "framework": "dlpack", "threads": threads, **alone}
        return Loader(**_data(self.source, self.options), batch_size=self.batch_size, **given)


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
    processes: int | None = None,
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
        processes: Processes that read and write. None: the CPUs of this process.
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
    workers = min(len(missing), processes or _forebay.cpu_count())
    for number in _written(out, plan, missing, workers):
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
    data = _data(source, options)
    streams = [config_of(stream) for stream in data.pop("streams")]
    config = {"streams": streams, "batch_size": 1, **data, "window": token_window("window", data.get("window"))}
    described = json.loads(_forebay.Engine.describe(json.dumps(config), library_stores(source)))
    samples, mean = described["samples"], max(1, described["bytes"] // max(1, described["samples"]))
    batch_size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // mean))
    part_bytes = _PART_SHARDS * writer["size_limit"] if writer["size_limit"] else _PART_BYTES
    part_batches = max(1, -(-part_bytes // (mean * batch_size)))
    parts = -(-samples // (part_batches * batch_size))
    columns = ConvertedColumns.of(described, wanted, nulls)
    return _Plan(source, options, columns, writer, described["digest"], samples, parts, part_batches, batch_size)


def _data(source: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a Loader of `source`."""
    stream = Stream(remote=source, **{name: options[name] for name in ("local", "ignore_counts") if name in options})
    data = {"streams": [stream]} | {name: options[name] for name in ("cache_limit", "shuffle", "seed") if name in options}
    if "window" in options:
        data["window"] = TokenWindow(options["window"], options.get("window_stride"))
    elif "window_stride" in options:
        raise ConfigError("window_stride is the distance of windows, and there is no window: set `window`, or omit window_stride")
    return data


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


def _written(out: str, plan: _Plan, missing: list[int], workers: int) -> Iterator[int]:
    """Writes the parts `missing` in processes, and yields the number of each when it is complete."""
    if workers < 2:
        yield from _write_parts(out, plan, missing, None)
        return
    threads = max(1, _forebay.cpu_count() // workers)
    context = multiprocessing.get_context("spawn")
    running: dict[Any, Any] = {}
    try:
        for number in range(workers):
            # Consecutive parts: a process reads on where the last one ended.
            share = missing[len(missing) * number // workers : len(missing) * (number + 1) // workers]
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(theirs, os.getpid(), out, plan, share, threads))
            process.start()
            theirs.close()
            running[ours] = process
        while running:
            for ready in multiprocessing.connection.wait(list(running)):
                assert isinstance(ready, multiprocessing.connection.Connection)
                try:
                    result = ready.recv()
                except EOFError:
                    process = running.pop(ready)
                    process.join()
                    if process.exitcode:
                        raise StateError(f"a process of the conversion ended with {process.exitcode}: run it again") from None
                    continue
                if isinstance(result, BaseException):
                    raise result
                yield result
    finally:
        for process in running.values():
            process.kill()
            process.join()


def _work(results: Any, parent: int, out: str, plan: _Plan, parts: list[int], threads: int) -> None:
    """Main function of a process: sends the number of each part that is complete, or an error."""
    # The process ends with its parent, also if that is killed: two runs must not write the same part.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    try:
        for number in _write_parts(out, plan, parts, threads):
            results.send(number)
    except BaseException as error:
        with contextlib.suppress(OSError):
            results.send(error)


_PR_SET_PDEATHSIG = 1


def _write_parts(out: str, plan: _Plan, parts: Sequence[int], threads: int | None) -> Iterator[int]:
    if not parts:
        return
    with plan.loader(threads) as loader:
        batches: Iterator[dict[str, Any]] = iter(())
        at = None
        for number in parts:
            step = number * plan.part_batches
            if number != at:
                loader.adapter.seek(step)
                batches = iter(loader)
            left = _samples_of(plan, number)
            writer = MDSWriter(
                out=f"{out}/{_part(number)}", columns=plan.columns.written(), exist_ok=True, threads=threads, **plan.writer
            )
            with writer:
                while left > 0:
                    batch = next(batches, None)
                    if batch is None:
                        raise StateError("the data set has fewer samples than before: it has changed")
                    left -= _write_batch(writer, plan, batch, left, lambda: loader.samples_of(step))
                    step += 1
            at = number + 1
            yield number


def _write_batch(writer: MDSWriter, plan: _Plan, batch: Mapping[str, Any], most: int, samples: Callable[[], list[Sample]]) -> int:
    """Writes the samples of a batch, but at most `most`. Returns their number. `samples` names them, for errors."""
    count = 0
    for sample in plan.columns.rows(batch, most):
        try:
            writer.write(sample)
        except ConfigError as error:
            facts = _facts(samples()[count])
            named = ", ".join(f"{name} {value}" for name, value in facts.items())
            problem = ConfigError(f"{error} ({named}). Columns that MDS cannot store can be left out with `columns`")
            problem.context = error.context | facts
            raise problem from None
        count += 1
    return count


def _facts(sample: Sample) -> dict[str, str]:
    """Returns the facts that name a sample of the source in an error."""
    facts = {"sample": sample.number, "file": sample.file, "key": sample.key, "sample in shard": sample.index}
    facts |= {"row_group": sample.row_group, "row_in_group": sample.row_in_group}
    return {name: str(value) for name, value in facts.items() if value is not None}


def command(results: Results, **options: Any) -> int:
    """Runs the command; returns its exit code."""

    def text(report: Report, parts: int) -> str:
        line = f"{report.parts} of {parts} parts, {report.samples} samples, {results.per_second(report.samples):.0f} samples/s"
        return f"{line}, {report.kept} parts kept" if report.kept else line

    report = convert(progress=lambda report, parts: results.progress(text(report, parts)), **options)
    results.show(text(report, report.parts), **asdict(report))
    return 0
