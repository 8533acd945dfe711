"""Numbers in the names of shared objects, different for each data set.

Data sets of this package have no named objects and need no number. This is for programs that use the reference's.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from tempfile import gettempdir

from ..._lazy import lazy
from .. import distributed
from ..constant import BARRIER_FILELOCK, CACHE_FILELOCK, LOCALS, SHM_TO_CLEAN, TICK
from ..world import World
from .memory import SharedMemory

__all__ = ["get_shm_prefix"]

# A name of the reference's module.
__getattr__, __dir__ = lazy(__name__, {"_torch": ("dist",)}, package=f"{__package__}".rpartition(".")[0])


def get_shm_prefix(
    streams_local: list[str], streams_remote: list[str | None], world: World, retry: int = 100
) -> tuple[int, SharedMemory]:
    """Finds a free number and registers it together with local folders.

    Args:
        streams_local: Folders.
        streams_remote: Remote of each folder; None: no remote.
        world: This process. The first process of the node registers, the rest of its processes read the number.
        retry: Further attempts while a previous user of a folder may be ending.

    Returns:
        The number, and the memory block that registers it.

    Raises:
        ValueError: A folder with a remote occurs twice or is registered by a different data set.
        RuntimeError: The node's first process registered different folders.
    """
    _check_self(streams_local)
    prefix = max(_check_and_find_retrying(streams_local, streams_remote, name, retry) for name in SHM_TO_CLEAN)
    distributed.barrier()
    data = _pack_locals(streams_local, prefix)
    if world.is_local_leader:
        block = SharedMemory(_get_path(prefix, LOCALS), True, len(data))
        block.buf[: len(data)] = data
    distributed.barrier()
    if not world.is_local_leader:
        try:
            block = SharedMemory(_get_path(prefix, LOCALS), False)
        except FileNotFoundError as error:
            raise RuntimeError(
                f"the node's first process did not register prefix {prefix}: give all ranks of a node the same `local`"
            ) from error
        registered = _unpack_locals(bytes(block.buf))
        if registered != (streams_local, prefix):
            raise RuntimeError(
                f"the node's first process registered {registered}, this one has {(streams_local, prefix)}: "
                "give all ranks of a node the same `local`"
            )
    return prefix, block


def _get_path(prefix_int: int, name: str) -> str:
    """Returns the name of an object of a data set."""
    return f"{prefix_int:06}_{name}"


def _check_self(streams_local: list[str]) -> None:
    """Raises a ValueError if a folder occurs twice."""
    twice = [folder for folder, count in Counter(streams_local).items() if count > 1]
    if twice:
        raise ValueError(f"Reused local directory: {twice}. Provide a different one.")


def _pack_locals(dirnames: list[str], prefix_int: int) -> bytes:
    """Returns the content of a block that registers a number with its folders."""
    text = "\0".join([*dirnames, str(prefix_int)]).encode()
    return (4 + len(text)).to_bytes(4, "little") + text


def _unpack_locals(data: bytes) -> tuple[list[str], int]:
    """Reads folders and number from a block's content. An owner that is ending leaves a length of 0."""
    *folders, prefix = data[4 : int.from_bytes(data[:4], "little")].decode().split("\0")
    return folders, int(prefix or 0)


def _each_prefix_int() -> Iterator[int]:
    """Yields the numbers in the order in which they are tried."""
    return itertools.count()


def _check_and_find_retrying(streams_local: list[str], streams_remote: list[str | None], shm_name: str, retry: int) -> int:
    if retry < 0:
        raise ValueError(f"retry is {retry}: it must not be negative")
    for attempt in itertools.count():
        try:
            return _check_and_find(streams_local, streams_remote, shm_name)
        except ValueError:
            if attempt == retry:
                raise
            time.sleep(TICK)
    raise AssertionError("an unlimited loop has ended")


def _check_and_find(streams_local: list[str], streams_remote: list[str | None], shm_name: str) -> int:
    """Returns the first number without a `shm_name` and without a lock file."""
    for prefix in _each_prefix_int():
        locks = (os.path.join(gettempdir(), _get_path(prefix, lock)) for lock in (BARRIER_FILELOCK, CACHE_FILELOCK))
        if any(os.path.exists(lock) for lock in locks):
            continue
        try:
            block = SharedMemory(_get_path(prefix, shm_name), False, auto_cleanup=False)
        except PermissionError:
            # It belongs to a different user.
            continue
        except FileNotFoundError:
            return prefix
        theirs = _unpack_locals(bytes(block.buf))[0] if shm_name == LOCALS else []
        block.cleanup()
        ours = [local for local, remote in zip(streams_local, streams_remote) if remote is not None]
        if set(ours) & set(theirs):
            raise ValueError(
                f"Reused local directory: {streams_local} vs {theirs}. Provide a different one. If no program uses "
                "it, a crashed one may have left it: call `streaming.base.util.clean_stale_shared_memory()` "
                "once at the start"
            )
    raise AssertionError("an unlimited loop has ended")
