"""LanceDB's streaming data set for torch. Its table is made once from the same files, with pictures as binary columns."""

import io
import os

import lancedb
import torchpeer
from lancedb.streaming import StreamingDataLoader, StreamingDataset
from PIL import Image

ROWS = 500
"""Rows that are written at once."""


def versions():
    return torchpeer.versions(lancedb=lancedb.__version__)


class Rows:
    """Function that decodes and crops the rows of a batch."""

    def __init__(self, crop):
        self.crop = crop

    def __call__(self, batch):
        pictures, labels = batch.column("image").to_pylist(), batch.column("class").to_pylist()
        pictures = [self.crop(Image.open(io.BytesIO(picture)).convert("RGB")) for picture in pictures]
        return list(zip(pictures, labels))


class Epochs:
    """A data set and a loader for each epoch: the table's order is drawn when the data set is made."""

    def __init__(self, config):
        self.config, self.epoch = config, 0
        self.table = lancedb.connect(config["lancedb"]).open_table("train")
        self.rows = Rows(torchpeer.transform(config))

    def __iter__(self):
        workers = self.config["workers"]
        dataset = StreamingDataset(
            self.table,
            num_splits=workers,
            shuffle_seed=7,
            epoch=self.epoch,
            transform=self.rows,
            transform_parallelism=1,
        )
        self.epoch += 1
        start = {"multiprocessing_context": "spawn"}
        return iter(StreamingDataLoader(dataset, batch_size=self.config["batch"], num_workers=workers, **start))


def build(config):
    return Epochs(config)


def batches(loader):
    return loader


def convert(config):
    """Makes the table of the files."""
    import pyarrow as pa
    from torchvision.datasets import ImageFolder

    os.makedirs(config["lancedb"], exist_ok=True)
    samples = ImageFolder(config["files"]).samples
    schema = pa.schema({"image": pa.binary(), "class": pa.int64()})

    def parts():
        for start in range(0, len(samples), ROWS):
            rows = samples[start : start + ROWS]
            pictures = [open(path, "rb").read() for path, _ in rows]
            yield pa.record_batch([pa.array(pictures, pa.binary()), [label for _, label in rows]], schema=schema)

    lancedb.connect(config["lancedb"]).create_table("train", pa.RecordBatchReader.from_batches(schema, parts()))
