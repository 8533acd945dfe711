"""Helpers for programs: parsing of sizes, retries, merged indexes, cleaning up."""

from __future__ import annotations

import logging
import os
import time
from multiprocessing.shared_memory import SharedMemory

from .._lazy import lazy
from ._merge import (
    _format_remote_index_files,
    _merge_index_from_list,
    _merge_index_from_root,
    _not_merged_index,
    merge_index,
)
from ._retry import retry
from ._sizes import bytes_to_int, number_abbrev_to_int
from .constant import SHM_TO_CLEAN
from .storage._messages import get_import_exception_message
from .world import World

__all__ = [
    "_format_remote_index_files",
    "_merge_index_from_list",
    "_merge_index_from_root",
    "_not_merged_index",
    "bytes_to_int",
    "clean_stale_shared_memory",
    "get_import_exception_message",
    "get_list_arg",
    "merge_index",
    "number_abbrev_to_int",
    "retry",
    "wait_for_file_to_exist",
]

logger = logging.getLogger(__name__)

# Names of the reference's module that programs may import from it.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "_torch": ("dist",),
        "distributed": ("get_local_rank", "maybe_init_dist"),
        "format.index": ("get_index_basename",),
        "shared.prefix": ("_get_path",),
    },
    package=__package__,
)


def get_list_arg(text: str) -> list[str]:
    """Splits a comma-separated list; an empty text has no parts."""
    return text.split(",") if text else []


def wait_for_file_to_exist(filename: str, poll_interval: float, timeout: float, err_msg: str) -> None:
    """Waits until a file exists.

    Args:
        filename: The file.
        poll_interval: Seconds between two checks.
        timeout: Seconds to wait.
        err_msg: Start of the error message, before the times.

    Raises:
        RuntimeError: The timeout is over.
    """
    start = time.monotonic()
    while not os.path.exists(filename):
        waited = time.monotonic() - start
        if waited > timeout:
            raise RuntimeError(f"{err_msg}{timeout:.3f} < {waited:.3f} secs.")
        time.sleep(poll_interval)


def clean_stale_shared_memory() -> None:
    """Removes shared memory of earlier runs of the reference on this machine; this package leaves none.

    The first rank of each node removes it. The remaining ranks wait if `torch.distributed` is initialised.
    """
    if World.detect().rank_of_node == 0:
        prefix = 0
        # The reference uses the first free prefix, so there is none after a free one.
        while any([_unlink(f"{prefix:06}_{name}") for name in SHM_TO_CLEAN]):
            prefix += 1
    from ._torch import dist

    if dist.is_available() and dist.is_initialized():
        dist.barrier()


def _unlink(name: str) -> bool:
    """Removes a segment; returns true if it existed and this user may remove it."""
    try:
        segment = SharedMemory(name)
    except (FileNotFoundError, PermissionError):
        return False
    segment.close()
    segment.unlink()
    return True
