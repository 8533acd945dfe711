"""The face tutorial's steps: pictures and their segmentations from numbered PNG files, streamed as tensors."""

import os

import numpy as np
import torch
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader
from torchvision import transforms as tf

IMAGES, TRAINED_ON = 30, 24


def make(folder):
    """Numbered pictures: `000007.png`, and `000007_seg.png` with the class of each pixel, 255 where there is none."""
    generator = np.random.default_rng(0)
    os.makedirs(folder)
    for number in range(IMAGES):
        classes = generator.integers(0, 19, (16, 16), np.uint8)
        classes[0, 0] = 255
        Image.fromarray(generator.integers(0, 256, (16, 16, 3), np.uint8)).save(f"{folder}/{number:06}.png")
        Image.fromarray(classes).save(f"{folder}/{number:06}_seg.png")


def each(folder, first, end):
    for number in range(first, end):
        with open(f"{folder}/{number:06}.png", "rb") as picture, open(f"{folder}/{number:06}_seg.png", "rb") as classes:
            yield {"i": number.to_bytes(4, "little"), "x": picture.read(), "y": classes.read()}


class Faces(StreamingDataset):
    def __init__(self, remote, local, shuffle, batch_size):
        super().__init__(local=local, remote=remote, shuffle=shuffle, batch_size=batch_size)

    def __getitem__(self, i):
        obj = super().__getitem__(i)
        x = tf.functional.to_tensor(obj["x"])
        y = tf.functional.pil_to_tensor(obj["y"])[0].to(torch.int64)
        y[y == 255] = 19
        return x, y


make("./dataset")
columns = {"i": "bytes", "x": "png", "y": "png"}
for split, (first, end) in {"train": (0, TRAINED_ON), "test": (TRAINED_ON, IMAGES)}.items():
    with MDSWriter(out=f"./sds/{split}", columns=columns, hashes=["sha1", "xxh64"], size_limit=1 << 14) as out:
        for sample in each("./dataset", first, end):
            out.write(sample)

train = DataLoader(Faces("./sds/train", "./local/train", True, batch_size=2), batch_size=2)
test = DataLoader(Faces("./sds/test", "./local/test", False, batch_size=2), batch_size=2)
for x, y in [*train, *train, *test]:
    assert x.shape == (2, 3, 16, 16) and x.dtype == torch.float32 and 0 <= float(x.min()) <= float(x.max()) <= 1
    assert y.shape == (2, 16, 16) and bool((y[:, 0, 0] == 19).all()) and int(y.max()) == 19
assert len(list(train)) == TRAINED_ON // 2 and len(list(test)) == (IMAGES - TRAINED_ON) // 2
