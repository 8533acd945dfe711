"""Rows of WebVid's lists, and their videos."""

from __future__ import annotations

import csv
import re
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

_DURATION = re.compile(r"PT(\d{2})H(\d{2})M(\d{2})S")
_TIMEOUT_S = 60


def each_row(filename: str, limit: int = -1) -> Iterator[dict[str, str]]:
    """Yields the rows of a list by column; the first `limit`, or all if `limit` is negative."""
    with open(filename, encoding="utf-8", newline="") as file:
        yield from islice(csv.DictReader(file), limit if limit >= 0 else None)


def parse_duration(text: str) -> int:
    """Parses a duration such as PT00H01M23S to seconds.

    Raises:
        ValueError: It has a wrong form.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not of the form PT00H01M23S")
    hours, minutes, seconds = map(int, match.groups())
    return hours * 3600 + minutes * 60 + seconds


def fetch(row: dict[str, str]) -> dict[str, Any] | None:
    """Returns the row with its duration as a number and its video in `content`; None if the video is not available."""
    try:
        with urllib.request.urlopen(row["contentUrl"], timeout=_TIMEOUT_S) as answer:
            content = answer.read()
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return None
    return {**row, "duration": parse_duration(row["duration"]), "content": content}


def fetch_all(rows: Iterable[dict[str, str]], threads: int) -> Iterator[dict[str, Any]]:
    """Yields the result of `fetch` for each row with an available video, in order. Holds at most two videos per
    thread."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[dict[str, Any] | None]] = deque()

        def first() -> Iterator[dict[str, Any]]:
            sample = waiting.popleft().result()
            if sample is not None:
                yield sample

        for row in rows:
            waiting.append(pool.submit(fetch, row))
            if len(waiting) == 2 * threads:
                yield from first()
        while waiting:
            yield from first()
