"""WebDataset: tar files, a shuffle buffer of 1,000 samples, batches made in the workers."""

import glob
import os

import torchpeer
import webdataset as wds


def versions():
    return torchpeer.versions(webdataset=wds.__version__)


def build(config):
    shards = sorted(glob.glob(os.path.join(config["tar"], "*.tar")))
    transform = torchpeer.transform(config)
    dataset = wds.WebDataset(shards, shardshuffle=len(shards), workersplitter=wds.split_by_worker).shuffle(1000)
    if transform is None:
        dataset = dataset.to_tuple("jpg", "cls").map_tuple(None, int)
    else:
        dataset = dataset.decode("pil").to_tuple("jpg", "cls").map_tuple(transform, None)
    mix = torchpeer.collate(config)
    dataset = dataset.batched(config["batch"], **({} if mix is None else {"collation_fn": mix}))
    return torchpeer.loader(dataset, config, cls=wds.WebLoader, batch_size=None)


def batches(loader):
    return loader
