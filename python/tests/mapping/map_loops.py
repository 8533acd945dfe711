"""Loaders with a map, and the same results made in a plain loop."""

import numpy as np
from loaders import NUMBER
from map_functions import draws

import forebay as fb

STORED = {"shuffle": False, "order": fb.Order(num_canonical_nodes=1, augment_seed=5)}
SHUFFLED = {"shuffle": True, "seed": 11, "order": fb.Order(num_canonical_nodes=2, augment_seed=5)}
PICTURE = {**NUMBER, "x": fb.Image("image", fb.RandomResizedCrop(16), fb.RandomHorizontalFlip())}


def mapped(folder, function=draws, **arguments):
    arguments = {"fields": NUMBER, "batch_size": 16, "framework": "numpy", **SHUFFLED, **arguments}
    kind = {name: arguments.pop(name) for name in ("workers", "kind", "inputs", "prefetch", "pad", "pad_to_multiple") if name in arguments}
    return fb.Loader(local=folder, map=fb.Map(function, **{"workers": 4, **kind}), **arguments)


def world(rank, ranks):
    return fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)


def in_a_loop(folder, function=draws, epochs=1, **arguments):
    """Batches as lists of results: a plain loop over the batches of a loader without a map."""
    arguments = {"fields": NUMBER, "batch_size": 16, "framework": "numpy", **SHUFFLED, **arguments}
    found = []
    with fb.Loader(local=folder, extra=["sample_draws"], **arguments) as loader:
        for _ in range(epochs):
            for batch in loader:
                keys = batch.pop("sample_draws").tolist()
                rows = [{name: value[row] for name, value in batch.items()} for row in range(len(keys))]
                seed = arguments["order"].augment_seed
                found.append([function(row, fb.sample_generator(seed, *key)) for row, key in zip(rows, keys)])
    return found


def assert_equal(batches, expected):
    assert len(batches) == len(expected)
    for batch, rows in zip(batches, expected):
        assert list(batch) == list(rows[0])
        for name in batch:
            assert len(batch[name]) == len(rows)
            for found, row in zip(batch[name], rows):
                assert np.array_equal(np.asarray(found), np.asarray(row[name])), name


def same(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others):
        assert list(batch) == list(other)
        for name in batch:
            assert np.array_equal(np.asarray(batch[name]), np.asarray(other[name])), name


def begun(loader):
    """Returns a list that gets the batches that the workers get."""
    mapper, found = loader._maker.mapper, []
    begin = mapper.begin

    def noted(*arguments):
        found.append(begin(*arguments))
        return found[-1]

    mapper.begin = noted
    return found
