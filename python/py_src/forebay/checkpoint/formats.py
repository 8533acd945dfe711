"""Formats of the parts that `save` writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import commit, tensors
from .direct import Opened
from .into import copied, filled
from .layout import Layout, NoLayout
from .memory import Memory, size_of
from .parts import PartWriter


@dataclass(frozen=True)
class Format:
    """Format of a part.

    `check(obj)` raises a ConfigError for an object that the format cannot hold. `size(obj)` returns the largest size of its part in
    bytes, if it is known. `write(obj, file)` writes the object, and `read(opened, into, map_location, weights_only)` returns it.
    """

    ending: str
    check: Callable[[Any], None]
    size: Callable[[Any], int]
    write: Callable[[Any, Any], None]
    read: Callable[[Opened, Any, Any, bool], Any]


def _write_torch(obj: Any, file: Any) -> None:
    import torch

    sink = TorchSink(file, Memory(obj))
    torch.save(obj, sink)
    sink.check()


class TorchSink:
    """File for torch.save that accepts all bytes after a failure of the store, which `check` and `tell` raise.

    Bytes in `memory` are sent without a copy; the rest may change after the call, as bytes that torch has copied from a
    device. An exception of `write` leaves torch's writer with a file that it ends in its destructor, where a second exception ends the
    process.
    """

    def __init__(self, file: PartWriter, memory: Memory) -> None:
        self._file, self._memory = file, memory
        self._failure: BaseException | None = None

    def write(self, data: Any) -> int:
        if self._failure is None:
            try:
                # A smaller piece is copied into its block in any case.
                array = self._memory.find(data) if len(data) > commit.BLOCK else None
                if array is None:
                    self._file.write(data)
                else:
                    self._file.send(array)
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


def _read_torch(opened: Opened, into: Any, map_location: Any, weights_only: bool) -> Any:
    import torch

    # Further classes may compute from the contents of tensors while they are unpickled.
    if weights_only and (into is not None or map_location in ("cpu", torch.device("cpu"))):
        try:
            layout = Layout(opened.table())
        except NoLayout:
            pass
        else:
            return filled(opened, layout.object, layout.first_byte, into)
    with opened.whole() as file:
        saved = torch.load(file, map_location="cpu" if into is not None else map_location, weights_only=weights_only)
    return saved if into is None else copied(opened.url, saved, into)


FORMATS = {
    "torch": Format(".pt", lambda obj: None, size_of, _write_torch, _read_torch),
    "safetensors": Format(".safetensors", tensors.check, tensors.size, tensors.write, tensors.read),
}
