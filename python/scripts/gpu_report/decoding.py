"""Checks of decoding on the device: the same crops and flips, and grey levels close to the host's."""

import collections
import contextlib
import logging
import pathlib
import tempfile

import numpy as np

import forebay as fb

from . import compare, data, surroundings
from .outcome import so_far
from .setting import crops, each, loader

LEVELS_MEAN_MAX = 2.0
"""Mean difference of grey levels between nvJPEG's pixels and libjpeg-turbo's: their transforms round differently."""

LEVELS_SAMPLE_MAX = 6.0
"""The same bound for the worst sample. A wrong crop or flip differs by 30 or more."""

UPSAMPLING_BATCH_MAX = 64
"""Pictures of a batch in the check of upsampling: above 50, libraries use a different path."""

COUNTERS = ("pictures_on_device", "pictures_on_engines", "pictures_refused", "pictures_not_for_device", "device_decode_fallbacks")


def _counters(stats, *more):
    """Returns a loader's counters of pictures on the device, and `more`."""
    return {name: stats["counters"].get(name, 0) for name in (*COUNTERS, *more)}


def _agrees(setting, pictures, *more, note=None, engine=None, **kwargs):
    """Checks that the device decodes and its pictures equal the host's up to rounding; reports `more` counters and
    `note`'s result."""
    comparison, stats = compare.against_host(setting, pictures, engine={"device_decode": True, **(engine or {})}, **kwargs)
    found = {**_counters(stats, *more), "notes": stats["notes"]}
    so_far({**comparison.found(), **found})
    assert found["pictures_on_device"] > 0, f"the device decoded nothing: {stats['notes']}"
    return comparison.hold(LEVELS_MEAN_MAX, LEVELS_SAMPLE_MAX, **found, **(note() if note else {}))


def device_decode_agrees(setting, batch_size=16):
    """Batches of usual size."""

    def upsampling():
        nearest = _nearest_upsampling(setting, min(batch_size, UPSAMPLING_BATCH_MAX))
        return {"nearest_upsampling": nearest, "libraries": surroundings.libraries()}

    both = {"batch_size": batch_size, "engine": {"memory": "512mb"}}
    return _agrees(setting, setting.needs("few"), note=upsampling, both=both)


def device_decode_agrees_in_large_batches(setting):
    """Large batches, for which the library reads entropy-coded data on the device: above 50 pictures."""
    return device_decode_agrees(setting, batch_size=200)


def odd_files_are_as_on_the_host(setting):
    """Files of every kind."""
    pictures = setting.needs("odd")
    return _agrees(setting, pictures, both={"batch_size": len(pictures.files)})


TYPES = (("uint8", False), ("float16", True), ("bfloat16", True), ("float32", True), ("float32", False))


def _every_type_and_layout(*ops):
    """Returns one output for each type and layout, and the sample's number."""
    fields = {"y": fb.Scalar("number", dtype="int64")}
    for dtype, normalized in TYPES:
        for layout in ("NCHW", "NHWC"):
            more = [fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)] if normalized else []
            name = f"{dtype} {layout}{' normalized' if normalized else ''}"
            fields[name] = fb.Image("image", *ops, *more, dtype=dtype, layout=layout)
    return fields


def _agrees_in_every_type_and_layout(setting, *ops):
    # A picture is decoded once per output.
    fields, both = _every_type_and_layout(*ops), {"batch_size": 8, "engine": {"memory": "1gb"}}
    found = _agrees(setting, setting.needs("few"), fields=fields, epochs=1, batches_max=12, both=both)
    if hasattr(setting.framework, "torch"):
        found["channels_last"] = _is_channels_last(setting, fields["uint8 NHWC"])
    return {"outputs": list(fields), **found}


def _is_channels_last(setting, field):
    """Checks that a permuted NHWC batch is torch's channels-last, without a copy."""
    with setting.on_device(setting.needs("few").folder, fields={"x": field}) as batches:
        picture = next(each(batches))["x"]
        turned = picture.permute(0, 3, 1, 2)
        is_so = turned.is_contiguous(memory_format=setting.framework.torch.channels_last)
        assert is_so and turned.data_ptr() == picture.data_ptr(), "NHWC by a permutation is not channels-last"
        del picture, turned
    return True


def crops_agree_in_every_type_and_layout(setting):
    """RandomResizedCrop and flips."""
    return _agrees_in_every_type_and_layout(setting, fb.RandomResizedCrop(setting.scale.side), fb.RandomHorizontalFlip())


def whole_pictures_agree_in_every_type_and_layout(setting):
    """Resize and CenterCrop."""
    side = setting.scale.side
    return _agrees_in_every_type_and_layout(setting, fb.Resize(side * 8 // 7), fb.CenterCrop(side))


def shared_decoding_agrees(setting):
    """Shared decoding with host threads."""
    return _agrees(setting, setting.needs("few"), "pictures_shared", engine={"share_decode": True})


def device_decode_repeats_itself(setting):
    """Two runs give the same bytes up to rounding: no memory is read too early or after it was overwritten. Engines and
    cores may round differently, and the distribution of pictures depends on their speed.
    """
    pictures, framework, fields = setting.needs("few"), setting.framework, crops(setting.scale.side)
    comparison, runs, different = compare.Comparison(setting, pictures), [], 0
    for _ in range(2):
        with setting.on_device(pictures.folder, fields=fields, engine={"device_decode": True, "prefetch": 4}) as batches:
            runs.append([(framework.array(batch["y"]), framework.array(batch["x"])) for batch in each(batches)])
    for number, ((labels, first), (others, second)) in enumerate(zip(*runs, strict=True)):
        assert np.array_equal(labels, others), f"different samples in batch {number}"
        different += not np.array_equal(first, second)
        comparison.add(("x", 0, number), labels, *(compare.levels(one, fields["x"]) for one in (first, second)))
    return comparison.hold(LEVELS_MEAN_MAX, LEVELS_SAMPLE_MAX, batches=len(runs[0]), batches_that_differ=different)


def damaged_files_leave_the_rest_as_they_are(setting):
    """Damaged files are skipped or decoded, without an effect on the intact files."""
    pictures, framework = setting.needs("damaged"), setting.framework
    kwargs = {"fields": crops(setting.scale.side), "skip": fb.Skip(errors=8 * len(pictures.files))}
    seen, found = {}, {}
    with _skipping_in_silence():
        for name, device_decode in (("host", False), ("device", True)):
            where = ("cpu", "numpy") if name == "host" else (setting.device, framework.framework)
            more = {"engine": {"device_decode": True}} if device_decode else {}
            with loader(pictures.folder, *where, **kwargs, **more) as batches:
                seen[name] = {}
                for batch in each(batches):
                    array = np.asarray if name == "host" else framework.array
                    seen[name] |= zip(array(batch["y"]).tolist(), array(batch["x"]).copy(), strict=True)
                    del batch
                found[name] = _counters(batches.stats(), "samples_skipped")
    for name, samples in seen.items():
        found[name]["damaged_taken"] = collections.Counter(kind for kind in map(_kind(pictures), samples) if not _is_whole(kind))
    so_far(found)
    whole = [number for number in range(8 * len(pictures.files)) if _is_whole(pictures.of(number)[1])]
    missing = {name: [number for number in whole if number not in samples] for name, samples in seen.items()}
    assert not any(missing.values()), f"intact files were left out: {missing}"
    assert found["device"]["pictures_on_device"] > 0, "the device decoded nothing"
    comparison = compare.Comparison(setting, pictures)
    host, device = (compare.levels(np.stack([seen[name][number] for number in whole]), kwargs["fields"]["x"]) for name in seen)
    comparison.add(("x", 0, 0), whole, host, device)
    return comparison.hold(LEVELS_MEAN_MAX, LEVELS_SAMPLE_MAX, **found)


def _kind(pictures):
    return lambda number: pictures.of(number)[1]


def _is_whole(kind):
    return kind.startswith("whole")


@contextlib.contextmanager
def _skipping_in_silence():
    """Filter of the log lines of skipped samples, because a remote machine may return only the last lines."""
    logger = logging.getLogger("forebay")

    def is_other(record):
        return not record.getMessage().startswith("a sample was skipped")

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)


def _nearest_upsampling(setting, count):
    """Returns the upsampling of colours in a batch: "smooth", as on the host, "plain" if they were repeated, "neither"
    if the distance to both is more than half of their distance. Engines and cores may differ.
    """
    file = data.colour_edges()
    known = dict(zip(("smooth", "plain"), data.upsampled(file), strict=True))
    apart = np.abs(known["smooth"] - known["plain"]).mean()
    height, width, _ = known["smooth"].shape
    field = fb.Image("image", fb.CenterCrop((height, width)), layout="NHWC")
    with tempfile.TemporaryDirectory(prefix="colours-", dir=setting.scratch) as folder:
        shards = data.write_shards(pathlib.Path(folder) / "shards", [file], count)
        with setting.on_device(shards, fields={"x": field}, batch_size=count, engine={"device_decode": True}) as batches:
            for batch in each(batches):
                pictures = setting.framework.array(batch["x"]).astype(int)
                del batch
            decoded = batches.stats()["counters"]["pictures_on_device"]
    if decoded < count:
        return f"unknown, the device decoded {decoded} of {count}"
    seen = collections.Counter()
    for picture in pictures:
        nearest, distance = min(((name, np.abs(picture - one).mean()) for name, one in known.items()), key=lambda pair: pair[1])
        seen[nearest if distance < apart / 2 else "neither"] += 1
    return next(iter(seen)) if len(seen) == 1 else ", ".join(f"{name} {times}" for name, times in seen.most_common())
