"""dataio-rs: its own decoder and transforms in native threads. Its resize is bilinear, as the other peers' is."""

import glob
import importlib.metadata
import os

import dataio
import torch


def versions():
    return {"dataio-rs": importlib.metadata.version("dataio-rs"), "torch": torch.__version__}


def build(config):
    size, batch = config["crop"], dataio.batch(config["batch"])
    image = dataio.slot("jpg").decode_image(mode="rgb")
    image = image.random_resized_crop(h=size, w=size, interp="bilinear").hflip()
    pipeline = dataio.pipeline(image, dataio.slot("cls").decode_bytes(), batch)
    records = dataio.webdataset(sorted(glob.glob(os.path.join(config["tar"], "*.tar"))))
    return pipeline.bind(records.shuffle(seed=7, buffer_size=1000)).run("torch")


def batches(loader):
    for batch in loader:
        yield batch["jpg"], batch["cls"]
