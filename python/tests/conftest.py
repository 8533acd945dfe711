"""Data sets for the tests, made once, and folders for the files that they save."""

import importlib
import itertools
import os
import signal
from pathlib import Path

# Before numpy and torch are imported. Idle threads of their pools would use the CPUs that the remaining processes of tests need.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest

from bucket_server import bucket_server
from fake_cuda import compile_driver
from picture_set import write_pictures
from sftp_server import sftp_server, write_numbers

# Background processes of a shell without job control ignore Ctrl-C, and so do their children.
signal.signal(signal.SIGINT, signal.default_int_handler)

_runs = itertools.count()

LONGEST = [
    "checkpoint/test_killed.py",
    "clouds/test_three_clouds.py",
    "streaming/test_tutorials.py",
    "test_gpu_report.py",
    "test_demo.py",
    "streaming/test_dataset.py",
    "mapping/test_map.py",
    "checkpoint/test_two_jobs.py",
    "sources/test_litdata.py",
    "streaming/test_faults.py",
    "test_gpu_report_isolated.py",
    "trainers/test_resume.py",
    "frameworks/test_keras.py",
    "trainers/test_transformers.py",
]
"""Files of tests that take longest. First, so that the processes of a run end at about the same time."""


STARTS_PROCESSES = {"alone", "multiprocessing", "rank_processes", "subprocess"}
"""Modules and functions of tests that start processes; most of them import torch."""


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: starts processes, or runs the reference; `make test-fast` leaves it out")


def pytest_collection_modifyitems(items):
    ranks = {Path(__file__).parent / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        has_reference = {"mosaicml", "reference"} & {*item.fixturenames, *(p for p in parameters if isinstance(p, str))}
        if item.path in ranks or STARTS_PROCESSES & vars(item.module).keys() or has_reference:
            item.add_marker("slow")


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
def mosaicml():
    """The reference's package. Its data sets have the first free number in the names of their shared memory and locks. Two
    processes may find the same one free, so each process of tests begins at a different number."""
    package = pytest.importorskip("streaming")
    prefix = importlib.import_module("streaming.base.shared.prefix")
    first = 1000 * os.getpid()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix, "_each_prefix_int", lambda: itertools.count(first))
        yield package


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
def run_url(request, tmp_path):
    """URL of an empty folder for checkpoints, which takes any write."""
    if request.param == "folder":
        return str(tmp_path / "run")
    request.getfixturevalue("bucket_environment")
    return f"s3://bucket/run-{next(_runs)}"
