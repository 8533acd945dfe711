"""NVIDIA DALI on the CPU: its own decoder, which decodes only the crop, and its own threads."""

import glob
import os

import torch
from nvidia import dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy


def versions():
    return {"dali": dali.__version__, "torch": torch.__version__}


@pipeline_def
def crops(config):
    if config["source"] == "tar":
        encoded, label = fn.readers.webdataset(
            paths=sorted(glob.glob(os.path.join(config["tar"], "*.tar"))),
            ext=["jpg", "cls"],
            missing_component_behavior="error",
            random_shuffle=True,
            name="reader",
        )
    else:
        encoded, label = fn.readers.file(file_root=config["files"], random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(
        encoded,
        device="cpu",
        output_type=types.RGB,
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
        num_attempts=10,
    )
    images = fn.resize(images, size=[config["crop"], config["crop"]], interp_type=types.INTERP_LINEAR)
    images = fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5))
    return (images, label) if config["source"] == "files" else (images,)


def build(config):
    pipe = crops(config, batch_size=config["batch"], num_threads=config["workers"], device_id=None, seed=7)
    names = ["x", "y"] if config["source"] == "files" else ["x"]
    return DALIGenericIterator(
        [pipe], names, reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )


def batches(loader):
    for batch in loader:
        yield batch[0]["x"], batch[0].get("y")
