"""The first step with different samples in two runs, and the reasons, as `forebay diff` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._command import Results
from ._samples import Run, Sample

_NO_REASON = ("engine", "fetch", "threads", "cache_limit", "world.rank", "world.local_rank")
"""Arguments on which no sample depends."""

_REASONS = {"world": "world", "seed": "seed", "forebay": "version", "data": "data", "streams": "data"}


def command(results: Results, *, first: str, second: str, steps: int) -> int:
    """Runs the command; returns its exit code."""
    runs = Run(first), Run(second)
    differences = list(_differences(*(_facts(run.document) for run in runs)))
    for name, of_first, of_second in differences:
        reason = _REASONS.get(name.split(".")[0], "arguments")
        results.show(f"{reason}: {name} is {of_first!r} and {of_second!r}", reason=reason, name=name, first=of_first, second=of_second)
    # The order is a function of the arguments and the data.
    found = next((step for step in range(steps if differences else 0) if _samples(runs[0], step) != _samples(runs[1], step)), None)
    if found is None:
        results.show(f"the samples of {'the first ' + str(steps) if differences else 'all'} steps are equal", first_step=None)
        return 1 if differences else 0
    epoch, batch = runs[0].place_of(found)
    pair = zip(_samples(runs[0], found), _samples(runs[1], found), strict=False)
    one = next(((str(a), str(b)) for a, b in pair if a != b), ("one row", "a different number of rows"))
    text = f"step {found} is the first whose samples differ: batch {batch} of epoch {epoch}, {one[0]} and {one[1]}"
    results.show(text, first_step=found, epoch=epoch, batch=batch, first=one[0], second=one[1])
    return 1


class _Row(tuple[Any, ...]):
    """Row of a step, which is equal to the row with the same sample."""

    def __str__(self) -> str:
        rank, row, file, index, *_ = self
        return f"rank {rank} row {row}: {file}, sample {index}"


def _samples(run: Run, step: int) -> list[_Row]:
    def row(sample: Sample) -> _Row:
        return _Row((sample.rank, sample.row, sample.file, sample.index, sample.stream, sample.repeat, sample.first_token))

    return [row(sample) for sample in run.samples_of(step)]


def _facts(document: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts of the file of a run by their paths: version, arguments, and hashes of the data."""
    state = document["state"].get("forebay") or {}
    data = {name: state.get("plan", {}).get(name) for name in ("index", "selection")}
    seeds = {name: document["state"].get(name) for name in ("shuffle_seed", "num_canonical_nodes")}
    facts = dict(_leaves(document["config"])) | {f"data.{name}": value for name, value in data.items()}
    return facts | {f"order.{name}": value for name, value in seeds.items()} | {"forebay": document.get("forebay")}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for name, item in items:
        yield from _leaves(item, f"{path}.{name}".strip("."))


def _differences(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    is_same_data = first["data.index"] == second["data.index"] is not None
    for name in sorted(first.keys() | second.keys()):
        is_location = name.startswith("streams.") and name.split(".")[-1] in ("remote", "local")
        if first.get(name) == second.get(name) or name.startswith(_NO_REASON) or (is_location and is_same_data):
            continue
        yield name, first.get(name), second.get(name)
