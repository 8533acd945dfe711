"""Secrets of addresses in the errors of the stores' libraries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ...._forebay import redact, redact_in

__all__ = ["without_secrets"]


@contextlib.contextmanager
def without_secrets(remote: str | None) -> Iterator[None]:
    """Cuts the secrets in the address `remote` from an exception that is raised inside, and from the exceptions that led to it.
    It stays the same object, because programs catch the classes of the libraries and read their fields."""
    try:
        yield
    except Exception as error:
        if isinstance(remote, str) and redact(remote) != remote:
            _cut(error, remote, [])
        raise


def _cut(error: BaseException, remote: str, seen: list[BaseException]) -> None:
    if any(error is other for other in seen):
        return
    seen.append(error)
    # Some classes make their text of fields and not of `args`. The fields of an OSError are not in its `vars`.
    of_system = ("strerror", "filename", "filename2") if isinstance(error, OSError) else ()
    for name in ("args", *vars(error), *of_system):
        value = getattr(error, name, None)
        cut = _without(value, remote, seen)
        if cut is not value:
            with contextlib.suppress(AttributeError):
                setattr(error, name, cut)
    for cause in (error.__cause__, error.__context__):
        if cause is not None:
            _cut(cause, remote, seen)


def _without(value: Any, remote: str, seen: list[BaseException]) -> Any:
    """Returns `value` without the secrets in its texts; the same object if there are none."""
    if isinstance(value, BaseException):
        _cut(value, remote, seen)
        return value
    if type(value) is str:
        text = redact_in(value, remote)
        return value if text == value else text
    if type(value) in (tuple, list):
        items = [_without(item, remote, seen) for item in value]
        return value if all(new is old for new, old in zip(items, value)) else type(value)(items)
    if type(value) is dict:
        items = [_without(item, remote, seen) for item in value.values()]
        return value if all(new is old for new, old in zip(items, value.values())) else dict(zip(value, items))
    return value
