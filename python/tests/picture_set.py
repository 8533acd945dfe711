"""The set of pictures that tests read."""

import io

import numpy as np
from PIL import Image

import forebay as fb

SAMPLES = 200
"""Samples of the picture set."""

CLASSES = 7


def jpeg(number: int) -> bytes:
    """Returns a smooth picture with colours that depend on its number; sizes vary."""
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
