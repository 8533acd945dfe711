"""Data set: JPEGs cut from the photographs of scikit-image and scikit-learn, in zstd-compressed MDS shards.

Sizes and qualities are like ImageNet's: most pictures have 500 pixels on the long side, some are smaller or larger. The
class of a picture is its photograph, so that a network can learn something in a hundred steps.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

import forebay

PICTURES = 4096
"""Pictures in the set, about 370 MB."""

VERSION = 1
"""Version of this recipe, part of the folder's name."""

SHARD_BYTES = 1 << 24
"""Raw bytes of a shard, so small that the cold epoch fetches many."""

_SEED = 7


def photographs() -> list[Image.Image]:
    """Returns the photographs of the two packages, in colour."""
    import skimage.data
    from sklearn.datasets import load_sample_images

    names = "astronaut brick chelsea coffee coins grass gravel hubble_deep_field immunohistochemistry moon retina rocket"
    arrays: list[npt.NDArray[np.uint8]] = [getattr(skimage.data, name)() for name in names.split()]
    arrays.append(skimage.data.stereo_motorcycle()[0])
    arrays += load_sample_images().images
    return [Image.fromarray(array).convert("RGB") for array in arrays]


def make(folder: str, pictures: int = PICTURES, report: Callable[[str], None] = print) -> int:
    """Makes the set in `folder` unless it exists; returns the number of classes."""
    classes = len(photographs())
    if os.path.exists(os.path.join(folder, "index.json")):
        return classes
    unfinished = f"{folder}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    columns = {"image": "jpeg", "class": "int"}
    # Spawned, because a fork would copy locks of the parent's threads.
    with (
        multiprocessing.get_context("spawn").Pool(initializer=_load) as pool,
        forebay.MDSWriter(
            out=unfinished, columns=columns, compression="zstd", hashes=["xxh64"], size_limit=SHARD_BYTES
        ) as writer,
    ):
        for done, sample in enumerate(pool.imap(_cut, range(pictures), chunksize=16), 1):
            writer.write(sample)
            if done % 256 == 0 or done == pictures:
                report(f"{done:,} of {pictures:,} pictures")
    os.rename(unfinished, folder)
    return classes


_photographs: list[Image.Image] = []
# One noise array for all pictures, used at different offsets, because drawing noise would be most of the work.
_noise: list[npt.NDArray[np.float32]] = []


def _load() -> None:
    """Loads the photographs, once in each process of the pool."""
    _photographs.extend(photographs())
    _noise.append(np.random.default_rng(_SEED).standard_normal((1300, 1600, 3), dtype=np.float32))


def _cut(number: int) -> dict[str, Any]:
    """Makes picture `number`; the result does not depend on the process."""
    rng = random.Random(_SEED * 1_000_003 + number)
    label = rng.randrange(len(_photographs))
    photograph = _photographs[label]
    chance = rng.random()
    if chance < 0.7:
        width, height = (500, rng.choice([333, 375, 375, 400])) if rng.random() < 0.7 else (rng.choice([333, 375]), 500)
    elif chance < 0.95:
        width, height = rng.randint(200, 640), rng.randint(180, 640)
    else:
        width, height = rng.randint(800, 1400), rng.randint(600, 1100)
    # A window of the photograph with the picture's aspect ratio, at least half of its size.
    largest = min(photograph.width / width, photograph.height / height)
    scale = largest * rng.uniform(0.5, 1.0)
    cut_width, cut_height = int(width * scale), int(height * scale)
    left, top = rng.randint(0, photograph.width - cut_width), rng.randint(0, photograph.height - cut_height)
    box = (left, top, left + cut_width, top + cut_height)
    pixels = np.asarray(photograph.resize((width, height), Image.Resampling.BICUBIC, box=box), dtype=np.float32)
    # Sensor noise, so that files have the size of real photographs.
    x, y = rng.randint(0, 200), rng.randint(0, 200)
    pixels = pixels + rng.uniform(4, 11) * _noise[0][y : y + height, x : x + width]
    encoded = io.BytesIO()
    picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    picture.save(encoded, "JPEG", quality=rng.choice([75, 85, 90, 92, 95]), subsampling=rng.choice([0, 2, 2, 2]))
    return {"image": encoded.getvalue(), "class": label}
