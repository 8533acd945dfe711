"""Augmented pictures on any number of ranks and threads, in every epoch, and after a resume."""

import numpy as np
import pytest
from odd_pictures import NAME, SEED, augmented, write_odd_pictures

import forebay as fb

COUNT = 96

OPS = (
    fb.RandomResizedCrop(24),
    fb.RandomHorizontalFlip(),
    fb.RandomApply([fb.ColorJitter(0.4, 0.4, 0.4, 0.1)], 0.8),
    fb.RandomGrayscale(0.2),
    fb.RandomOrder([fb.RandomSolarize(128), fb.RandomEqualize()]),
    fb.RandomAdjustSharpness(2.0),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("ranks") / "set", COUNT)[0]


def same(rows, others):
    return rows.keys() == others.keys() and all(np.array_equal(row, others[number]) for number, row in rows.items())


@pytest.fixture(scope="module")
def alone(folder):
    """Rows of one rank, by the sample's number."""
    return augmented(folder, *OPS, shuffle=True, order=fb.Order(num_canonical_nodes=2))


@pytest.mark.parametrize("ranks", [2, 8])
def test_the_rows_are_the_same_on_any_number_of_ranks(folder, alone, ranks):
    rows = {}
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        rows |= augmented(folder, *OPS, shuffle=True, order=fb.Order(num_canonical_nodes=2), batch_size=4, world=world)
    assert same(alone, rows)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_rows_are_the_same_with_any_number_of_threads(folder, alone, threads):
    assert same(alone, augmented(folder, *OPS, shuffle=True, order=fb.Order(num_canonical_nodes=2), threads=threads))


def test_a_resumed_loader_delivers_the_same_rows(folder):
    fields = {NAME: fb.Image("image", *OPS), "number": fb.Scalar("number")}
    options = {
        "local": folder,
        "fields": fields,
        "batch_size": 8,
        "shuffle": True,
        "order": fb.Order(augment_seed=SEED),
        "framework": "numpy",
    }

    def rows(batches):
        return {number: np.array(row) for batch in batches for number, row in zip(batch["number"].tolist(), batch[NAME], strict=True)}

    with fb.Loader(**options) as loader:
        for _ in loader:
            pass
        whole = rows(loader)
    with fb.Loader(**options) as loader:
        for _ in loader:
            pass
        batches = iter(loader)
        first = rows(next(batches) for _ in range(5))
        state = loader.state_dict()
    with fb.Loader(**options) as loader:
        loader.load_state_dict(state)
        rest = rows(loader)
    assert not first.keys() & rest.keys()
    assert same(whole, first | rest)


def test_epochs_and_seeds_differ(folder):
    fields = {NAME: fb.Image("image", fb.CenterCrop(24), *OPS[2:])}
    options = {"local": folder, "fields": fields, "batch_size": COUNT, "framework": "numpy"}
    with fb.Loader(order=fb.Order(augment_seed=1), **options) as loader:
        epochs = [np.array(next(iter(loader))[NAME]) for _ in range(2)]
    with fb.Loader(order=fb.Order(augment_seed=2), **options) as loader:
        other = np.array(next(iter(loader))[NAME])
    differ = [(a != b).any(axis=(1, 2, 3)).mean() for a, b in [epochs, (epochs[0], other)]]
    assert min(differ) > 0.5
