"""Places of checkpoints: a local folder, and a bucket."""

import itertools

import pytest

from bucket_server import bucket_server

_runs = itertools.count()


@pytest.fixture(scope="session")
def bucket():
    """The bucket's server."""
    with bucket_server() as server:
        yield server


@pytest.fixture
def bucket_environment(bucket, monkeypatch):
    """Sets the variables that lead to the bucket."""
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    """URL of an empty folder for checkpoints, which takes any write."""
    if request.param == "folder":
        return str(tmp_path / "run")
    request.getfixturevalue("bucket_environment")
    return f"s3://bucket/run-{next(_runs)}"
