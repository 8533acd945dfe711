"""Folders of tars."""

import contextlib
import gzip
import itertools

import pytest
from range_server import Served
from tar_sets import MADE, braces, set_of_tars, write_mds_set, write_set

_prefixes = itertools.count()


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """Folder with the tars of `tests/data/tars`."""
    folder = tmp_path_factory.mktemp("zoo")
    for packed in MADE.glob("*.tar.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


@pytest.fixture(scope="session")
def tars(tmp_path_factory):
    """URL of a set of tars in a folder."""
    return write_set(tmp_path_factory.mktemp("tars"))


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """Folder with the same set as MDS."""
    return write_mds_set(tmp_path_factory.mktemp("shards"))


@pytest.fixture
def served(tmp_path):
    """Web server of `tmp_path / "served"`."""
    (tmp_path / "served").mkdir()
    with contextlib.closing(Served(tmp_path / "served")) as server:
        yield server


@pytest.fixture
def stored_tars(bucket, bucket_environment):
    """URL of the same set in the bucket."""
    prefix = f"tars-{next(_prefixes)}"
    # Earlier tests of the same server have requests that it rejects.
    rejected = len(bucket.rejected)
    for number, body in enumerate(set_of_tars()):
        bucket.objects[f"{prefix}/train-{number:03}.tar"] = body
    yield f"s3://bucket/{prefix}/{braces()}"
    assert bucket.rejected[rejected:] == []
