"""Names of the reference's shared memory and lock files, and its intervals.

This package has no such objects. The names are for code that imports them, and for cleaning up after the reference.
"""

LOCALS = "locals"
BARRIER = "barrier"
NEXT_EPOCH = "next_epoch"
CACHE_USAGE = "cache_usage"
SHARD_STATES = "shard_states"
SHARD_ACCESS_TIMES = "shard_access_times"
RESUME = "resume"
EPOCH_SHAPE = "epoch_shape"
EPOCH_DATA = "epoch_data"
SHM_TO_CLEAN = [
    LOCALS,
    BARRIER,
    NEXT_EPOCH,
    CACHE_USAGE,
    SHARD_STATES,
    SHARD_ACCESS_TIMES,
    RESUME,
    EPOCH_SHAPE,
    EPOCH_DATA,
]

BARRIER_FILELOCK = "barrier_filelock"
CACHE_FILELOCK = "cache_filelock"

NEVER = 2**64 - 1
"""Access time of a shard that has not been read."""

TICK = 0.007
"""Polling interval of the reference in seconds."""

DEFAULT_TIMEOUT = 60.0
"""Default timeout of a download in seconds."""
