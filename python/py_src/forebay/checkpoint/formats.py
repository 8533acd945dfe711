"""Formats of the parts that `save` writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import tensors

__all__ = ["FORMATS", "Format", "TorchSink", "of_name"]


@dataclass(frozen=True)
class Format:
    """Format of a part.

    `check(obj)` raises a ConfigError for an object that it has no place for, `write(obj, file)` writes an object, and
    `read(file, map_location, weights_only)` returns it.
    """

    ending: str
    check: Callable[[Any], None]
    write: Callable[[Any, Any], None]
    read: Callable[[Any, Any, bool], Any]


def _write_torch(obj: Any, file: Any) -> None:
    import torch

    sink = TorchSink(file)
    torch.save(obj, sink)
    sink.check()


class TorchSink:
    """File for torch.save that accepts all bytes after a failure of the store, which `check` and `tell` raise.

    An exception of `write` leaves torch's writer with a file that it ends in its destructor, where a second exception ends the
    process.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        if self._failure is None:
            try:
                self._file.write(data)
            except BaseException as failure:
                self._failure = failure
        return len(data)

    def check(self) -> None:
        """Raises the failure, if there is one."""
        if self._failure is not None:
            raise self._failure

    def tell(self) -> int:
        """Returns the position. torch.save does not ask for it: its callers do, between objects."""
        self.check()
        return self._file.tell()

    def flush(self) -> None:
        """Does nothing: a part is complete when it is closed."""

    def close(self) -> None:
        """Completes the file, if nothing has failed."""
        self.check()
        self._file.close()


def _read_torch(file: Any, map_location: Any, weights_only: bool) -> Any:
    import torch

    return torch.load(file, map_location=map_location, weights_only=weights_only)


FORMATS = {
    "torch": Format(".pt", lambda obj: None, _write_torch, _read_torch),
    "safetensors": Format(".safetensors", tensors.check, tensors.write, tensors.read),
}


def of_name(name: str) -> Format:
    """Returns the format of a part of `save` by the ending of its name."""
    return next(each for each in FORMATS.values() if name.endswith(each.ending))
