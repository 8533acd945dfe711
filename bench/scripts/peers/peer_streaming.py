"""MosaicML streaming through its DataLoader; the shards are local, so nothing is fetched."""

import importlib.metadata

import torchpeer
from streaming import StreamingDataLoader, StreamingDataset


class Images(StreamingDataset):
    """Crops and flips in the worker, as the reference's own examples do."""

    def __init__(self, transform, **more):
        super().__init__(**more)
        self.crop = transform

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        if self.crop is None:
            return sample["image"], sample["class"]
        return self.crop(sample["image"].convert("RGB")), sample["class"]


class Tokens(StreamingDataset):
    """The stored array as it is."""

    def __getitem__(self, index):
        return super().__getitem__(index)["tokens"], index


def versions():
    return torchpeer.versions(streaming=importlib.metadata.version("mosaicml-streaming"))


def build(config):
    common = {"local": config["mds"], "remote": None, "shuffle": True, "batch_size": config["batch"]}
    if config["kind"] != "tokens":
        dataset = Images(torchpeer.transform(config), **common)
    else:
        dataset = Tokens(**common)
    if config["kind"] == "bytes":
        for shard in dataset.shards:
            # The same stored bytes, without the header being parsed by Pillow.
            shard.column_encodings = ["bytes" if e == "jpeg" else e for e in shard.column_encodings]
    return torchpeer.loader(dataset, config, cls=StreamingDataLoader)


def batches(loader):
    return loader
