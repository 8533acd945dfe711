"""The samples of a step, as `forebay which` names them."""

from __future__ import annotations

from ._command import Results
from ._samples import Run, Sample


def command(
    results: Results, *, run: str, step: int, epoch: int | None, rank: int | None, remote: list[str] | None, keys: bool
) -> int:
    """Runs the command; returns its exit code."""
    opened = Run(run, remote)
    step += 0 if epoch is None else opened.engine.first_step_of(epoch)
    samples = opened.samples_of(step, None if rank is None else [rank])
    if keys:
        samples = opened.with_keys(samples)
    if not results.is_json:
        of_epoch, batch = opened.place_of(step)
        results.show(f"step {step}: batch {batch} of epoch {of_epoch}, {len(samples)} samples")
    for sample in samples:
        repeat = "  (repeat)" if sample.repeat else ""
        if sample.tokens is not None:
            repeat = f", tokens {sample.first_token} to {sample.first_token + sample.tokens - 1} at {sample.offset}{repeat}"
        row = f"rank {sample.rank} row {sample.row}: {_described(sample)}"
        results.show(f"{row} (stream {sample.stream}, number {sample.number}){repeat}", **sample._asdict())
    return 0


def _described(sample: Sample) -> str:
    """Returns the location of a sample as text."""
    if sample.row_group is not None:
        return f"{sample.file}, row group {sample.row_group}, row {sample.row_in_group}"
    if sample.key == sample.file:
        return sample.file
    return f"{sample.file}, sample {sample.index}" + ("" if sample.key is None else f", key {sample.key}")
