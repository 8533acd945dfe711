"""Helpers for programs: parsing of sizes, retries, merged indexes, cleaning up."""

from __future__ import annotations

import functools
import logging
import os
import random
import time
from collections.abc import Callable, Sequence
from multiprocessing.shared_memory import SharedMemory
from typing import Any

from ._merge import _format_remote_index_files, merge_index
from .constant import SHM_TO_CLEAN

__all__ = [
    "_format_remote_index_files",
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

_BYTES = {f"{prefix}b": 1024**power for power, prefix in enumerate("kmgtpezy", start=1)}
_NUMBERS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def get_list_arg(text: str) -> list[str]:
    """Splits a comma-separated list; an empty text has no parts."""
    return text.split(",") if text else []


def bytes_to_int(bytes_str: int | float | str) -> int:
    """Parses a number of bytes: a number, or text such as "100kb" or "1.5gb", in powers of 1024.

    Raises:
        ValueError: The text is not a number.
    """
    return _with_unit(bytes_str, _BYTES, plain="b")


def number_abbrev_to_int(abbrev_str: int | float | str) -> int:
    """Parses a number: a number, or text such as "100k", "64m", "77b" or "1.5t", in powers of 1000.

    Raises:
        ValueError: The text is not a number.
    """
    return _with_unit(abbrev_str, _NUMBERS)


def _with_unit(value: int | float | str, units: dict[str, int], plain: str = "") -> int:
    """Parses `value` with a unit at its end. `plain` is the suffix without a factor."""
    if isinstance(value, (int, float)):
        return int(value)
    text = value.strip().lower()
    unit = next((unit for unit in units if text.endswith(unit)), None)
    if unit is not None:
        try:
            return int(float(text.removesuffix(unit)) * units[unit])
        except ValueError:
            pass
    elif text.removesuffix(plain).isdigit():
        return int(text.removesuffix(plain))
    known = [*filter(None, [plain]), *units]
    raise ValueError(f"Unsupported value/suffix {value}. Supported suffix are {known}.")


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

    The first rank of each node removes it. The others wait if `torch.distributed` is initialised.
    """
    from .world import World

    if World.detect().rank_of_node == 0:
        prefix = 0
        # The reference uses the first free prefix, so there is none after a free one.
        while any([_unlink(f"{prefix:06}_{name}") for name in SHM_TO_CLEAN]):
            prefix += 1
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()


def _unlink(name: str) -> bool:
    """Removes a segment; returns true if it existed and this user may remove it."""
    try:
        segment = SharedMemory(name)
    except (FileNotFoundError, PermissionError):
        return False
    segment.close()
    segment.unlink()
    return True


def get_import_exception_message(package_name: str, extra_deps: str) -> str:
    """Returns the message of an import that fails because a package of the extra `package_name` is missing."""
    return (
        f"Streaming was installed without {package_name} support. To use {package_name} related packages with Streaming, "
        f"install the packages of the reference's extra `{extra_deps}`."
    )


def retry(
    exc_class: Any = Exception,
    clean_up_fn: Callable[[], None] | None = None,
    num_attempts: int = 3,
    initial_backoff: float = 1.0,
    max_jitter: float = 0.5,
) -> Any:
    """Retries a function that fails.

        @retry(ConnectionError, num_attempts=5)
        def fetch(): ...

    `@retry` without arguments is `@retry()`.

    Args:
        exc_class: Exception, or sequence of exceptions, that is retried.
        clean_up_fn: Function that is called after each failed attempt.
        num_attempts: Total attempts.
        initial_backoff: Seconds between the first two attempts; each further wait is twice as long.
        max_jitter: Upper bound of the random seconds that are added to each wait, so that processes do not retry in
            step.

    Raises:
        ValueError: `num_attempts` is below 1.
    """
    if num_attempts < 1:
        raise ValueError("num_attempts must be at-least 1")
    kinds = tuple(exc_class) if isinstance(exc_class, Sequence) else exc_class
    is_bare = not isinstance(kinds, tuple) and not (isinstance(kinds, type) and issubclass(kinds, BaseException))

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def attempts(*args: Any, **kwargs: Any) -> Any:
            for attempt in range(num_attempts):
                try:
                    return function(*args, **kwargs)
                except Exception if is_bare else kinds as error:
                    logger.debug("attempt %d of %d failed: %s", attempt + 1, num_attempts, error)
                    if clean_up_fn is not None:
                        clean_up_fn()
                    if attempt + 1 == num_attempts:
                        raise
                time.sleep(initial_backoff * 2**attempt + random.random() * max_jitter)

        return attempts

    return decorate(exc_class) if is_bare else decorate
