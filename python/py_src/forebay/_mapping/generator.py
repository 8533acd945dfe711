"""Generator of a sample's random numbers, for a program's own operations.

The key has the same parts as the keys of the engine's draws (loader/src/decode/draw.rs): seed, epoch, stream and draw. The numbers
are numpy's Philox4x64, and the engine's Philox4x32, so they have nothing in common.
"""

from __future__ import annotations

import functools
from typing import Any

from .._arguments import U32, whole

_WORD = (1 << 64) - 1

_DOMAIN = 0x6D61_705F_7079_0001
"""Keeps the keys apart from the keys of all further uses of the seed. It is part of a run's results: do not change it."""


def sample_generator(augment_seed: int, epoch: int = 0, stream: int = 0, draw: int = 0) -> Any:
    """Returns the `numpy.random.Generator` that a `Map` passes to its function for a sample.

    Args:
        augment_seed: `Order(augment_seed=)` of the loader, or its `seed` without one.
        epoch: The epoch, from 0. This and the next two are a row of the output `sample_draws`.
        stream: The stream's number, from 0.
        draw: The sample's number in the epoch, before it is distributed to ranks.

    Raises:
        ConfigError: One of them is not a whole number, or too large.
    """
    seed, epoch, draw = whole("augment_seed", augment_seed), whole("epoch", epoch), whole("draw", draw)
    return of_key(key(seed, epoch, whole("stream", stream, 0, U32), draw))


def of_key(key: int) -> Any:
    """Returns the generator of a key."""
    import numpy

    return numpy.random.Generator(numpy.random.Philox(key=key))


def key(augment_seed: int, epoch: int, stream: int, draw: int) -> int:
    """Returns the key of a sample, 128 bits."""
    return draw << 64 | _run_key(augment_seed, epoch, stream)


@functools.lru_cache(maxsize=256)
def _run_key(augment_seed: int, epoch: int, stream: int) -> int:
    return _mixed(_mixed(_mixed(_mixed(augment_seed) ^ _DOMAIN) ^ epoch) ^ stream)


def _mixed(x: int) -> int:
    """splitmix64's finaliser."""
    x = (x + 0x9E37_79B9_7F4A_7C15) & _WORD
    x = ((x ^ x >> 30) * 0xBF58_476D_1CE4_E5B9) & _WORD
    x = ((x ^ x >> 27) * 0x94D0_49BB_1331_11EB) & _WORD
    return x ^ x >> 31
