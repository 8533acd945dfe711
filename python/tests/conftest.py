"""Data sets for the tests, made once, and places for what they save."""

import itertools
import signal

import pytest

from bucket_server import bucket_server
from fake_cuda import compile_driver
from picture_set import write_pictures
from sftp_server import sftp_server, write_numbers

# Background processes of a shell without job control ignore Ctrl-C, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)

_runs = itertools.count()


@pytest.fixture(autouse=True)
def user_cache(tmp_path, monkeypatch):
    """Folder for remotes without `local`, which are otherwise kept in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    return tmp_path / "user cache"


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Folder of raw shards with SAMPLES JPEGs in several shards."""
    return write_pictures(tmp_path_factory.mktemp("pictures") / "train")


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    """The same data, compressed: a remote."""
    return write_pictures(tmp_path_factory.mktemp("packed") / "train", compression="zstd")


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory):
    """The compiled stand-in for a CUDA driver. A process loads one driver, so all tests share it."""
    return compile_driver(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def sftp_folder(tmp_path):
    """Folder that an SFTP server serves, with the data set `set/train` in several shards."""
    write_numbers(tmp_path / "served/set/train")
    return tmp_path / "served"


@pytest.fixture
def sftp(sftp_folder, tmp_path, monkeypatch):
    """SFTP server of that folder, which is a known host."""
    with sftp_server(sftp_folder) as server:
        known = tmp_path / "known hosts"
        known.write_text(server.known)
        monkeypatch.setenv("COMPOSER_SFTP_KNOWN_HOSTS_FILE", str(known))
        monkeypatch.delenv("COMPOSER_SFTP_KEY_FILE", raising=False)
        yield server


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
