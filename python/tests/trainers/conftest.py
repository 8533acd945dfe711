"""A data set for tests within this process, and the order of its samples."""

import pytest
from jobs import EPOCHS, GLOBAL_BATCH, loader_of, write_data
from picture_set import jpeg

import forebay as fb


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


@pytest.fixture
def make_spoilt(tmp_path):
    """Function that makes a loader of batches of three; some have no sample that can be decoded."""
    loaders = []

    def make(spoilt, **arguments):
        folder = tmp_path / "spoilt"
        if not folder.exists():
            with fb.MDSWriter(out=folder, columns={"image": "bytes", "number": "int"}) as writer:
                for number in range(15):
                    writer.write({"image": b"no picture" if number // 3 in spoilt else jpeg(number), "number": number})
        fields = {"x": fb.Scalar("number"), "image": fb.Image("image", fb.Resize((4, 4)))}
        arguments = {"batch_size": 3, "skip": fb.Skip(errors=15), "fields": fields} | arguments
        loaders.append(fb.Loader(local=folder, **arguments))
        return loaders[-1]

    yield make
    for loader in loaders:
        loader.close()
