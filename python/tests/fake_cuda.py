"""The engine's stand-ins for a CUDA driver, for nvJPEG and for cuFile, from Python, and a consumer of device tensors by
DLPack.

The stand-in's device memory is host memory, and its streams move as late as is legal: a consumer that does not wait for
a copy sees the bytes that were there before.
"""

import ctypes
import pathlib
import subprocess

import numpy as np
from PIL import Image

GPU = pathlib.Path(__file__).parents[2] / "gpu"

CUDA = 2
"""DLPack's number of the device type."""

LEGACY_STREAM = 1


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


class Driver:
    """The stand-in, loaded."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.fake_cuda_stream.restype = ctypes.c_void_p
        for read in (self.library.fake_cuda_read, self.library.fake_cuda_read_later):
            read.argtypes = [ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_size_t]
        self.library.fake_cuda_run_copies.argtypes = [ctypes.c_void_p]

    def run(self):
        """Runs all queued work of all streams."""
        self.library.fake_cuda_run()

    def waits_move(self, on):
        """Sets whether a host that waits for the device makes it run."""
        self.library.fake_cuda_waits_advance(int(on))

    def run_copies(self, besides):
        """Runs all streams except the default ones and `besides` as far as they can run."""
        self.library.fake_cuda_run_copies(besides)

    def stream(self, device=0):
        return self.library.fake_cuda_stream(device)

    def fail(self, function, code, nth=1):
        """The `nth` call of `function` from now on answers `code`."""
        self.library.fake_cuda_fail(function.encode(), nth, code)

    def retained(self, device):
        """Returns the number of references to a device's context."""
        return self.library.fake_cuda_retained(device)

    def left(self):
        """Returns registered ranges, device memory and events after all users have released the devices."""
        assert self.library.fake_cuda_await_release(), "a device is still in use"
        counts = ("registered", "allocated", "events")
        return {name: getattr(self.library, f"fake_cuda_{name}")() for name in counts}


def compile_driver(folder):
    library = folder / "libcuda.so"
    # The soname is the first that the engine looks for, so it goes before a driver that this machine has.
    flags = ["-shared", "-fPIC", "-pthread", "-O1", "-ffp-contract=off", "-Wl,-soname,libcuda.so"]
    sources = [GPU / "tests/fake_cuda.c", "-x", "c++", GPU / "src/kernel/crop_resize.cu"]
    subprocess.run(["cc", *flags, "-o", library, *sources], check=True)
    return library


def compile_decoder(folder, driver):
    """nvJPEG on the stand-in at `driver`."""
    library = folder / "libnvjpeg.so.12"
    flags = ["-shared", "-fPIC", "-pthread", "-O1"]
    subprocess.run(["cc", *flags, "-o", library, GPU / "tests/fake_nvjpeg.c", driver], check=True)
    return library


def compile_storage(folder, driver):
    """cuFile on the stand-in at `driver`."""
    library = folder / "libcufile.so.0"
    flags = ["-shared", "-fPIC", "-pthread", "-O1"]
    subprocess.run(["cc", *flags, "-o", library, GPU / "tests/fake_cufile.c", driver], check=True)
    return library


class NvJpeg:
    """The decoder's stand-in, loaded. It decodes the files that are registered with it."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.library.fake_nvjpeg_add.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_char_p]
        # Pictures of the self-test, which every backend must decode first.
        for proof in (GPU / "src/decode/selftest").iterdir():
            self.add(proof.read_bytes(), np.asarray(Image.open(proof).convert("RGB")))

    def add(self, file, pixels):
        """Registers the pixels of `file`: an array of rows, columns and colours."""
        height, width, _ = pixels.shape
        self.library.fake_nvjpeg_add(file, len(file), width, height, pixels.tobytes())

    def engines(self, count):
        """Sets the number of the device's JPEG engines."""
        self.library.fake_nvjpeg_engines(count)

    def fail(self, function, code, nth=1):
        """The `nth` call of `function` from now on answers `code`."""
        self.library.fake_nvjpeg_fail(function.encode(), nth, code)

    def live(self):
        """Returns the number of live handles of all kinds."""
        return self.library.fake_nvjpeg_live()


class Consumer:
    """A framework's use of a capsule: it consumes the capsule, reads on its stream, and calls the deleter at the end."""

    def __init__(self, driver, tensor, stream=LEGACY_STREAM, versioned=True):
        self._driver, self._stream = driver, stream
        extra = {"max_version": (1, 0)} if versioned else {}
        capsule = tensor.__dlpack__(stream=stream, **extra)
        name, kind = (b"dltensor_versioned", _ManagedVersioned) if versioned else (b"dltensor", _Managed)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self._managed = kind.from_address(pointer(capsule, name))
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        # The name marks it as taken; it must live as long as the capsule.
        self._taken = b"used_" + name
        rename(capsule, self._taken)
        del capsule
        assert (kind is _Managed) or list(self._managed.version) == [1, 0]
        self.device = tuple(self._managed.tensor.device)

    def array(self):
        """Returns a copy in host memory, made by a read on the consumer's stream."""
        return self._read(self._driver.library.fake_cuda_read)

    def read_later(self):
        """Queues the read and returns at once: the array is filled when the stream reaches it."""
        return self._read(self._driver.library.fake_cuda_read_later)

    def _read(self, read):
        tensor = self._managed.tensor
        shape = tensor.shape[: tensor.ndim]
        assert tensor.strides[: tensor.ndim] == [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
        kind = {0: "i", 1: "u", 2: "f"}[tensor.code]
        out = np.empty(shape, f"{kind}{tensor.bits // 8}")
        stream = self._stream if self._stream > 2 else 0
        read(self.device[1], stream, tensor.data, out.ctypes.data, out.nbytes)
        return out

    def free(self):
        """Calls the deleter on the calling thread, without the interpreter's lock."""
        self._managed.deleter(ctypes.addressof(self._managed))
