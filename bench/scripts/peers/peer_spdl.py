"""SPDL: FFmpeg's decoder and filters in a thread pool of one process."""

import importlib.metadata
import math
import random

import spdl.io
import torch
from spdl.pipeline import PipelineBuilder
from torchvision.datasets import ImageFolder

try:
    spdl.io.demux_config()  # loads the native library, which needs FFmpeg's
except RuntimeError as e:
    raise ImportError("SPDL needs FFmpeg's shared libraries (apt-get install ffmpeg)") from e

RECIPES = ("crop",)


def versions():
    return {"spdl": importlib.metadata.version("spdl"), "torch": torch.__version__}


def crop_box(width, height):
    """torchvision's RandomResizedCrop.get_params, without its tensors: left, top, width, height."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    w, h = width, height
    if width / height < 3 / 4:
        h = round(w / (3 / 4))
    elif width / height > 4 / 3:
        w = round(h * 4 / 3)
    return (width - w) // 2, (height - h) // 2, w, h


class Epochs:
    """One pipeline an epoch, the way SPDL is used."""

    def __init__(self, config):
        self.config = config
        self.samples = ImageFolder(config["files"]).samples
        self.decoding = spdl.io.decode_config(decoder_options={"threads": "1"})

    def frames(self, path):
        packets = spdl.io.demux_image(path)
        left, top, w, h = crop_box(packets.width, packets.height)
        flip = ",hflip" if random.random() < 0.5 else ""
        s = self.config["crop"]
        # exact=1: the crop is where torchvision's would be, not rounded to the chroma grid.
        crop = f"crop={w}:{h}:{left}:{top}:exact=1,scale={s}:{s}:flags=bilinear{flip},format=pix_fmts=rgb24"
        return spdl.io.decode_packets(packets, decode_config=self.decoding, filter_desc=crop)

    def batch(self, samples):
        # A whole batch is one task: with one image a task the event loop is the bottleneck (half the rate).
        buffer = spdl.io.convert_frames([self.frames(path) for path, _ in samples])
        return spdl.io.to_torch(buffer), torch.tensor([label for _, label in samples])

    def __iter__(self):
        order = random.sample(self.samples, len(self.samples))
        pipeline = (
            PipelineBuilder()
            .add_source(order)
            .aggregate(self.config["batch"])
            .pipe(self.batch, concurrency=self.config["workers"], output_order="input")
            .add_sink(3)
            .build(num_threads=self.config["workers"])
        )
        with pipeline.auto_stop():
            yield from pipeline


def build(config):
    return Epochs(config)


def batches(loader):
    return loader
