"""A data set for tests within this process, and the order of its samples."""

import pytest
from jobs import EPOCHS, GLOBAL_BATCH, loader_of, write_data


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Folder with the data set of the jobs."""
    folder = tmp_path_factory.mktemp("trainers")
    write_data(folder)
    return folder


@pytest.fixture
def make(data):
    """Function that makes a loader; all of them are closed after the test."""
    loaders = []

    def make(**arguments):
        loaders.append(loader_of(data, **{"batch_size": GLOBAL_BATCH} | arguments))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()


@pytest.fixture(scope="session")
def order(data):
    """The samples of each step of four epochs."""
    with loader_of(data, batch_size=GLOBAL_BATCH) as loader:
        return [batch["x"].tolist() for _ in range(2 * EPOCHS) for batch in loader]
