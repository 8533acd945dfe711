"""Work of both sides of the scenario `dropin`, with either package as `streaming`.

The module of a side (`peer_ours`, `peer_reference`, `peer_ready`) selects the package; `child.py` calls `build` once and
drains `batches` for each epoch. The work is named by `way` in the configuration:

    loader    StreamingDataset through StreamingDataLoader with `workers` processes
    index     `dataset[i]` of a StreamingDataset, in random order
    local     `dataset[i]` of a LocalDataset, in random order
    reader    the samples of each shard, by iterating over the shard's reader
"""

import itertools
import random

import torch
from torch.utils.data import DataLoader


def versions(**more):
    return {**more, "torch": torch.__version__}


def build(config, streaming):
    """Returns a function that yields the batches of one epoch."""
    if config["way"] == "loader":
        dataset = streaming.StreamingDataset(local=config["data"], shuffle=True, batch_size=config["batch"])
        return through(streaming.StreamingDataLoader, dataset, config)
    if config["way"] == "index":
        dataset = streaming.StreamingDataset(local=config["data"])
        return lambda: in_random_order(dataset, dataset.size, config)
    dataset = streaming.LocalDataset(config["data"])
    if config["way"] == "local":
        return lambda: in_random_order(dataset, len(dataset), config)
    return lambda: chunks(itertools.chain.from_iterable(dataset.shards), config)


def through(loader, dataset, config):
    """torch's DataLoader as a training run has it: workers stay from epoch to epoch unless `fresh` is set."""
    workers = config["workers"]
    loader = loader(
        dataset,
        batch_size=config["batch"],
        num_workers=workers,
        persistent_workers=workers > 0 and not config["fresh"],
    )
    return lambda: itertools.islice(loader, config["batches_max"])


def in_random_order(dataset, count, config):
    order = list(range(count))
    random.Random(9176).shuffle(order)
    return chunks(map(dataset.__getitem__, order), config)


def chunks(samples, config):
    samples = iter(samples)
    return iter(lambda: list(itertools.islice(samples, config["batch"])), [])


def batches(epoch):
    """Yields pairs. The first of each has one item per sample."""
    for batch in epoch():
        yield batch if isinstance(batch, list) else next(iter(batch.values())), batch


class Ready(torch.utils.data.IterableDataset):
    """Samples in memory, so that the rate is the rate of torch's DataLoader alone, the limit of both sides.

    Args:
        samples: Some samples, delivered repeatedly.
        count: Samples per epoch.
    """

    def __init__(self, samples, count):
        self.samples, self.count = samples, count

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        share = range(self.count)[worker.id :: worker.num_workers] if worker else range(self.count)
        for number in share:
            yield self.samples[number % len(self.samples)]


def check(config, x):
    """Describes a batch by shape, dtype and the mean of its numbers or lengths, which are equal on both sides."""
    numbers = x.double() if isinstance(x, torch.Tensor) else torch.tensor([len(item) for item in x]).double()
    return {"shape": list(numbers.shape), "dtype": str(getattr(x, "dtype", type(x[0]).__name__)), "mean": float(numbers.mean())}


def loader_of_ready(config, streaming):
    """Builds the loader of samples in memory."""
    local = streaming.LocalDataset(config["data"])
    return through(DataLoader, Ready([local[i] for i in range(min(len(local), 256))], len(local)), config)
