"""Values that are passed between two processes: arrays through shared memory, everything else through a pipe."""

from __future__ import annotations

import functools
import io
import mmap
import os
import pickle
from collections.abc import Callable, Sequence
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

_SHARED_BYTES_MIN = 1024
"""Smaller arrays go through the pipe."""

_ALIGN_BYTES = 64


class Segment:
    """Memory without a name that two processes map; the system frees it with the last of them, however they end."""

    def __init__(self, descriptor: int | None = None) -> None:
        self.descriptor = anonymous_file() if descriptor is None else descriptor
        self._map: mmap.mmap | None = None

    def __reduce__(self) -> Any:
        # Works while a process is started.
        return _opened, (reduction.DupFd(self.descriptor),)

    def bytes(self, size: int) -> memoryview:
        """Returns the memory, of at least `size` bytes. Views of it stay valid when it grows."""
        if self._map is None or len(self._map) < size:
            if os.fstat(self.descriptor).st_size < size:
                os.ftruncate(self.descriptor, -(-max(size, 1) * 5 // 4 // mmap.PAGESIZE) * mmap.PAGESIZE)
            # The old map lives as long as its views.
            self._map = mmap.mmap(self.descriptor, 0)
        return memoryview(self._map)

    def close(self) -> None:
        """Closes the file; its memory stays while it is mapped."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor, self._map = -1, None


def anonymous_file() -> int:
    """Returns the descriptor of a file in memory, which has no name."""
    return os.memfd_create("forebay-map", os.MFD_CLOEXEC)


def _opened(duplicate: Any) -> Segment:
    return Segment(duplicate.detach())


class Packed(NamedTuple):
    """A value to send."""

    text: bytes
    """The value, pickled without its large arrays."""
    buffers: list[pickle.PickleBuffer]
    """Memory of these."""


def packed(value: Any) -> Packed:
    """Returns a value to send.

    Raises:
        Exception: It cannot be pickled.
    """
    buffers: list[pickle.PickleBuffer] = []
    text = io.BytesIO()
    _Pickler(text, protocol=5, buffer_callback=lambda buffer: buffer.raw().nbytes < _SHARED_BYTES_MIN or buffers.append(buffer)).dump(value)
    return Packed(text.getvalue(), buffers)


class Channel:
    """One end of a pipe, with the memory for the values that each end sends."""

    def __init__(self, pipe: Connection, outgoing: Segment, incoming: Segment) -> None:
        self.pipe = pipe
        self._outgoing = outgoing
        self._incoming = incoming

    def send(self, value: Any) -> None:
        """Sends a value."""
        self.send_each([packed(value)])

    def send_each(self, values: Sequence[Packed]) -> None:
        """Sends several values.

        Raises:
            MemoryError: The system has no memory for their arrays.
            OSError: The process at the opposite end has ended.
        """
        parts, views, end = [], [], 0
        for value in values:
            spans = []
            for buffer in value.buffers:
                view = buffer.raw()
                spans.append((end, view.nbytes, view.readonly))
                views.append((end, view))
                end += -(-view.nbytes // _ALIGN_BYTES) * _ALIGN_BYTES
            parts.append((value.text, spans))
        if views:
            try:
                memory = self._outgoing.bytes(end)
            except OSError as error:
                raise MemoryError(f"{end} bytes of shared memory: {error}") from error
            for start, view in views:
                memory[start : start + view.nbytes] = view
        self.pipe.send_bytes(pickle.dumps((end, parts)))

    def receive(self, copies: bool) -> Any:
        """Returns the next value. Without `copies` its arrays are views of the memory, valid until the next one is sent."""
        (load,) = self.receive_each(copies)
        return load()

    def receive_each(self, copies: bool) -> list[Callable[[], Any]]:
        """Returns a function for each of several values that loads it; see `receive`.

        Raises:
            EOFError, OSError: The process at the opposite end has ended.
        """
        end, parts = pickle.loads(self.pipe.recv_bytes())
        memory = self._incoming.bytes(end) if end else memoryview(b"")

        def load(text: bytes, spans: list[tuple[int, int, bool]]) -> Any:
            views = [(memory[start : start + length], is_readonly) for start, length, is_readonly in spans]
            if copies:
                return pickle.loads(text, buffers=[bytearray(view) for view, _ in views])
            return pickle.loads(text, buffers=[view.toreadonly() if is_readonly else view for view, is_readonly in views])

        return [functools.partial(load, text, spans) for text, spans in parts]

    def close(self) -> None:
        """Closes this end."""
        self.pipe.close()
        self._outgoing.close()
        self._incoming.close()


class _Pickler(pickle.Pickler):
    """Passes tensors in host memory as arrays of numpy, which share memory."""

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind.__module__ != "torch" or kind.__name__ != "Tensor":
            return NotImplemented
        import torch

        if value.device.type != "cpu" or value.layout is not torch.strided or value.requires_grad or value.is_quantized:
            return NotImplemented
        # numpy has no lazy conjugates and negatives.
        value = value.detach().contiguous().resolve_conj().resolve_neg()
        try:
            return _tensor, (value.numpy(), None)
        except TypeError:  # A type that numpy does not have, such as bfloat16.
            of_bytes = value.reshape(-1).view(torch.uint8).numpy()
            return _tensor, (of_bytes, (str(value.dtype).removeprefix("torch."), tuple(value.shape)))


def _tensor(array: Any, form: tuple[str, tuple[int, ...]] | None) -> Any:
    import torch

    tensor = torch.from_numpy(array)
    if form is None:
        return tensor
    name, shape = form
    return tensor.view(getattr(torch, name)).reshape(shape)
