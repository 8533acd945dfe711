"""What must hold on a device: its batches are the host's.

Each check raises AssertionError with what it saw, and returns what is worth noting.
"""

import collections
import contextlib
import gc
import logging
import pathlib
import tempfile

import numpy as np

import forebay as fb

from . import data

LEVELS_MEAN_MAX = 2.0
"""Mean difference of grey levels between nvJPEG's pixels and libjpeg-turbo's: their transforms round differently."""

LEVELS_SAMPLE_MAX = 6.0
"""The same within the worst sample. Another crop, or no flip, is 30 and more."""

UPSAMPLING_BATCH_MAX = 64
"""Pictures of a batch that shows how colours are upsampled: above 50, libraries decode in another way."""

COUNTERS = ("pictures_on_device", "pictures_on_engines", "pictures_refused", "device_decode_fallbacks")


def counters(stats, *more):
    """What a loader's `stats` counted of pictures on the device, and `more`."""
    return {name: stats["counters"].get(name, 0) for name in (*COUNTERS, *more)}


def fields(side):
    return {
        "x": fb.Image("image", fb.RandomResizedCrop(side), fb.RandomHorizontalFlip()),
        "y": fb.Scalar("number", dtype="int64"),
    }


def loader(folder, device, framework, **kwargs):
    kwargs = {"batch_size": 16, "shuffle": True, "memory": "256mb", **kwargs}
    return fb.Loader(local=folder, device=device, framework=framework, **kwargs)


def _differences(folder, framework, device, side, both=None, **kwargs):
    """Absolute differences of grey levels of each sample over two epochs; labels must be equal, in the same order. `both` are
    arguments of the host's loader and the device's, `kwargs` the device's alone.
    """
    worst, means, epochs = 0, [], 2
    on_host = loader(folder, "cpu", "numpy", fields=fields(side), **(both or {}))
    on_device = loader(folder, device, framework.framework, fields=fields(side), **(both or {}), **kwargs)
    with on_host, on_device:
        for _ in range(epochs):
            for host, batch in zip(on_host, on_device, strict=True):
                labels = framework.array(batch["y"])
                assert np.array_equal(labels, host["y"]), "labels differ, or their order"
                difference = np.abs(framework.array(batch["x"]).astype(int) - host["x"])
                worst = max(worst, int(difference.max()))
                means += list(difference.mean(axis=(1, 2, 3)))
                del batch
        stats = on_device.stats()
    return worst, np.array(means), stats


def copies_are_exact(folder, framework, device, side):
    """Pictures that the host decodes arrive to the bit."""
    worst, means, _ = _differences(folder, framework, device, side)
    assert worst == 0, f"grey levels differ by up to {worst}"
    return {"samples": len(means)}


def device_decode_agrees(folder, framework, device, side, batch_size=16):
    """The device decodes, and makes the same crops and flips of the same samples."""
    both = {"batch_size": batch_size}
    worst, means, stats = _differences(folder, framework, device, side, device_decode=True, both=both)
    counted = counters(stats)
    notes = [note for note in stats["notes"] if "decode" in note]
    assert counted["pictures_on_device"] > 0, f"the device decoded nothing: {notes}"
    upsampling = _nearest_upsampling(pathlib.Path(folder).parent, framework, device, min(batch_size, UPSAMPLING_BATCH_MAX))
    found = f"upsampling is {upsampling}, {counted}"
    assert means.mean() <= LEVELS_MEAN_MAX, f"grey levels differ by {means.mean():.2f} on average: {found}"
    assert means.max() <= LEVELS_SAMPLE_MAX, f"a sample's grey levels differ by {means.max():.2f} on average: {found}"
    figures = {"level_difference_mean": means.mean(), "level_difference_max": worst, "worst_sample_mean": means.max()}
    return {**counted, **figures, "nearest_upsampling": upsampling, "notes": notes}


def _nearest_upsampling(scratch, framework, device, count):
    """How a batch of so many pictures had its colours brought to the pictures' resolution: "smooth", as on the host, "plain" if they
    were repeated, "neither" if it is not even half as far from one of them as they are from each other. Engines and cores may differ.
    """
    file = data.colour_edges()
    known = dict(zip(("smooth", "plain"), data.upsampled(file), strict=True))
    apart = np.abs(known["smooth"] - known["plain"]).mean()
    height, width, _ = known["smooth"].shape
    field = fb.Image("image", fb.CenterCrop((height, width)), layout="NHWC")
    with tempfile.TemporaryDirectory(prefix="colours-", dir=scratch) as folder:
        shards = data.write_shards(pathlib.Path(folder) / "shards", [file], count)
        kwargs = {"fields": {"x": field}, "batch_size": count, "device_decode": True}
        with loader(shards, device, framework.framework, **kwargs) as batches:
            for batch in batches:
                pictures = framework.array(batch["x"]).astype(int)
                del batch
            decoded = batches.stats()["counters"]["pictures_on_device"]
    if decoded < count:
        return f"unknown, the device decoded {decoded} of {count}"
    seen = collections.Counter()
    for picture in pictures:
        nearest, distance = min(((name, np.abs(picture - one).mean()) for name, one in known.items()), key=lambda pair: pair[1])
        seen[nearest if distance < apart / 2 else "neither"] += 1
    return next(iter(seen)) if len(seen) == 1 else ", ".join(f"{name} {times}" for name, times in seen.most_common())


def device_decode_agrees_in_large_batches(folder, framework, device, side):
    """The same where the library reads entropy-coded data on the device: above 50 pictures."""
    return device_decode_agrees(folder, framework, device, side, batch_size=200)


def odd_files_are_as_on_the_host(folder, framework, device, side):
    """Files of every kind, damaged ones among them: the same are left out, the others have the host's pixels."""
    files = data.odd()
    with tempfile.TemporaryDirectory(prefix="odd-", dir=pathlib.Path(folder).parent) as scratch:
        shards = data.write_shards(pathlib.Path(scratch) / "shards", list(files.values()), times=4)
        kwargs = {"batch_size": len(files), "on_error": "skip", "max_errors": 8 * len(files)}
        with _skipping_in_silence():
            _, means, stats = _differences(shards, framework, device, side, device_decode=True, both=kwargs)
    notes = [note for note in stats["notes"] if "decode" in note]
    found = {"kinds": len(files), **counters(stats, "samples_skipped"), "worst_sample_mean": float(means.max()), "notes": notes}
    assert means.max() <= LEVELS_SAMPLE_MAX, f"a sample's grey levels differ by {means.max():.2f} on average: {found}"
    return found


@contextlib.contextmanager
def _skipping_in_silence():
    """Samples that are meant to be skipped are not told one by one: of a machine far away, only the last lines may come back."""
    logger = logging.getLogger("forebay")

    def is_other(record):
        return not record.getMessage().startswith("a sample was skipped")

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def device_decode_repeats_itself(folder, framework, device, side):
    """Two runs give the same bytes: nothing is read before it is there or after it has been written over."""
    digests = []
    for _ in range(2):
        with loader(folder, device, framework.framework, fields=fields(side), device_decode=True, prefetch=4) as batches:
            digests.append([hash(framework.array(batch["x"]).tobytes()) for batch in batches])
    different = sum(a != b for a, b in zip(*digests, strict=True))
    # Engines and cores may round differently, and who gets a picture depends on their speed.
    return {"batches": len(digests[0]), "batches_that_differ": different}


def kept_batches_stay_what_they_are(folder, framework, device, side):
    """Batches that a consumer keeps are not written over by later ones."""
    with loader(folder, device, framework.framework, fields=fields(side), device_decode=True) as batches:
        kept = [(batch, hash(framework.array(batch["x"]).tobytes())) for batch in batches]
        for batch, digest in kept:
            assert hash(framework.array(batch["x"]).tobytes()) == digest, "a batch changed after it was handed out"
        count = len(kept)
        del kept, batch
    gc.collect()
    return {"batches": count}


def a_state_resumes(folder, framework, device, side):
    """A loader goes on where another one's state was taken."""
    with loader(folder, device, framework.framework, fields=fields(side), device_decode=True) as batches:
        labels, state = [], None
        for number, batch in enumerate(batches):
            labels.append(framework.array(batch["y"]).tolist())
            if number == 0:
                state = batches.state_dict()
            del batch
    with loader(folder, device, framework.framework, fields=fields(side), device_decode=True) as batches:
        batches.load_state_dict(state)
        rest = [framework.array(batch["y"]).tolist() for batch in batches]
    assert rest and rest == labels[1:], "other samples after resuming"
    return {"batches": len(rest)}


CHECKS = (
    copies_are_exact,
    device_decode_agrees,
    device_decode_agrees_in_large_batches,
    odd_files_are_as_on_the_host,
    device_decode_repeats_itself,
    kept_batches_stay_what_they_are,
    a_state_resumes,
)
