"""Retries of functions that fail."""

from __future__ import annotations

import functools
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["retry"]

# The module by which programs know the function.
logger = logging.getLogger(f"{__package__}.util")


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
