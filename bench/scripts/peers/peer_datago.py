"""datago: JPEGs of a folder, decoded whole and resized to a bucket of the same area, one sample at a time.

It has no random crop, so each picture becomes a tensor of its bucket's shape, and a batch is a list.
"""

import importlib.metadata
import json

import numpy as np
import torch
from datago import DatagoClient

RECIPES = ("crop",)


def versions():
    return {"datago": importlib.metadata.version("datago"), "torch": torch.__version__}


def check(config, x):
    pixels = sum(picture.numel() for picture in x) / len(x)
    assert 0.5 < pixels / (3 * config["crop"] ** 2) < 2, f"pictures of {pixels} bytes"
    return {"shape": [len(x), *x[0].shape], "dtype": str(x[0].dtype), "mean": sum(float(p.float().mean()) for p in x) / len(x)}


class Epochs:
    def __init__(self, config):
        self.batch = config["batch"]
        self.config = {
            "source_type": "file",
            "source_config": {"root_path": config["files"], "random_sampling": True, "rank": 0, "world_size": 1},
            "image_config": {
                "crop_and_resize": True,
                "default_image_size": config["crop"],
                "downsampling_ratio": 32,
                "min_aspect_ratio": 0.5,
                "max_aspect_ratio": 2.0,
                "pre_encode_images": False,
            },
            "limit": 1 << 30,
            "samples_buffer_size": 2 * config["batch"],
        }

    def __iter__(self):
        client = DatagoClient(json.dumps(self.config))
        client.start()
        pictures, labels = [], []
        while (sample := client.get_sample()) is not None:
            pictures.append(_tensor(sample.image))
            labels.append(sample.source)
            if len(pictures) == self.batch:
                yield pictures, labels
                pictures, labels = [], []
        if pictures:
            yield pictures, labels
        client.stop()


def _tensor(image):
    return torch.from_numpy(np.array(image))


def build(config):
    return Epochs(config)


def batches(loader):
    return loader
