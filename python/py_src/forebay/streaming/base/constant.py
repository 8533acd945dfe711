"""Names of what the reference keeps in shared memory and in lock files, and its intervals.

Ours keeps nothing of the kind; the names are here for code that imports them, and to clean up after the reference.
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

TICK = 0.007
"""Seconds between two looks of the reference at what it waits for."""

DEFAULT_TIMEOUT = 60.0
"""Seconds that a download may take, where nobody says."""
