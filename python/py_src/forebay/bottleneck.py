"""One line about the stage that limits a loader's rate, from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["bottleneck"]

_KEEPS_UP = 0.05
"""Largest share of the loop's time waiting for batches with which the loader counts as fast enough."""

_BUSY = 0.7
"""Share of its threads' time from which decoding counts as the limit."""

_CAUSES = (
    ("fetch", "busy_s", "the network or the store: downloads took"),
    ("unpack", "busy_s", "decompression of shards: it took"),
    ("publish", "busy_s", "the local disk's write rate: checking and writing shards took"),
    ("read", "input_s", "the local disk's read rate: reads waited"),
)
"""Stages before decoding, their time that shows a limit, and words for it."""


def bottleneck(stats: Mapping[str, Any], loaders: int = 1) -> str:
    """Returns one line that names the limit, in the order of the table on the documentation's page about tuning.

    Args:
        stats: `stages` and `elapsed_s` as in `Loader.stats`.
        loaders: Number of loaders that the figures are sums of, one for each device.
    """
    stages = stats["stages"]
    if not stages.get("next", {}).get("items"):
        return "unknown: no batch was delivered yet"
    waited = stages["next"]["input_s"] / loaders
    share = waited / max(stats["elapsed_s"], 1e-9)
    loop = f"the loop waited {waited:.1f} of {stats['elapsed_s']:.1f} s for batches"
    if share <= _KEEPS_UP:
        return f"the training step: {loop}"
    decode = stages["decode"]
    threads = decode["busy_s"] + decode["input_s"] + decode["output_s"]
    busy = decode["busy_s"] / threads if threads else 0.0
    if busy >= _BUSY:
        return f"decoding, by the CPUs: its threads were busy {busy:.0%} of the time, and {loop}"
    seconds, words = max((stages[stage][time], words) for stage, time, words in _CAUSES if stage in stages)
    if seconds > decode["busy_s"]:
        return f"{words} {seconds:.1f} s, summed over threads, and {loop}"
    return f"unclear: decode threads were busy {busy:.0%} of the time, and {loop}; a larger `prefetch` evens out uneven samples"
