"""Hugging Face datasets, streaming: Parquet files, a shuffle buffer of 1,000 samples, batches made in the workers."""

import glob
import io
import os

import datasets
import parquet_files
import torchpeer
from PIL import Image


def versions():
    return torchpeer.versions(datasets=datasets.__version__)


def build(config):
    files = sorted(glob.glob(os.path.join(config["parquet"], "*.parquet")))
    transform = torchpeer.transform(config)

    def sample(row):
        content = row["image"]["bytes"]
        picture = content if transform is None else transform(Image.open(io.BytesIO(content)).convert("RGB"))
        return {"x": picture, "y": row["class"]}

    dataset = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    dataset = dataset.cast_column("image", datasets.Image(decode=False)).shuffle(buffer_size=1000)
    return torchpeer.loader(dataset.map(sample, remove_columns=["image", "class"]), config)


def batches(loader):
    for batch in loader:
        yield batch["x"], batch["y"]


def convert(config):
    parquet_files.write(config)
