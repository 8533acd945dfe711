"""Decompression bombs: small files that become gigabytes are refused before they take the memory."""

import io
import os
import subprocess
import sys
import tarfile

import pytest

import forebay as fb

RAW_BYTES = 1 << 30
BOMB = "decompression bomb"


class Zeros(io.RawIOBase):
    """File of zeros."""

    def __init__(self, count):
        self.left = count

    def readable(self):
        return True

    def readinto(self, into):
        count = min(len(into), self.left)
        into[:count] = bytes(count)
        self.left -= count
        return count


def tar_gz(path, bytes=RAW_BYTES):
    with tarfile.open(path, "w:gz", compresslevel=9) as tar:
        info = tarfile.TarInfo("0.bin")
        info.size = bytes
        tar.addfile(info, io.BufferedReader(Zeros(bytes)))
    return path


def parquet(path, rows=1 << 13):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    # One entry of the dictionary, and the same number for each row.
    column = pa.array(["x" * (1 << 16)] * rows)
    pq.write_table(pa.table({"n": column}), path, compression="zstd", use_dictionary=True)
    assert os.path.getsize(path) < 1 << 20
    return path


READ = """
import resource, sys
import forebay as fb
kind, path = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    if kind == "load_tars":
        for _ in fb.load_tars([path]): pass
    else:
        field = {"n": fb.Text("n") if kind == "parquet" else fb.Bytes("bin")}
        with fb.Loader(remote=path, batch_size=1, framework="numpy", fields=field) as loader:
            for _ in loader: pass
    print("read")
except fb.Error as error:
    print(type(error).__name__, error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.parametrize("kind", ["tars", "load_tars", "parquet"])
def test_a_bomb_is_refused_with_little_memory(tmp_path, kind):
    path = parquet(str(tmp_path / "a.parquet")) if kind == "parquet" else tar_gz(str(tmp_path / "a.tar.gz"))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", READ, kind, path], env=env, capture_output=True, text=True, check=True)
    error, mebibytes = done.stdout.splitlines()
    assert error.startswith("FormatError") and BOMB in error and os.path.basename(path) in error, error
    assert ("smaller row groups" if kind == "parquet" else "smaller files") in error, error
    assert int(mebibytes) < 900, done.stdout


def test_what_is_packed_well_but_small_is_read(tmp_path):
    path = tar_gz(str(tmp_path / "a.tar.gz"), 100 << 20)
    assert os.path.getsize(path) < 1 << 20
    with fb.Loader(remote=path, batch_size=1, framework="numpy", fields={"n": fb.Bytes("bin")}) as loader:
        assert [len(batch["n"][0]) for batch in loader] == [100 << 20]


def test_rows_that_repeat_are_read_up_to_256_mib(tmp_path):
    path = parquet(str(tmp_path / "a.parquet"), rows=4000)
    with fb.Loader(remote=path, local=tmp_path / "local", batch_size=500, framework="numpy", fields={"n": fb.Text("n")}) as loader:
        assert sum(len(text) for batch in loader for text in batch["n"]) == 4000 << 16
