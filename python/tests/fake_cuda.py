"""The engine's stand-ins for a CUDA driver, for nvJPEG and for cuFile, from Python, and a consumer of device tensors by
DLPack.

The stand-in's device memory is host memory, and its streams move as late as is legal: a consumer that does not wait for
a copy sees what was there before.
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
        """Lets all streams end what they were given."""
        self.library.fake_cuda_run()

    def waits_move(self, on):
        """Whether a host that waits for the device moves it."""
        self.library.fake_cuda_waits_advance(int(on))

    def run_copies(self, besides):
        """Lets all streams but the default ones and `besides` go as far as they can."""
        self.library.fake_cuda_run_copies(besides)

    def stream(self, device=0):
        return self.library.fake_cuda_stream(device)

    def fail(self, function, code, nth=1):
        """The `nth` call of `function` from now on answers `code`."""
        self.library.fake_cuda_fail(function.encode(), nth, code)

    def retained(self, device):
        """How often a device's context is held."""
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
        # What a backend has to decode before it gets any pictures.
        for proof in (GPU / "src/decode/selftest").iterdir():
            self.add(proof.read_bytes(), np.asarray(Image.open(proof).convert("RGB")))

    def add(self, file, pixels):
        """From now on `file` has these pixels, an array of rows, columns and colours."""
        height, width, _ = pixels.shape
        self.library.fake_nvjpeg_add(file, len(file), width, height, pixels.tobytes())

    def engines(self, count):
        """How many decoders the device has that do nothing else."""
        self.library.fake_nvjpeg_engines(count)

    def fail(self, function, code, nth=1):
        """The `nth` call of `function` from now on answers `code`."""
        self.library.fake_nvjpeg_fail(function.encode(), nth, code)

    def live(self):
        """Handles of all kinds that are alive."""
        return self.library.fake_nvjpeg_live()


class Consumer:
    """What a framework does with a capsule: takes it, reads on its stream, and calls the deleter when it is done."""

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
        """A copy in host memory, as a read on the consumer's stream gives it."""
        return self._read(self._driver.library.fake_cuda_read)

    def read_later(self):
        """Queues the read instead: the array is filled when the stream reaches it."""
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
        """Gives it back, on the thread that calls, without the interpreter's lock."""
        self._managed.deleter(ctypes.addressof(self._managed))
