"""Batches of DataLoader workers, in shared memory that is used again and again.

torch sends texts and bytes through a pipe of 64 KiB, and makes, maps and faults in a file of /dev/shm for each tensor of
each batch. Here a worker has a few slots, each of them a memfd. It pickles a batch into a free slot (`Packer`), the queue
carries only the slot's number, and the loader's process unpickles in place (`_take`): tensors and arrays of 64 KiB and
more are views of the slot, anything smaller is a copy. torch's queue, order, prefetch and errors are unchanged.

    worker: free slot --collate, pickle--> lent --queue--> loader: unpickled --last view dropped--> free

A slot's first byte is its state. The worker lends a slot and the loader frees it. A fork copies the loader's views, so
slots that are lent at that time are never filled again: the worker replaces them. The memory has no name and is not in
/dev/shm, which is small in containers; it is freed with the last mapping, also after a kill. If a worker has no free
slot, since the program keeps its batches, or no memory or descriptor for one, its batch goes through torch's queue.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import mmap
import os
import pickle
import threading
import weakref
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from torch.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map

__all__ = ["Packer", "Slots"]

_FREE, _LENT, _DROPPED = range(3)
# Cache lines of a state and of the data differ; 64 bytes are the largest vectors.
_ALIGNMENT = 64
# Smaller tensors do not keep a slot from its next use: a program may collect labels.
_VIEW_BYTES_MIN = 1 << 16
# Slots of a worker beyond the batches that it prefetches: for batches in use.
_SLOTS_MORE = 4
# Of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class Slots:
    """The loader's side of the slots of all workers of one iterator."""

    def __init__(self) -> None:
        self.key = next(_keys)
        # torch's, once its iterator has started them.
        self.workers: list[BaseProcess] = []
        # By worker and number of the slot.
        self._mappings: dict[tuple[int, int], mmap.mmap] = {}
        self._lent: dict[int, tuple[tuple[int, int], mmap.mmap]] = {}
        _all[self.key] = self

    def take(self, place: tuple[int, int], size: int, handle: Any) -> memoryview:
        """Returns the memory of a lent slot, which is free after the last view of it has been dropped.

        Args:
            place: Worker, and number of the slot.
            size: Size in bytes.
            handle: `DupFd` of a slot that is new or has grown; None for one that is mapped.
        """
        if handle is not None:
            try:
                fd = handle.detach()
            except Exception:
                self._await_end(place[0])
                raise
            try:
                self._mappings[place] = _mapped(fd, size)
            finally:
                os.close(fd)
        memory, token = self._mappings[place], next(_keys)
        owner = (ctypes.c_ubyte * size).from_buffer(memory)
        self._lent[token] = place, memory
        # The last view is dropped by an atomic decrement: all reads of the slot come before it.
        weakref.finalize(owner, _release, self._lent, token).atexit = False
        return memoryview(owner).cast("B")

    def _await_end(self, worker: int) -> None:
        """Waits for the end of a worker that did not pass a slot, if that is the reason.

        A process that is killed closes its connections first. torch reports the error of a connection as it is while the
        worker still counts as alive, and raises for its end afterwards, wherever the program is then. Once the worker has
        been waited for, torch raises for it here or in place of the connection's error, and not again.
        """
        if worker < len(self.workers):
            self.workers[worker].join(MP_STATUS_CHECK_INTERVAL)

    def drop_lent(self) -> None:
        """Excludes lent slots from any further use."""
        for token in list(self._lent):
            place, memory = self._lent.pop(token, (None, None))
            if memory is not None:
                memory[0] = _DROPPED
                self._mappings.pop(place, None)

    def forget_parent(self) -> None:
        """Forgets all slots: they belong to the parent of this process."""
        self._lent.clear()
        self._mappings.clear()


def _release(lent: dict[int, tuple[Any, mmap.mmap]], token: int) -> None:
    _, memory = lent.pop(token, (None, None))
    if memory is not None:
        memory[0] = _FREE


_keys = itertools.count()
_all: weakref.WeakValueDictionary[int, Slots] = weakref.WeakValueDictionary()
os.register_at_fork(
    before=lambda: [slots.drop_lent() for slots in list(_all.values())],
    after_in_child=lambda: [slots.forget_parent() for slots in list(_all.values())],
)


def _take(key: int, place: tuple[int, int], size: int, handle: Any, pickled: slice, buffers: list[slice]) -> Any:
    """Returns the batch of a slot, while the queue's message is unpickled."""
    slots = _all.get(key)
    if slots is None:
        raise RuntimeError("the batch belongs to a DataLoader iterator that has ended, or to a different process")
    memory = slots.take(place, size, handle)
    return pickle.loads(memory[pickled], buffers=[memory[part] for part in buffers])


def _mapped(fd: int, size: int) -> mmap.mmap:
    return mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)


class _NoRoom(Exception):
    """The machine has no memory or no descriptor for a slot."""


class _Slot:
    """The worker's side of a slot."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.fd = os.memfd_create("forebay-batch")
        weakref.finalize(self, os.close, self.fd).atexit = False
        # Size in bytes, here and in the loader's process.
        self.size = self.size_there = 0
        self._memory: mmap.mmap
        self._owners: list[weakref.ref[Any]] = []

    def state(self) -> int:
        """Returns the state; a slot with tensors that this process still uses is lent."""
        if any(owner() is not None for owner in self._owners):
            return max(_LENT, self._memory[0])
        return self._memory[0] if self.size else _FREE

    def lend(self) -> None:
        """Gives the slot to the loader's process."""
        self._memory[0] = _LENT
        self.size_there = self.size

    def begin(self) -> None:
        """Empties the slot."""
        self.end = _ALIGNMENT
        self._owners, self._ranges = [], []
        self._view = memoryview(b"")
        if self.size:
            self._own()

    def _own(self) -> None:
        owner = (ctypes.c_ubyte * self.size).from_buffer(self._memory)
        self._owners.append(weakref.ref(owner))
        self._ranges.append((ctypes.addressof(owner), self.size))
        self._view = memoryview(owner).cast("B")

    def finish(self) -> None:
        """Drops the slot's own view of its memory."""
        self._view = memoryview(b"")

    def allocate(self, count: int) -> memoryview:
        """Returns the next `count` bytes. Tensors in the slot remain valid if it grows.

        Raises:
            _NoRoom: There is no memory.
        """
        end = self.end + count
        if end > self.size:
            size = -(-end * 5 // 4 // mmap.PAGESIZE) * mmap.PAGESIZE
            try:
                # Not by a first write, which would end the process if there is no memory.
                os.posix_fallocate(self.fd, 0, size)
                self._memory = _mapped(self.fd, size)
            except OSError as error:
                raise _NoRoom from error
            self.size = size
            self._own()
        part, self.end = self._view[self.end : end], end
        return part

    def align(self) -> None:
        """Moves the end to the start of a vector."""
        self.end = -(-self.end // _ALIGNMENT) * _ALIGNMENT

    def write(self, data: bytes) -> None:
        """Appends bytes, for a pickler."""
        self.allocate(len(data))[:] = data

    def place(self, raw: memoryview) -> slice:
        """Returns the place of bytes, which are copied into the slot if they are not there already."""
        address = np.frombuffer(raw, np.uint8).__array_interface__["data"][0]
        for start, size in self._ranges:
            if start <= address < start + size:
                return slice(address - start, address - start + raw.nbytes)
        self.align()
        self.allocate(raw.nbytes)[:] = raw
        return slice(self.end - raw.nbytes, self.end)


class _Pickler(ForkingPickler):
    """Pickler into a slot, with large tensors and arrays as buffers. Unusual tensors go through torch's shared memory."""

    def __init__(self, slot: _Slot) -> None:
        self.buffers: list[memoryview] = []
        # Not a method of this object: in a reference cycle the batch would live until a garbage collection.
        super().__init__(slot, 5, True, functools.partial(_is_small, self.buffers))

    def reducer_override(self, value: Any) -> Any:
        """Returns the reduced form of a tensor or an array; called for each object that is not of a basic type."""
        if type(value) is Tensor and _is_plain(value) and value.numel():
            shape, stride = tuple(value.shape), value.stride()
            count = 1 + sum((size - 1) * step for size, step in zip(shape, stride))
            stored = value.as_strided((count,), (1,), value.storage_offset()).view(torch.uint8).numpy()
            return _tensor, (pickle.PickleBuffer(stored), value.dtype, shape, stride)
        if type(value) is np.ndarray and not value.flags.writeable:
            # The queue's arrays are writable.
            return value.copy("K").__reduce_ex__(5)
        return NotImplemented


def _is_small(large: list[memoryview], buffer: pickle.PickleBuffer) -> bool:
    """Returns true for a buffer that is part of the pickle; adds any other to `large`."""
    raw = buffer.raw()
    if raw.nbytes >= _VIEW_BYTES_MIN:
        large.append(raw)
    return raw.nbytes < _VIEW_BYTES_MIN


def _is_plain(tensor: Tensor) -> bool:
    unusual = tensor.requires_grad or tensor.is_quantized or tensor.is_nested or tensor.is_conj() or tensor.is_neg()
    return tensor.device.type == "cpu" and tensor.layout is torch.strided and not unusual


def _tensor(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    storage = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape, stride)


def _keep_freed_memory() -> None:
    """Has malloc keep up to 256 MiB for the next batch: half of a worker's time would be page faults of its samples.

    The most recent batch has had this memory. Allocations up to 32 MiB come from it, which is where malloc's own limit ends.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        mallopt(_M_TRIM_THRESHOLD, 256 << 20)


class _Packed:
    """Message of the queue: pickled here, it is the batch there."""

    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _take, self._arguments


class Packer:
    """`collate_fn` of workers: the program's own, and then the batch into a slot.

    Args:
        collate_fn: The program's.
        slots: The loader's side.
        prefetch: Batches that a worker is ahead.
    """

    def __init__(self, collate_fn: Callable[[Any], Any], slots: Slots, prefetch: int) -> None:
        self._collate_fn = collate_fn
        self._key = slots.key
        self._slots_max = prefetch + _SLOTS_MORE
        # State of a worker; the loader's process has none.
        self._slots: list[_Slot] = []
        self._made = 0
        self._filled: _Slot | None = None
        self._caller: tuple[int, int] | None = None

    def __call__(self, samples: Any) -> Any:
        """Returns a batch of samples as a message for `_take`, or the batch itself if there is no slot."""
        if self._caller is None:
            _keep_freed_memory()
            if default_collate_fn_map.get(Tensor) is collate_tensor_fn:
                # torch's own makes a file of shared memory for each tensor of a batch. This is a worker's map.
                default_collate_fn_map[Tensor] = self._stack
        self._filled, self._caller = None, (os.getpid(), threading.get_ident())
        try:
            batch = self._collate_fn(samples)
            slot = self._slot()
            return batch if slot is None else self._pack(batch, slot)
        except _NoRoom:
            return batch
        finally:
            if self._filled is not None:
                self._filled.finish()
            self._caller = (0, 0)

    def _pack(self, batch: Any, slot: _Slot) -> _Packed:
        slot.align()
        start = slot.end
        self._caller = (0, 0)
        pickler = _Pickler(slot)
        pickler.dump(batch)
        pickled = slice(start, slot.end)
        buffers = [slot.place(raw) for raw in pickler.buffers]
        try:
            handle = DupFd(slot.fd) if slot.size != slot.size_there else None
        except OSError as error:
            raise _NoRoom from error
        slot.lend()
        worker = get_worker_info()
        assert worker is not None
        return _Packed(self._key, (worker.id, slot.number), slot.size, handle, pickled, buffers)

    def _slot(self) -> _Slot | None:
        """Returns the slot of the batch in work; None if all are lent and there can be no further one."""
        if self._filled is None:
            states = [(slot.state(), slot) for slot in self._slots]
            self._slots = [slot for state, slot in states if state != _DROPPED]
            self._filled = next((slot for state, slot in states if state == _FREE), None)
            if self._filled is None and len(self._slots) < self._slots_max:
                try:
                    self._filled = _Slot(self._made)
                except OSError:
                    return None
                self._made += 1
                self._slots.append(self._filled)
            if self._filled is not None:
                self._filled.begin()
        return self._filled

    def _stack(self, batch: list[Tensor], *, collate_fn_map: Any = None) -> Tensor:
        """Stacks tensors in the slot, if the batch in work asks for it and they are large."""
        first = batch[0]
        shape = (len(batch), *first.shape)
        size = math.prod(shape) * first.element_size() if type(first) is Tensor and _is_plain(first) else 0
        if self._caller == (os.getpid(), threading.get_ident()) and size:
            if size < _VIEW_BYTES_MIN:
                return torch.stack(batch, 0, out=first.new_empty(shape))
            slot = self._slot()
            if slot is not None:
                slot.align()
                try:
                    out = torch.frombuffer(slot.allocate(size), dtype=first.dtype)
                    return torch.stack(batch, 0, out=out.view(shape))
                except _NoRoom:
                    pass
        return collate_tensor_fn(batch, collate_fn_map=collate_fn_map)
