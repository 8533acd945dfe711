"""Positions of load_files: among ranks and workers, out of order, and in torch's DataLoader."""

import os
import subprocess
import sys

import pytest

import forebay as fb

torch = pytest.importorskip("torch")

FILES = 24


@pytest.fixture
def prefix(tmp_path):
    """Folder with small files."""
    for number in range(FILES):
        (tmp_path / f"{number:02}").write_bytes(b"x" * number)
    return f"{tmp_path}/"


LATE_TORCH = """
import os, sys
import forebay as fb

loader = fb.load_files(sys.argv[1])
assert "torch" not in sys.modules and len(loader) == 12
import torch.utils.data as data
for workers in (0, 2):
    context = "fork" if workers else None
    loaded = data.DataLoader(loader, batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert isinstance(loader, data.IterableDataset) and loaded._dataset_kind == 1
    assert sorted(os.path.basename(url) for url, _ in loaded) == [f"{number:02}" for number in range(1, 24, 2)]
assert type(loader) is loader.__class__ is fb.files.FileLoader
"""


def test_a_loader_that_is_older_than_the_import_of_torch_is_iterated(prefix):
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    subprocess.run([sys.executable, "-c", LATE_TORCH, prefix], check=True, env={**os.environ, **ranks})
