"""CUDA driver by ctypes, for figures of copies and of the decoder without a framework."""

import ctypes
import os


class DriverError(RuntimeError):
    """The driver, or a library on it, returned an error."""


class Device:
    """Device 0 of the driver at `library` (None: the system's), its primary context current on this thread."""

    def __init__(self, library=None):
        self._cuda = ctypes.CDLL(str(library or os.environ.get("FOREBAY_CUDA_LIBRARY") or "libcuda.so.1"))
        self._call("cuInit", 0)
        self._context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), 0)
        self._call("cuCtxPushCurrent_v2", self._context)

    def close(self):
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        self._call("cuDevicePrimaryCtxRelease_v2", 0)

    def _call(self, function, *arguments):
        code = getattr(self._cuda, function)(*arguments)
        if code != 0:
            raise DriverError(f"{function} answered {code}")

    def allocate(self, length):
        """Allocates `length` bytes on the device; returns the address."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(length))
        return address.value

    def free(self, address):
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def register(self, array):
        """Page-locks a numpy array."""
        self._call("cuMemHostRegister_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), 0)

    def unregister(self, array):
        self._call("cuMemHostUnregister", ctypes.c_void_p(array.ctypes.data))

    def stream(self):
        """Makes a stream that does not wait for the default stream."""
        stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), 1)
        return stream

    def end_stream(self, stream):
        self._call("cuStreamDestroy_v2", stream)

    def copy(self, address, array, stream):
        """Starts a copy of a page-locked array."""
        length = ctypes.c_size_t(array.nbytes)
        self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data), length, stream)

    def event(self):
        """Event of a stream, without its time."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 2)
        return event

    def end_event(self, event):
        self._call("cuEventDestroy_v2", event)

    def record(self, event, stream):
        """Records the event after the work queued so far."""
        self._call("cuEventRecord", event, stream)

    def wait(self, event):
        """Waits until the stream has reached the event."""
        self._call("cuEventSynchronize", event)

    def synchronize(self):
        """Waits for all work of the device."""
        self._call("cuCtxSynchronize")
