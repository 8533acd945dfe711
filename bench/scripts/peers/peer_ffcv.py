"""FFCV: TurboJPEG and OpenCV in numba's threads, over one memory-mapped file. That file is made once, next to the remaining
forms of the data set, from the same JPEG files.

FFCV's own image field re-encodes every picture; `StoredJpeg` keeps the files as they are, so that all peers decode the same
bytes. The crops are drawn as torchvision draws them. FFCV decodes all of a picture, with TurboJPEG's fast inverse DCT, and
resizes with OpenCV's INTER_AREA.
"""

import importlib.metadata
import io
import os

import numpy as np
import torch
from PIL import Image
from torchvision.datasets import ImageFolder

try:
    import numba
    from ffcv import DatasetWriter, Loader
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import IMAGE_MODES, RandomResizedCropRGBImageDecoder
    from ffcv.loader import OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor
except ImportError as e:
    needs = "FFCV's build needs OpenCV and TurboJPEG (apt-get install pkg-config libopencv-dev libturbojpeg0-dev)"
    raise ImportError(f"{e}; {needs}") from e

PAGE_BYTES_MIN = 8 << 20  # DatasetWriter's default

RECIPES = ("crop",)


def versions():
    ours = {"ffcv": importlib.metadata.version("ffcv"), "numba": numba.__version__}
    return {**ours, "torch": torch.__version__}


class StoredJpeg(RGBImageField):
    """FFCV's image field, written from the bytes of a JPEG file instead of from pixels."""

    def encode(self, destination, image, malloc):
        width, height = Image.open(io.BytesIO(image)).size
        destination["mode"], destination["width"], destination["height"] = IMAGE_MODES["jpg"], width, height
        destination["data_ptr"], room = malloc(len(image))
        room[:] = np.frombuffer(image, np.uint8)

    @staticmethod
    def from_binary(binary):
        return StoredJpeg()


class Files:
    """The bytes of each file, and its class."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, label = self.samples[index]
        with open(path, "rb") as f:
            return f.read(), label


def beton(folder):
    return os.path.join(folder, "images.beton")


def build(config):
    side = config["crop"]
    crop = RandomResizedCropRGBImageDecoder((side, side), scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    return Loader(
        beton(config["ffcv"]),
        batch_size=config["batch"],
        num_workers=config["workers"],
        os_cache=True,
        order=OrderOption.RANDOM,
        drop_last=False,
        pipelines={"image": [crop, RandomHorizontalFlip(), ToTensor()], "label": [IntDecoder(), ToTensor()]},
        custom_fields={"image": StoredJpeg},
    )


def batches(loader):
    return loader


def convert(config):
    """Makes the FFCV form of the files."""
    samples = ImageFolder(config["files"]).samples
    # A file that does not fit into a page would end the writer's process, and the writer waits for that forever.
    longest = max(os.path.getsize(path) for path, _ in samples)
    page_bytes = max(PAGE_BYTES_MIN, 1 << (longest - 1).bit_length())
    os.makedirs(config["ffcv"])
    fields = {"image": StoredJpeg(), "label": IntField()}
    writer = DatasetWriter(beton(config["ffcv"]), fields, page_size=page_bytes, num_workers=1)
    writer.from_indexed_dataset(Files(samples))
