"""Comparison of batches on the device with the host's, sample by sample. All samples are compared before a failure, and
the largest differences are kept: as figures in the report, and as arrays in a file next to it.
"""

import dataclasses
import itertools

import numpy as np

import forebay as fb

from . import data
from .outcome import so_far
from .setting import crops, each, loader

WORST = 8
"""Number of differing samples in the report."""

KEPT = 4
"""Number of differing samples that are kept as arrays."""

FILES_MAX = 5
"""Number of array files per folder, because a remote machine may return only a few files."""

CORNER = 8
"""Rows and columns in the report from the first difference of a sample."""


@dataclasses.dataclass
class _Sample:
    output: str
    epoch: int
    batch: int
    place: int
    label: int
    expected: np.ndarray
    got: np.ndarray

    def __post_init__(self):
        self.difference = np.abs(self.got - self.expected)
        self.order = (float(self.difference.mean()), float(self.difference.max()))

    def describe(self, pictures):
        rows, columns = np.nonzero(self.difference.max(axis=2))
        top, left = rows.min(), columns.min()
        corner = np.s_[top : top + CORNER, left : left + CORNER]
        file, kind = pictures.of(self.label)
        where = {name: getattr(self, name) for name in ("output", "epoch", "batch", "place", "label")}
        return {
            **where,
            "kind": kind,
            **data.describe(file),
            "difference_mean_per_channel": self.difference.mean(axis=(0, 1)).round(3),
            "difference_max_per_channel": self.difference.max(axis=(0, 1)).round(3),
            "share_of_pixels": len(rows) / self.difference[:, :, 0].size,
            "box": {"left": left, "top": top, "right": columns.max() + 1, "bottom": rows.max() + 1},
            "expected": self.expected[corner].round(2),
            "got": self.got[corner].round(2),
        }


class Comparison:
    """Actual and expected grey levels of samples."""

    def __init__(self, setting, pictures):
        self._setting, self._pictures, self._worst = setting, pictures, []
        self.means, self.level_max, self.differ = [], 0.0, 0

    def add(self, where, labels, expected, got):
        """Adds a batch's samples as rows of pixels; `where` is their output, epoch and batch."""
        if expected.shape != got.shape:
            so_far({"where": where, "expected_shape": expected.shape, "shape": got.shape})
            raise AssertionError(f"a batch's shape is {got.shape} instead of {expected.shape}")
        difference = np.abs(got - expected)
        means, maxima = difference.mean(axis=(1, 2, 3)), difference.max(axis=(1, 2, 3))
        self.means += means.tolist()
        self.level_max, self.differ = max(self.level_max, float(maxima.max())), self.differ + int((maxima > 0).sum())
        for place in np.argsort(-means)[:WORST]:
            if maxima[place] > 0 and (len(self._worst) < WORST or means[place] > self._worst[-1].order[0]):
                self._worst.append(_Sample(*where, int(place), int(labels[place]), expected[place].copy(), got[place].copy()))
                self._worst.sort(key=lambda sample: sample.order, reverse=True)
                del self._worst[WORST:]

    def found(self):
        return {
            "samples": len(self.means),
            "samples_that_differ": self.differ,
            "level_difference_mean": float(np.mean(self.means)) if self.means else 0.0,
            "level_difference_max": self.level_max,
            "worst_sample_mean": max(self.means, default=0.0),
        }

    def hold(self, mean_max=0.0, sample_max=0.0, **more):
        """Returns the findings and `more`.

        Raises:
            AssertionError: The mean difference of all samples, or of one sample, is too large.
        """
        found = {**self.found(), **more}
        mean, sample = found["level_difference_mean"], found["worst_sample_mean"]
        assert found["samples"], "no samples to compare"
        if mean <= mean_max and sample <= sample_max:
            return found
        so_far({**found, "kept_in": self._keep(), "worst": [one.describe(self._pictures) for one in self._worst]})
        raise AssertionError(
            f"grey levels differ: by {mean:.3g} on average (at most {mean_max:g}), {sample:.3g} within the worst sample (at most "
            f"{sample_max:g}), {self.level_max:.3g} at most; {self.differ} of {found['samples']} samples differ"
        )

    def _keep(self):
        """Writes the worst samples; returns the file's name, or the reason for none."""
        out = self._setting.out
        if out is None or len(list(out.glob("differs-*.npz"))) >= FILES_MAX:
            return "no file: the limit is reached"
        arrays = {}
        for number, one in enumerate(self._worst[:KEPT]):
            file, _ = self._pictures.of(one.label)
            arrays[f"file_{number}"] = np.frombuffer(file, np.uint8)
            arrays |= {f"expected_{number}": _small(one.expected), f"got_{number}": _small(one.got)}
        name = f"differs-{self._setting.part}.npz"
        try:
            np.savez_compressed(out / name, **arrays)
        except OSError as error:
            return f"no file: {error}"
        return name


def _small(levels):
    """Converts whole levels to bytes."""
    whole = levels.astype(np.uint8)
    return whole if np.array_equal(whole, levels) else levels.astype(np.float32)


def levels(array, field):
    """Converts pixels of any type, normalisation and layout to rows of grey levels."""
    if field.layout == "NCHW":
        array = array.transpose(0, 2, 3, 1)
    array = array.astype(np.float32)
    for op in field.ops:
        if isinstance(op, fb.Normalize):
            array = array * np.float32(op.std) + np.float32(op.mean)
    return array if field.dtype == "uint8" else array * 255


def _on_host(field):
    """Returns the same field with a type of numpy. Draws depend on the output's name, which stays."""
    if getattr(field, "dtype", None) != "bfloat16":
        return field
    return fb.Image(field.column, *field.ops, dtype="float32", layout=field.layout)


def against_host(setting, pictures, fields=None, epochs=2, batches_max=None, both=None, engine=None):
    """Compares epochs, or `batches` batches of each; returns the comparison and the statistics of the device's loader.

    `both` are arguments of both loaders, `engine` has more options of the engine for the device's loader.

    Raises:
        AssertionError: The samples or their order differ.
    """
    fields, both = fields or crops(setting.scale.side), both or {}
    framework, comparison = setting.framework, Comparison(setting, pictures)
    on_host = loader(pictures.folder, "cpu", "numpy", fields={name: _on_host(field) for name, field in fields.items()}, **both)
    on_device = setting.on_device(pictures.folder, fields=fields, **{**both, "engine": both.get("engine", {}) | (engine or {})})
    with on_host, on_device:
        for epoch in range(epochs):
            hosts, batches = each(on_host), each(on_device)
            for number in itertools.count() if batches_max is None else range(batches_max):
                host, batch = next(hosts, None), next(batches, None)
                labels = [[] if one is None else one for one in (host and host["y"], batch and framework.array(batch["y"]))]
                if not np.array_equal(*labels):
                    expected, got = (np.asarray(one).tolist() for one in labels)
                    so_far({"epoch": epoch, "batch": number, "expected_labels": expected, "labels": got})
                    raise AssertionError(f"different samples in batch {number} of epoch {epoch}, or in a different order")
                if batch is None:
                    break
                for name, field in fields.items():
                    if isinstance(field, fb.Image):
                        got, expected = levels(framework.array(batch[name]), field), levels(host[name], field)
                        comparison.add((name, epoch, number), host["y"], expected, got)
                del batch
        return comparison, on_device.stats()
