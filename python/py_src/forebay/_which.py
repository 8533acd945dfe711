"""The samples of a step: `python -m forebay which RUN.json --step 123456`.

The order is a function of the loader's arguments, so the file of a run names the samples of every step, before and after
it happened. Only indexes are read, and shards for the keys of tars alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .errors import Error
from ._samples import Run, Sample


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0 on success."""
    parser = argparse.ArgumentParser(prog="python -m forebay which", description=__doc__)
    parser.add_argument("run", metavar="RUN.json", help="file of the run, which Loader.save_run writes")
    parser.add_argument("--step", type=_number, required=True, help="number of the step, from 0, over all epochs")
    parser.add_argument("--epoch", type=_number, help="epoch of the step; the number of the step then counts from its start")
    parser.add_argument("--rank", type=_number, help="only the samples of this rank")
    parser.add_argument(
        "--remote", action="append", help="address of the data, if it has moved or needs a signature; for each stream, if there are several"
    )
    parser.add_argument("--keys", action="store_true", help="read the keys of samples in tars; fetches tars that are not on this machine")
    parser.add_argument("--json", action="store_true", help="print a JSON object for each sample")
    given = parser.parse_args(arguments)
    try:
        run = Run(given.run, given.remote)
        step = given.step if given.epoch is None else run.engine.first_step_of(given.epoch) + given.step
        samples = run.samples_of(step, None if given.rank is None else [given.rank])
        if given.keys:
            samples = run.with_keys(samples)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if given.json:
        for sample in samples:
            print(json.dumps(sample._asdict()))
        return 0
    epoch, batch = run.place_of(step)
    print(f"step {step}: batch {batch} of epoch {epoch}, {len(samples)} samples")
    for sample in samples:
        repeat = "  (repeat)" if sample.repeat else ""
        if sample.tokens is not None:
            repeat = f", tokens {sample.first_token} to {sample.first_token + sample.tokens - 1} at {sample.offset}{repeat}"
        print(f"rank {sample.rank} row {sample.row}: {_described(sample)} (stream {sample.stream}, number {sample.number}){repeat}")
    return 0


def _described(sample: Sample) -> str:
    """Returns the location of a sample as text."""
    if sample.row_group is not None:
        return f"{sample.file}, row group {sample.row_group}, row {sample.row_in_group}"
    if sample.key == sample.file:
        return sample.file
    return f"{sample.file}, sample {sample.index}" + ("" if sample.key is None else f", key {sample.key}")


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number
