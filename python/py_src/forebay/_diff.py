"""The first step with different samples in two runs, and the reasons, as `forebay diff` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._command import Results
from ._samples import Run, Sample, read_run
from .errors import Error

_NO_REASON = ("engine", "fetch", "threads", "cache_limit", "world.rank", "world.local_rank")
"""Arguments on which no sample depends."""

_REASONS = {"world": "world", "forebay": "version", "data": "data"}

_LOCATIONS = ("remote", "local")
_OF_DATA = (*_LOCATIONS, "split", "files", "manifest")
"""Arguments of a stream that choose its data."""

_OF_VALUES = ("fields.", "order.augment_seed")
"""Starts of the names of arguments that change values of samples, and perhaps no sample."""

_SHOWN_MAX = 120
"""Characters of a value in a line for people."""


def command(results: Results, *, first: str, second: str, steps: int) -> int:
    """Runs the command; returns its exit code."""
    documents = read_run(first), read_run(second)
    differences = list(_differences(*map(_facts, documents)))
    for name, of_first, of_second in differences:
        reason = _reason(name)
        text = f"{reason}: {name} is {_shown(of_first)} and {_shown(of_second)}"
        results.show(text, reason=reason, name=name, first=of_first, second=of_second)
    # The order is a function of the arguments and the data.
    if not differences:
        results.show("the samples of all steps are equal", first_step=None)
        return 0
    try:
        _show_step(results, Run(first), Run(second), steps, [name for name, *_ in differences])
    except Error as error:
        # Data that have changed since are a reason above, and not a failure of the comparison.
        results.show(f"the steps are not compared, since a run cannot be opened: {error}", first_step=None, unknown=str(error))
    return 1


def _show_step(results: Results, first: Run, second: Run, steps: int, names: list[str]) -> None:
    """Shows the first step with different samples."""
    runs = first, second
    found = next((step for step in range(steps) if _samples(first, step) != _samples(second, step)), None)
    if found is None:
        values = "; the values that are made of them differ" if any(name.startswith(_OF_VALUES) for name in names) else ""
        results.show(f"the samples of the first {steps} steps are equal{values}", first_step=None)
        return
    epoch, batch = first.place_of(found)
    pair = zip(*(_samples(run, found) for run in runs), strict=False)
    one = next(((str(a), str(b)) for a, b in pair if a != b), ("one row", "a different number of rows"))
    text = f"step {found} is the first whose samples differ: batch {batch} of epoch {epoch}, {one[0]} and {one[1]}"
    results.show(text, first_step=found, epoch=epoch, batch=batch, first=one[0], second=one[1])


def _reason(name: str) -> str:
    first, *rest = name.split(".")
    if first == "streams" and rest[-1] in _OF_DATA:
        return "data"
    return "seed" if name.endswith("seed") else _REASONS.get(first, "arguments")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


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
    config, state = document["config"], document["state"]
    own = state.get("forebay") or {}
    data = {name: own.get("plan", {}).get(name) for name in ("index", "selection")}
    data["shards"] = own.get("described", {}).get("shard sizes")
    order = {name: state.get(name) for name in ("shuffle_seed", "num_canonical_nodes")}
    if order["shuffle_seed"] == config.get("seed"):
        del order["shuffle_seed"]
    facts = dict(_leaves(config)) | {f"data.{name}": value for name, value in data.items()}
    return facts | {f"order.{name}": value for name, value in order.items()} | {"forebay": document.get("forebay")}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        items = [_named(number, item) for number, item in enumerate(value)]
    else:
        yield path, value
        return
    for name, item in items:
        yield from _leaves(item, f"{path}.{name}".strip("."))


def _named(number: int, item: Any) -> tuple[str, Any]:
    """Returns a part of a list with its name: a field's, the number and the name of an operation, or the number."""
    match item:
        case [str(name), dict(content)]:
            return name, content
        case {"op": str(name)}:
            return f"{number}.{name}", item
    return str(number), item


def _differences(first: dict[str, Any], second: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    is_same_data = first["data.index"] == second["data.index"] is not None
    for name in sorted(first.keys() | second.keys()):
        is_location = name.startswith("streams.") and name.split(".")[-1] in _LOCATIONS
        if first.get(name) == second.get(name) or name.startswith(_NO_REASON) or (is_location and is_same_data):
            continue
        yield name, first.get(name), second.get(name)
