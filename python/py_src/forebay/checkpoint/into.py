"""Objects that are loaded into tensors that exist."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._arguments import shown
from ..errors import ConfigError, Error
from .direct import Opened
from .layout import tensors_in
from .memory import Targets, bytes_of

_SHOWN = 8
"""Differences of an error's message."""


def filled(opened: Opened, saved: Any, first_byte: Callable[[Any], int | None], into: Any) -> Any:
    """Fetches the tensors of an object into their own memory, or into the memory of `into`.

    Args:
        opened: The part.
        saved: The object; its tensors have memory without contents.
        first_byte: Returns the first byte of a tensor's storage in the part; None if its contents are there already.
        into: Object with the tensors to fill, or None.

    Returns:
        The object, with the tensors of `into`.
    """
    match = Match(opened.url, saved, into)
    positions = []
    for tensor, target in match.pairs:
        if (at := first_byte(tensor)) is not None:
            positions.append((at, tensor, target))
    # Tensors that share a storage share it in the result too.
    storages = {first_byte(tensor): tensor.untyped_storage() for tensor in tensors_in(match.kept)}
    for start, storage in storages.items():
        if start is not None:
            whole = bytes_of(storage)
            positions.append((start, whole, whole))
    with contextlib.nullcontext() if into is None else partly_overwritten():
        opened.direct.fill(Targets().of(positions))
    copy_all((tensor, target) for tensor, target in match.pairs if first_byte(tensor) is None)
    return match.object


def copied(url: str, saved: Any, into: Any) -> Any:
    """Copies the tensors of an object to the tensors of `into`. It returns the same as `filled`."""
    match = Match(url, saved, into)
    copy_all(match.pairs)
    return match.object


def copy_all(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Copies the first tensor of each pair to the second one."""
    for tensor, target in pairs:
        target.detach().copy_(tensor)


@contextlib.contextmanager
def partly_overwritten() -> Iterator[None]:
    """Adds to errors that tensors may be neither as they were nor as they were saved."""
    try:
        yield
    except Error as error:
        message = f"{error}. The tensors to load into are partly overwritten: load all of them again, from a step that is whole"
        raised = type(error)(message)
        raised.context = error.context
        raise raised from error


class Match:
    """Object that was saved and the one to load into.

    Both have the same dicts, lists and tuples, with tensors of the same shapes and types at the same paths. None in the
    second one takes whatever was saved.

    Raises:
        ConfigError: They do not match.
    """

    def __init__(self, url: str, saved: Any, into: Any) -> None:
        self.pairs: list[tuple[Any, Any]] = []
        """Tensors that were saved, and those that they fill."""
        self.kept: list[Any] = []
        """Parts of the saved object that `object` has instead of None."""
        self._problems: list[str] = []
        self.object: Any = self._merged(saved, into, "")
        """The object that was saved, with the tensors to fill instead of the saved ones."""
        if self._problems:
            more = f"; and {count} more" if (count := len(self._problems) - _SHOWN) > 0 else ""
            raise ConfigError(
                f"into does not match {url}: {'; '.join(self._problems[:_SHOWN])}{more}. Pass None for the values to "
                "be loaded into new memory"
            )

    def _merged(self, saved: Any, into: Any, name: str) -> Any:
        import torch

        if into is None:
            self.kept.append(saved)
            return saved
        if isinstance(saved, torch.Tensor):
            return self._tensor(saved, into, name)
        if isinstance(saved, dict):
            return self._dict(saved, into, name)
        if isinstance(saved, (list, tuple)):
            return self._list(saved, into, name)
        if isinstance(into, torch.Tensor):
            self._problem(name, f"is {shown(saved)} in the checkpoint, and a tensor in into")
        return saved

    def _tensor(self, saved: Any, into: Any, name: str) -> Any:
        import torch

        if not isinstance(into, torch.Tensor):
            self._problem(name, f"is a tensor in the checkpoint, and {shown(into)} in into")
        elif saved.size() != into.size():
            self._problem(name, f"has the shape {tuple(saved.size())} in the checkpoint, and {tuple(into.size())} in into")
        elif saved.dtype != into.dtype:
            self._problem(name, f"has the type {saved.dtype} in the checkpoint, and {into.dtype} in into")
        elif saved.is_meta or into.is_meta:
            self._problem(name, "has no memory on the device meta" + (", where it was saved from" if saved.is_meta else ""))
        elif into.layout is torch.strided and any(step == 0 < size - 1 for size, step in zip(into.size(), into.stride())):
            self._problem(name, "has the same memory for several elements: pass the tensor that it was expanded from")
        else:
            self.pairs.append((saved, into))
        return into

    def _dict(self, saved: dict[Any, Any], into: Any, name: str) -> Any:
        if not isinstance(into, Mapping):
            self._problem(name, f"is a dict in the checkpoint, and {shown(into)} in into")
            return saved
        for key in (key for key in saved if key not in into):
            self._problem(f"{name}.{key}", "is not in into")
        for key in (key for key in into if key not in saved):
            self._problem(f"{name}.{key}", "is not in the checkpoint")
        # A copy, because the same dict may occur twice. It has the attributes too, such as versions of modules.
        merged = copy.copy(saved)
        for key in (key for key in saved if key in into):
            merged[key] = self._merged(saved[key], into[key], f"{name}.{key}")
        return merged

    def _list(self, saved: Any, into: Any, name: str) -> Any:
        if not isinstance(into, (list, tuple)) or len(saved) != len(into):
            self._problem(name, f"is a list of {len(saved)} in the checkpoint, and {shown(into)} in into")
            return saved
        merged = [self._merged(*both, f"{name}.{number}") for number, both in enumerate(zip(saved, into))]
        if isinstance(saved, list):
            return merged
        return type(saved)(*merged) if hasattr(saved, "_fields") else type(saved)(merged)

    def _problem(self, name: str, problem: str) -> None:
        self._problems.append(f"{name.removeprefix('.') or 'the object'} {problem}")
