"""The decoder alone: nvJPEG's batched interface by ctypes, on the engines, on the ordinary cores, and on both.

The library takes batches of parts for the engines alone; the cores decode whole pictures.
"""

import ctypes
import os
import time

import numpy as np

CORES, ENGINES = 2, 3
RGB_INTERLEAVED = 5
UPSAMPLING_WITH_INTERPOLATION = 1 << 5
"""As the engine has it, where the library's version knows it."""
ALIGN_BYTES = 256
SONAMES = ("libnvjpeg.so.13", "libnvjpeg.so.12")


class Refused(RuntimeError):
    """The library answered something but success."""


class _Image(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def load(packages):
    """The library: what FOREBAY_NVJPEG_LIBRARY names, the system's, or a wheel's in the folders `packages`.

    Raises:
        OSError: There is none.
    """
    named = os.environ.get("FOREBAY_NVJPEG_LIBRARY")
    names = [named] if named else list(SONAMES)
    if not named:
        patterns = ("nvidia/*/lib/libnvjpeg.so.*", "torchvision.libs/libnvjpeg*")
        names += [str(path) for folder in packages for pattern in patterns for path in sorted(folder.glob(pattern))]
    why = OSError("nothing to load")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            why = error
    raise why


class Decoder:
    """One backend with a state."""

    def __init__(self, library, backend):
        self._library = library
        self.takes_parts = backend == ENGINES
        self.handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self._call("nvjpegCreateEx", backend, None, None, UPSAMPLING_WITH_INTERPOLATION, ctypes.byref(self.handle))
        except Refused:
            self._call("nvjpegCreateEx", backend, None, None, 0, ctypes.byref(self.handle))
        self._call("nvjpegJpegStateCreate", self.handle, ctypes.byref(self._state))
        self._params = []

    def _call(self, function, *arguments):
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise Refused(f"{function} answered {code}")

    def engines(self):
        """How many engines there are, and cores of each."""
        engines, cores = ctypes.c_uint(), ctypes.c_uint()
        self._call("nvjpegGetHardwareDecoderInfo", self.handle, ctypes.byref(engines), ctypes.byref(cores))
        return engines.value, cores.value

    def start(self, files, regions, places, stream):
        """Starts decoding `regions` of `files`, all of each where it does not take parts, to the addresses `places`. Its last
        batch must have ended.
        """
        count = len(files)
        self._call("nvjpegDecodeBatchedInitialize", self.handle, self._state, count, 1, RGB_INTERLEAVED)
        images = (_Image * count)()
        for image, place, region in zip(images, places, regions):
            image.channel[0], image.pitch[0] = place, region[2] * 3
        data = (ctypes.c_void_p * count)(*(file.ctypes.data for file in files))
        lengths = (ctypes.c_size_t * count)(*(file.nbytes for file in files))
        if not self.takes_parts:
            self._call("nvjpegDecodeBatched", self.handle, self._state, data, lengths, images, stream)
            return
        while len(self._params) < count:
            self._params.append(ctypes.c_void_p())
            self._call("nvjpegDecodeParamsCreate", self.handle, ctypes.byref(self._params[-1]))
        for params, region in zip(self._params, regions):
            self._call("nvjpegDecodeParamsSetROI", params, *map(int, region))
        params = (ctypes.c_void_p * count)(*(params.value for params in self._params[:count]))
        self._call("nvjpegDecodeBatchedEx", self.handle, self._state, data, lengths, images, params, stream)

    def close(self):
        for params in self._params:
            self._call("nvjpegDecodeParamsDestroy", params)
        self._call("nvjpegJpegStateDestroy", self._state)
        self._call("nvjpegDestroy", self.handle)


def crops(sizes, seed=0):
    """A region of 8 to 100 % of each picture's area, as random-resized-crop draws them."""
    rng = np.random.default_rng(seed)
    regions = []
    for width, height in sizes:
        area = rng.uniform(0.08, 1.0)
        w, h = max(1, int(width * area**0.5)), max(1, int(height * area**0.5))
        regions.append((int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h))
    return regions


def rate(device, parts, seconds):
    """Pictures per second of `parts`, each a decoder, its share of the files and what of them; the best of the seconds given.

    They are started in their order: the engines' call comes back when most of its pictures are decoded.
    """
    streams = [device.stream() for _ in parts]
    # Each begins where the device reads at once, as in the engine.
    sizes = [-(-w * h * 3 // ALIGN_BYTES) * ALIGN_BYTES for _, _, regions in parts for _, _, w, h in regions]
    memory = device.allocate(max(sum(sizes), 1))
    places = [int(place) for place in memory + np.concatenate([[0], np.cumsum(sizes)[:-1]])]
    best, spent = 0.0, 0.0
    try:
        while spent < seconds or best == 0.0:
            begun, at = time.perf_counter(), 0
            for (decoder, files, regions), stream in zip(parts, streams):
                decoder.start(files, regions, places[at : at + len(files)], stream)
                at += len(files)
            device.synchronize()
            took = time.perf_counter() - begun
            best, spent = max(best, len(sizes) / took), spent + took
    finally:
        device.synchronize()
        device.free(memory)
        for stream in streams:
            device.end_stream(stream)
    return best


def figures(device, library, sets, batches, shares, seconds, is_over=lambda: False):
    """Rates for each of `sets` (name to files and sizes), batch size and share of the engines, until `is_over`."""
    cores = Decoder(library, CORES)
    try:
        engines = Decoder(library, ENGINES)
        found = dict(zip(("engines", "cores_of_each"), engines.engines()))
    except Refused as refused:
        engines, found = None, {"engines": 0, "why": str(refused)}
    rows = []
    for name, (files, sizes) in sets.items():
        registered = [np.frombuffer(bytearray(file), np.uint8) for file in files]
        pool = np.concatenate(registered)
        device.register(pool)
        starts = np.concatenate([[0], np.cumsum([len(file) for file in registered])])
        views = [pool[start:end] for start, end in zip(starts, starts[1:])]
        try:
            for batch in batches:
                picked = [views[i % len(views)] for i in range(batch)]
                wholes = [(0, 0, *sizes[i % len(sizes)]) for i in range(batch)]
                regions = crops([sizes[i % len(sizes)] for i in range(batch)])
                for share in shares if engines else [0.0]:
                    cut = round(batch * share)
                    parts = [(cores, picked[cut:], wholes[cut:])] if cut < batch else []
                    parts += [(engines, picked[:cut], regions[:cut])] if cut else []
                    row = {"pictures": name, "batch": batch, "engines_share": share}
                    if is_over():
                        found["cut_short"] = True
                        continue
                    try:
                        row["pictures_per_s"] = rate(device, parts, seconds)
                    except Refused as refused:
                        row["failed"] = str(refused)
                    rows.append(row)
        finally:
            device.unregister(pool)
    for decoder in (engines, cores):
        if decoder:
            decoder.close()
    return {**found, "rates": rows}
