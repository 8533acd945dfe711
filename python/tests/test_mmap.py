"""Small samples from memory maps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import forebay as fb

SAMPLES = 600


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A set whose sample i holds the token i, 1,024 times; enough of them in each shard to be seen to be in memory."""
    with fb.MDSWriter(out=tmp_path / "set", columns={"t": "ndarray:uint16:1024"}, size_limit=1 << 19) as writer:
        for i in range(SAMPLES):
            writer.write({"t": numpy.full(1024, i, dtype=numpy.uint16)})
    return tmp_path / "set"


def loader(local: Path, **arguments: object) -> fb.Loader:
    fields = {"t": fb.Tokens("t", 1024)}
    return fb.Loader(local=local, fields=fields, batch_size=32, shuffle=True, framework="numpy", **arguments)


def leases(folder: Path) -> int:
    """How many of the folder's files this process holds leases on."""
    inodes = {str(file.stat().st_ino) for file in folder.glob("*.mds")}
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return len({line[5] for line in lines if line[1] == "LEASE" and line[5].split(":")[-1] in inodes})


def test_samples_are_the_same_and_shards_are_free_again_afterwards(tokens: Path) -> None:
    with loader(tokens) as plain, loader(tokens, mmap=True) as mapped:
        for _ in range(2):
            expected = numpy.concatenate([batch["t"].copy() for batch in plain])
            got = numpy.concatenate([batch["t"].copy() for batch in mapped])
            assert numpy.array_equal(got, expected)
            assert sorted(got[:, 0]) == list(range(SAMPLES))
            if leases(tokens) == 0:
                pytest.skip("the kernel gives no lease here")
    assert leases(tokens) == 0
    for shard in tokens.glob("*.mds"):
        os.close(os.open(shard, os.O_WRONLY | os.O_NONBLOCK))


def test_nothing_is_mapped_unasked(tokens: Path) -> None:
    with loader(tokens) as plain:
        for _ in range(2):
            assert sum(len(batch["t"]) for batch in plain) == SAMPLES
        assert leases(tokens) == 0


def test_who_wants_to_write_waits_and_the_loader_reads_on(tokens: Path) -> None:
    with loader(tokens, mmap=True) as mapped:
        assert sum(len(batch["t"]) for batch in mapped) == SAMPLES
        if leases(tokens) == 0:
            pytest.skip("the kernel gives no lease here")
        shard = min(tokens.glob("*.mds"))
        opens = "import os, sys; os.open(sys.argv[1], os.O_WRONLY)"
        with subprocess.Popen([sys.executable, "-c", opens, str(shard)]) as writer:
            assert sorted(row[0] for batch in mapped for row in batch["t"]) == list(range(SAMPLES))
            writer.kill()


def test_it_is_yes_or_no(tokens: Path) -> None:
    with pytest.raises(fb.ConfigError, match="mmap is True or False"):
        loader(tokens, mmap="yes")
