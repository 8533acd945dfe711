"""Ranks and workers for the tests of files."""

import types

import pytest


@pytest.fixture
def process(monkeypatch):
    """Function that makes this process a worker of a rank, or the rank itself."""
    torch = pytest.importorskip("torch")

    def become(rank, ranks, worker=None, workers=0):
        for name, value in (("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", ranks)):
            monkeypatch.setenv(name, str(value))
        info = None if worker is None else types.SimpleNamespace(id=worker, num_workers=workers)
        monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: info)

    return become
