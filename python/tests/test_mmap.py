"""Small samples that are copied from memory-mapped shards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import subprocess
from pathlib import Path

import numpy
import pytest

import forebay as fb

SAMPLES = 600


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """Data set where sample i contains the token i 1,024 times; each shard has enough samples to be detected as cached."""
    with fb.MDSWriter(out=tmp_path / "set", columns={"t": "ndarray:uint16:1024"}, size_limit=1 << 19) as writer:
        for i in range(SAMPLES):
            writer.write({"t": numpy.full(1024, i, dtype=numpy.uint16)})
    return tmp_path / "set"


def loader(local: Path, **arguments: object) -> fb.Loader:
    fields = {"t": fb.Tokens("t", 1024)}
    return fb.Loader(local=local, fields=fields, batch_size=32, shuffle=True, framework="numpy", **arguments)


@pytest.fixture
def leased(tokens: Path) -> Path:
    """The same data set, if the kernel grants leases on its shards."""
    of_disks = {"ext2/ext3", "xfs", "btrfs", "f2fs"}
    kind = subprocess.run(["stat", "-f", "-c", "%T", tokens], capture_output=True, text=True, check=False).stdout.strip()
    shard = os.open(min(tokens.glob("*.mds")), os.O_RDONLY)
    try:
        fcntl.fcntl(shard, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        seconds = int(Path("/proc/sys/fs/lease-break-time").read_text())
    except OSError as error:
        pytest.skip(f"no leases here: {error}")
    finally:
        os.close(shard)
    if kind not in of_disks or seconds < 30 or resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip(f"files are not mapped on {kind}, with {seconds} s for leases, or with limited addresses")
    return tokens


def is_held(shard: Path) -> bool:
    """Returns true if opening for writing has to wait."""
    try:
        os.close(os.open(shard, os.O_WRONLY | os.O_NONBLOCK))
    except BlockingIOError:
        return True
    return False


def epoch(batches: fb.Loader) -> numpy.ndarray:
    return numpy.concatenate([batch["t"].copy() for batch in batches])


def test_samples_are_the_same_and_shards_are_free_again_afterwards(leased: Path) -> None:
    shards = sorted(leased.glob("*.mds"))
    with loader(leased) as plain, loader(leased, engine=fb.Engine(mmap=True)) as mapped:
        for _ in range(3):
            expected, got = epoch(plain), epoch(mapped)
            assert numpy.array_equal(got, expected)
            assert sorted(got[:, 0]) == list(range(SAMPLES))
        # The attempt breaks the lease, but the loader keeps it as long as a copy could be in flight.
        assert is_held(shards[0])
        # The loader continues: with the lease until its next check, with reads after it.
        for _ in range(2):
            assert numpy.array_equal(epoch(mapped), epoch(plain))
        assert is_held(shards[0])
    assert not any(is_held(shard) for shard in shards)


def test_files_are_mapped_only_if_configured(leased: Path) -> None:
    with loader(leased) as plain:
        for _ in range(2):
            assert len(epoch(plain)) == SAMPLES
        assert not any(is_held(shard) for shard in leased.glob("*.mds"))


def test_without_file_leases_all_samples_are_read(tokens: Path) -> None:
    with contextlib.ExitStack() as stack:
        # A file that is open for writing gets no lease.
        for shard in tokens.glob("*.mds"):
            stack.enter_context(shard.open("r+b"))
        with loader(tokens, engine=fb.Engine(mmap=True)) as mapped:
            for _ in range(2):
                assert sorted(epoch(mapped)[:, 0]) == list(range(SAMPLES))


def test_mmap_must_be_a_bool(tokens: Path) -> None:
    with pytest.raises(fb.ConfigError, match="mmap is True or False"):
        loader(tokens, engine=fb.Engine(mmap="yes"))
