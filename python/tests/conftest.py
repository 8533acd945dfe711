"""Data sets for the tests, made once."""

import io

import numpy as np
import pytest
from PIL import Image

import forebay as fb

SAMPLES = 200
"""Samples of the picture set."""

CLASSES = 7


def jpeg(number: int) -> bytes:
    """A smooth picture that tells its number by its colours; sizes vary."""
    rng = np.random.default_rng(number)
    small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    size = (int(rng.integers(40, 90)), int(rng.integers(40, 90)))
    out = io.BytesIO()
    Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_pictures(folder, samples=SAMPLES, **kwargs):
    kwargs.setdefault("size_limit", 1 << 15)
    columns = {"image": "jpeg", "class": "int", "number": "int", "name": "str"}
    with fb.MDSWriter(out=folder, columns=columns, hashes=["xxh64"], **kwargs) as writer:
        for i in range(samples):
            writer.write({"image": jpeg(i), "class": i % CLASSES, "number": i, "name": f"picture {i}"})
    return str(folder)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of raw shards with SAMPLES JPEGs in several shards."""
    return write_pictures(tmp_path_factory.mktemp("pictures") / "train")


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """The same, compressed: a remote."""
    return write_pictures(tmp_path_factory.mktemp("packed") / "train", compression="zstd")
