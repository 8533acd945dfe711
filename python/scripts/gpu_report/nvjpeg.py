"""Figures of the decoder alone: nvJPEG's batched interface by ctypes, on the engines, on the cores, and on both.

Only the engines accept batches of regions; the cores decode whole pictures.
"""

import ctypes
import itertools
import os
import pathlib
import sys
import time

import numpy as np

from . import data
from .device import Device, DriverError
from .outcome import Skipped, so_far

CORES, ENGINES = 2, 3
RGB_INTERLEAVED = 5
UPSAMPLING_WITH_INTERPOLATION = 1 << 5
"""The engine's setting, if the library's version supports it."""
ALIGN_BYTES = 256
ROUND = 4
"""Batches of each decoder in a round."""
SONAMES = ("libnvjpeg.so.13", "libnvjpeg.so.12")


class _Image(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def load(packages):
    """Loads FOREBAY_NVJPEG_LIBRARY, the system's library, or a wheel's in the folders `packages`.

    Raises:
        OSError: There is no library.
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


def load_any():
    """Loads the library of an installed wheel, or the system's.

    Raises:
        OSError: There is no library.
    """
    return load([pathlib.Path(folder) for folder in sys.path])


class Decoder:
    """Backend with a decoder state."""

    def __init__(self, library, backend):
        self._library = library
        self.takes_parts = backend == ENGINES
        self.handle, self._state = ctypes.c_void_p(), ctypes.c_void_p()
        self._params = []
        try:
            self._call("nvjpegCreateEx", backend, None, None, UPSAMPLING_WITH_INTERPOLATION, ctypes.byref(self.handle))
        except DriverError:
            self._call("nvjpegCreateEx", backend, None, None, 0, ctypes.byref(self.handle))
        self._call("nvjpegJpegStateCreate", self.handle, ctypes.byref(self._state))

    def _call(self, function, *arguments):
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise DriverError(f"{function} answered {code}")

    def engines(self):
        """Returns the number of engines, and of cores of each."""
        engines, cores = ctypes.c_uint(), ctypes.c_uint()
        self._call("nvjpegGetHardwareDecoderInfo", self.handle, ctypes.byref(engines), ctypes.byref(cores))
        return engines.value, cores.value

    def start(self, files, regions, places, stream, in_parts=True):
        """Starts to decode `regions` of `files` to the addresses `places`; whole pictures if regions are not supported
        or not given. The last batch must have finished.
        """
        count = len(files)
        self._call("nvjpegDecodeBatchedInitialize", self.handle, self._state, count, 1, RGB_INTERLEAVED)
        images = (_Image * count)()
        for image, place, region in zip(images, places, regions):
            image.channel[0], image.pitch[0] = place, region[2] * 3
        data = (ctypes.c_void_p * count)(*(file.ctypes.data for file in files))
        lengths = (ctypes.c_size_t * count)(*(file.nbytes for file in files))
        if not (self.takes_parts and in_parts):
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
    """Draws a region of 8 to 100 % of each picture's area, like random-resized-crop."""
    rng = np.random.default_rng(seed)
    regions = []
    for width, height in sizes:
        area = rng.uniform(0.08, 1.0)
        w, h = max(1, int(width * area**0.5)), max(1, int(height * area**0.5))
        regions.append((int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h))
    return regions


class _Batch:
    """Decoders with their files and memory. Two batches may be in flight, each with its own decoders."""

    def __init__(self, device, parts, in_parts):
        self._device, self._parts, self._in_parts = device, parts, in_parts
        # Aligned for the device's reads, as in the engine.
        sizes = [-(-w * h * 3 // ALIGN_BYTES) * ALIGN_BYTES for _, _, regions in parts for _, _, w, h in regions]
        # First, since this call fails if there is no memory.
        self._memory = device.allocate(max(sum(sizes), 1))
        self._streams, self._events = [device.stream() for _ in parts], [device.event() for _ in parts]
        self._places = [int(place) for place in self._memory + np.concatenate([[0], np.cumsum(sizes)[:-1]])]
        self.pictures = len(sizes)

    def start(self):
        """Starts; the engines' call returns when most of its pictures are decoded."""
        at = 0
        for (decoder, files, regions), stream, event in zip(self._parts, self._streams, self._events):
            decoder.start(files, regions, self._places[at : at + len(files)], stream, self._in_parts)
            self._device.record(event, stream)
            at += len(files)

    def wait(self):
        for event in self._events:
            self._device.wait(event)

    def close(self):
        self._device.synchronize()
        self._device.free(self._memory)
        for stream, event in zip(self._streams, self._events):
            self._device.end_event(event)
            self._device.end_stream(stream)


def _rate(device, batches, seconds):
    """Measures pictures per second of batches in turn, where all may be in flight: the mean, and the best round."""
    best, spent, count = 0.0, 0.0, 0
    turns = itertools.cycle(batches)
    for batch in batches:
        # The first call allocates a decoder's memory.
        batch.start()
        batch.wait()
        batch.start()
    while spent < seconds or best == 0.0:
        begun = time.perf_counter()
        for batch in itertools.islice(turns, ROUND * len(batches)):
            batch.wait()
            batch.start()
        took = time.perf_counter() - begun
        pictures = ROUND * sum(batch.pictures for batch in batches)
        best, spent, count = max(best, pictures / took), spent + took, count + pictures
    return {"pictures_per_s": count / spent, "best_pictures_per_s": best}


class _Files:
    """Page-locked files, taken in groups, with the region of each."""

    def __init__(self, device, files):
        arrays = [np.frombuffer(file, np.uint8) for file in files]
        self._device, self._pool = device, np.concatenate(arrays)
        ends = np.cumsum([len(array) for array in arrays])
        self._files = np.split(self._pool, ends[:-1])
        self._sizes = [data.size(file) for file in files]
        device.register(self._pool)

    def pick(self, count):
        """Returns files, whole regions, and cropped regions."""
        turns = [number % len(self._files) for number in range(count)]
        sizes = [self._sizes[number] for number in turns]
        return [self._files[number] for number in turns], [(0, 0, *size) for size in sizes], crops(sizes)

    def close(self):
        self._device.unregister(self._pool)


def _decoders(library, count):
    """Makes pairs of core and engine decoders; returns them with facts about the engines. Without engines the second is
    None."""
    pairs = [[Decoder(library, CORES), None] for _ in range(count)]
    try:
        for pair in pairs:
            pair[1] = Decoder(library, ENGINES)
        found = dict(zip(("engines", "cores_of_each"), pairs[0][1].engines()))
    except DriverError as error:
        found = {"engines": 0, "why_no_engines": str(error)}
        for pair in pairs:
            if pair[1]:
                pair[1].close()
                pair[1] = None
    return pairs, found


def alone(scale, files, is_over=lambda: False):
    """Measures the decoder by batch size, share of the engines and batches in flight, until `is_over`. The engines
    decode regions as for crops, or whole pictures; the cores decode whole pictures. Progressive files are left
    out.
    """
    try:
        library = load_any()
    except OSError as error:
        raise Skipped(f"nvJPEG cannot be loaded: {error}") from error
    taken = data.baseline(files)
    if not taken:
        raise Skipped("all files are progressive, which engines do not support")
    device = Device()
    try:
        pairs, found = _decoders(library, 2)
        found = {"progressive_left_out": len(files) - len(taken), **found, "rates": []}
        pool = _Files(device, taken)
        for way in _ways(scale, bool(pairs[0][1])):
            if is_over():
                found["cut_short"] = True
                break
            row = way | _rate_of(device, pool, pairs, way, scale.decoder_seconds)
            found["rates"].append(row)
            if "failed" in row and way["engines_share"] and way["engines_decode"] == "parts":
                whole = way | {"engines_decode": "whole pictures"}
                found["rates"].append(whole | _rate_of(device, pool, pairs, whole, scale.decoder_seconds))
            so_far(found)
        pool.close()
        for decoder in itertools.chain(*pairs):
            if decoder:
                decoder.close()
    finally:
        device.close()
    return found


def _ways(scale, has_engines):
    """Yields the settings to measure, the most important first: large batches, and shares in between."""
    for batch in reversed(scale.decoder_batches):
        for share in scale.shares if has_engines else (0.0,):
            for under_way in (1, 2):
                yield {"batch": batch, "engines_share": share, "under_way": under_way, "engines_decode": "parts"}
            if share == 1.0:
                yield {"batch": batch, "engines_share": share, "under_way": 2, "engines_decode": "whole pictures"}


def _rate_of(device, pool, pairs, way, seconds):
    cut, in_parts = round(way["batch"] * way["engines_share"]), way["engines_decode"] == "parts"
    files, wholes, regions = pool.pick(way["batch"])
    regions = regions if in_parts else wholes
    batches = []
    try:
        for cores, engines in pairs[: way["under_way"]]:
            parts = [(engines, files[:cut], regions[:cut])] if cut else []
            # The cores first, because their call returns at once.
            parts = ([(cores, files[cut:], wholes[cut:])] if cut < len(files) else []) + parts
            batches.append(_Batch(device, parts, in_parts))
        return _rate(device, batches, seconds)
    except DriverError as error:
        return {"failed": str(error)}
    finally:
        for batch in batches:
            batch.close()
