"""Decompression bombs: small files that become gigabytes are refused before they take the memory."""

import gzip
import io
import itertools
import json
import os
import struct
import subprocess
import sys
import tarfile
import zlib

import numpy as np
import pytest

import forebay as fb
from tf_examples import record

RAW_BYTES = 1 << 30
BOMB = "decompression bomb"


def gz(path, zeros=RAW_BYTES, before=b"", after=b""):
    """Writes zeros, some blocks, between other bytes. A block is compressed once: after a full flush it has the same bytes again."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = bytes(4 << 20)
    blocks = zeros // len(block)
    with open(path, "wb") as file:
        file.write(b"\x1f\x8b\x08" + bytes(6) + b"\xff")
        file.write(pack.compress(before) + pack.flush(zlib.Z_FULL_FLUSH))
        file.write((pack.compress(block) + pack.flush(zlib.Z_FULL_FLUSH)) * blocks)
        file.write(pack.compress(after) + pack.flush())
        checksum = zlib.crc32(before)
        for _ in range(blocks):
            checksum = zlib.crc32(block, checksum)
        file.write(struct.pack("<II", zlib.crc32(after, checksum), len(before) + zeros + len(after)))
    return path


def tar_gz(path, zeros=RAW_BYTES):
    info = tarfile.TarInfo("0.bin")
    info.size = zeros
    return gz(path, zeros, info.tobuf(), bytes(1024))


def parquet(path, rows=1 << 13):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    # One entry of the dictionary, and the same number for each row.
    column = pa.array(["x" * (1 << 16)] * rows)
    pq.write_table(pa.table({"n": column}), path, compression="zstd", use_dictionary=True)
    assert os.path.getsize(path) < 1 << 20
    return path


PEAK = """
def peak():
    # Unlike ru_maxrss, it does not begin with the peak of the parent.
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) >> 10
"""

def arrow(path, rows=1 << 13):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"n": pa.array(["x" * (1 << 16)] * rows)})
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_table(table)
    assert os.path.getsize(path) < 1 << 20
    return path


READ = PEAK + """
import sys
import forebay as fb
kind, path = sys.argv[1:]
before = peak()
try:
    if kind == "load_tars":
        for _ in fb.load_tars([path]): pass
    else:
        field = {"n": fb.Text("n") if kind in ("parquet", "arrow") else fb.Bytes("bin")}
        with fb.Loader(remote=path, batch_size=1, framework="numpy", fields=field) as loader:
            for _ in loader: pass
    print("read")
except fb.Error as error:
    print(type(error).__name__, error)
print(peak() - before)
"""


def run(program, *arguments):
    """Returns the lines that a program writes in its own process."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["tars", "load_tars", "parquet", "arrow"])
def test_a_bomb_is_refused_with_little_memory(tmp_path, kind):
    makers = {"parquet": (parquet, "a.parquet"), "arrow": (arrow, "a.arrow")}
    make, name = makers.get(kind, (tar_gz, "a.tar.gz"))
    path = make(str(tmp_path / name))
    error, mebibytes = run(READ, kind, path)
    assert error.startswith("FormatError") and BOMB in error and os.path.basename(path) in error, error
    assert ("smaller row groups" if kind == "parquet" else "smaller files") in error, error
    assert int(mebibytes) < (900 if kind == "parquet" else 300), mebibytes


def test_small_data_that_are_packed_well_are_read(tmp_path):
    path = tar_gz(str(tmp_path / "a.tar.gz"), 100 << 20)
    assert os.path.getsize(path) < 1 << 20
    with fb.Loader(remote=path, batch_size=1, framework="numpy", fields={"n": fb.Bytes("bin")}) as loader:
        assert [len(batch["n"][0]) for batch in loader] == [100 << 20]


def test_rows_that_repeat_are_read_up_to_256_mib(tmp_path):
    path = parquet(str(tmp_path / "a.parquet"), rows=4000)
    with fb.Loader(remote=path, local=tmp_path / "local", batch_size=500, framework="numpy", fields={"n": fb.Text("n")}) as loader:
        assert sum(len(text) for batch in loader for text in batch["n"]) == 4000 << 16


ROWS = PEAK + """
import sys
import forebay as fb
path, local, field = sys.argv[1:]
before = peak()
fields = {"n": getattr(fb, field.split(":")[0])(field.split(":")[1])}
with fb.Loader(remote=path, local=local, batch_size=100, framework="numpy", fields=fields) as loader:
    count = sum(len(batch["n"]) for batch in loader)
print(count, peak() - before)
"""

# Bytes of a shard that is not unpacked in memory as a whole.
LARGE = 320 << 20
ROW_BYTES = 256 << 10


def rows(form):
    """Rows of a file of more than LARGE bytes, which become some 30 times smaller."""
    noise = np.random.default_rng(5).integers(97, 122, ROW_BYTES // 32, np.uint8).tobytes()
    packed = None
    for number in range(LARGE // ROW_BYTES + 1):
        row = noise + b"%08d" % number + b"x" * (ROW_BYTES - len(noise))
        if form == "tar":
            info = tarfile.TarInfo(f"{number}.txt")
            info.size = len(row)
            yield info.tobuf() + row + bytes(-len(row) % 512)
        elif form == "jsonl":
            yield b'{"text": "' + row + b'"}\n'
        else:
            # The checksum in Python takes a moment.
            packed = packed or record(noise + b"x" * (ROW_BYTES - len(noise)))
            yield packed
    if form == "tar":
        yield bytes(1024)


@pytest.mark.parametrize(("name", "field"), [("a.tar.gz", "Text:txt"), ("a.jsonl.gz", "Text:text"), ("a.tfrecord.gz", "Bytes:record")])
def test_a_large_compressed_file_is_unpacked_while_it_is_written(tmp_path, name, field):
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) as file:
        for row in rows(name.split(".")[1]):
            file.write(row)
    (line,) = run(ROWS, path, tmp_path / "local", field)
    count, mebibytes = map(int, line.split())
    assert count == LARGE // ROW_BYTES + 1
    # Batches of 100 rows have 25 MiB, and the file 13.
    assert mebibytes < 290, mebibytes


# A value that would be in memory twice if its sample was read before it.
VALUE_BYTES = 192 << 20

COLD = """
def drop_from_page_cache(folder):
    for parent, _, names in os.walk(folder):
        for name in names:
            file = os.open(os.path.join(parent, name), os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
"""

VALUE = PEAK + COLD + """
import os, sys, zlib
import forebay as fb
folder, remote, column, is_cold = sys.argv[1:]
if is_cold == "True":
    drop_from_page_cache(folder)
before = peak()
stream = fb.Stream(remote=remote, files="each") if column == "file" else fb.Stream(remote=remote)
with fb.Loader(streams=[stream], batch_size=1, framework="numpy", fields={"x": fb.Bytes(column)}) as loader:
    (row,) = [row for batch in loader for row in batch["x"]]
    print(len(row), zlib.crc32(row), peak() - before)
"""


def value():
    return np.random.default_rng(7).integers(0, 256, 1 << 20, np.uint8).tobytes() * (VALUE_BYTES >> 20)


def large_mds(folder, columns):
    with fb.MDSWriter(out=folder, columns=columns, size_limit=None) as writer:
        writer.write({name: value() if name == "x" else "text" for name in columns})
    return folder, "x"


def large_tar(folder):
    folder.mkdir()
    with tarfile.open(folder / "a.tar", "w") as tar:
        for name, content in (("0.txt", b"text"), ("0.bin", value()), ("0.cls", b"1")):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return folder / "a.tar", "bin"


def large_file(folder):
    folder.mkdir()
    (folder / "0.mp4").write_bytes(value())
    return folder, "file"


def large_text(folder, encoding):
    letters = np.frombuffer(value(), np.uint8) % 26 + 97
    text = letters.tobytes().decode()
    value_of = {"str": text, "json": [text[: VALUE_BYTES - 4]]}[encoding]
    with fb.MDSWriter(out=folder, columns={"a": "str", "x": encoding}, size_limit=None) as writer:
        writer.write({"a": "text", "x": value_of})
    return folder, letters.tobytes() if encoding == "str" else json.dumps(value_of).encode()


def large_array(folder, form):
    numbers = np.frombuffer(value(), np.int32).reshape(2, -1)
    if form == "npy":
        folder.mkdir()
        np.save(folder / "0.npy", numbers)
        return folder, numbers
    with fb.MDSWriter(out=folder, columns={"a": "str", "x": form}, size_limit=None) as writer:
        writer.write({"a": "text", "x": numbers})
    return folder, numbers


ROW = PEAK + """
import sys, zlib
import forebay as fb
remote, field, name, framework = sys.argv[1:]
stream = fb.Stream(remote=remote, files="each" if name == "npy" else None)
loader = fb.Loader(streams=[stream], batch_size=1, fields={"x": getattr(fb, field)(name)}, threads=1, framework=framework)
before = peak()
(row,) = next(iter(loader))["x"]
after = peak() - before
if isinstance(row, str):
    print(len(row), zlib.crc32(row.encode()), after)
else:
    row = row.numpy() if framework == "torch" else row
    row[0, 0] += 0
    print(row.shape, row.dtype, zlib.crc32(row), after)
"""


@pytest.mark.parametrize("encoding", ["str", "json"])
def test_a_large_text_is_in_memory_once_and_a_piece_of_it_twice(tmp_path, encoding):
    folder, text = large_text(tmp_path / "set", encoding)
    (line,) = run(ROW, folder, "Text" if encoding == "str" else "Json", "x", "numpy")
    length, checksum, mebibytes = map(int, line.split())
    assert (length, checksum) == (len(text), zlib.crc32(text))
    assert mebibytes < (VALUE_BYTES >> 20) + 120, mebibytes


@pytest.mark.parametrize("letters", ["aé", "a€", "a€😀", "😀"])
def test_a_large_text_may_have_any_characters(tmp_path, letters):
    text = "".join(letter * (n * 977 % 3001) for n, letter in zip(range(40000), itertools.cycle(letters)))
    assert len(text.encode()) > 70 << 20
    with fb.MDSWriter(out=tmp_path, columns={"x": "str"}, size_limit=None) as writer:
        writer.write({"x": text})
    with fb.Loader(local=str(tmp_path), batch_size=1) as loader:
        assert next(iter(loader))["x"] == [text]


@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("form", ["ndarray", "ndarray:int32", "npy"])
def test_a_large_array_of_any_shape_is_in_memory_once(tmp_path, form, framework):
    folder, numbers = large_array(tmp_path / "set", form)
    (line,) = run(ROW, folder, "Array", "npy" if form == "npy" else "x", framework)
    shape, kind, checksum, mebibytes = line.rsplit(" ", 3)
    assert (shape, kind, int(checksum)) == (str(numbers.shape), "int32", zlib.crc32(numbers))
    assert int(mebibytes) < (VALUE_BYTES >> 20) + 150, mebibytes


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda folder: large_mds(folder, {"x": "bytes"}),
        lambda folder: large_mds(folder, {"a": "str", "x": "bytes", "z": "str"}),
        large_tar,
        large_file,
    ],
    ids=["mds", "columns of any size", "tar", "file"],
)
def test_a_large_value_that_is_delivered_as_it_is_stored_is_in_memory_once(tmp_path, make, is_cold):
    remote, column = make(tmp_path / "set")
    (line,) = run(VALUE, tmp_path / "set", remote, column, is_cold)
    length, checksum, mebibytes = map(int, line.split())
    assert (length, checksum) == (VALUE_BYTES, zlib.crc32(value()))
    assert mebibytes < (VALUE_BYTES >> 20) + 150, mebibytes


SAMPLE = PEAK + """
import sys, zlib
import forebay as fb
before = peak()
sample = fb.ShardReader(sys.argv[1])[1]
print(sample["n"], sample["z"], zlib.crc32(sample["x"]), peak() - before)
"""


def test_a_large_sample_of_a_shard_reader_is_in_memory_once(tmp_path):
    columns = {"n": "int", "x": "bytes", "z": "str"}
    with fb.MDSWriter(out=tmp_path / "set", columns=columns, size_limit=None) as writer:
        for number in range(2):
            writer.write({"n": number, "x": value(), "z": "text"})
    (line,) = run(SAMPLE, tmp_path / "set")
    number, text, checksum, mebibytes = line.split()
    assert (number, text, int(checksum)) == ("1", "text", zlib.crc32(value()))
    assert int(mebibytes) < (VALUE_BYTES >> 20) + 150, mebibytes



VERIFY = PEAK + """
import sys
from forebay.verify import verify
before = peak()
report = verify(sys.argv[1], threads=1)
print(report.damaged)
print(peak() - before)
"""


@pytest.mark.parametrize("compression", ["gz:1", "zstd:1"])
def test_verify_unpacks_large_shards_while_it_reads_them(tmp_path, compression):
    folder = tmp_path / "set"
    draw = np.random.default_rng(5)
    options = {"compression": compression, "hashes": ["xxh64"], "size_limit": None}
    with fb.MDSWriter(out=folder, columns={"x": "bytes"}, **options) as writer:
        for _ in range(LARGE // ROW_BYTES):
            noise = draw.integers(97, 122, ROW_BYTES // 32, np.uint8).tobytes()
            writer.write({"x": noise.ljust(ROW_BYTES, b"x")})
    damage, mebibytes = run(VERIFY, folder)
    assert damage == "{}" and int(mebibytes) < 100, (damage, mebibytes)
    index = json.loads((folder / "index.json").read_text())
    index["shards"][0]["raw_data"]["hashes"]["xxh64"] = "0" * 16
    (folder / "index.json").write_text(json.dumps(index))
    damage, mebibytes = run(VERIFY, folder)
    assert "unpacked, its xxh64 is " in damage and int(mebibytes) < 100, (damage, mebibytes)


def test_verify_refuses_a_bomb_with_little_memory(tmp_path):
    with fb.MDSWriter(out=tmp_path, columns={"x": "bytes"}, compression="gz", size_limit=None) as writer:
        writer.write({"x": bytes(100)})
    packed = gz(tmp_path / "shard.00000.mds.gz")
    index = json.loads((tmp_path / "index.json").read_text())
    index["shards"][0]["zip_data"]["bytes"] = packed.stat().st_size
    for declared in (RAW_BYTES, 100):
        index["shards"][0]["raw_data"]["bytes"] = declared
        (tmp_path / "index.json").write_text(json.dumps(index))
        damage, mebibytes = run(VERIFY, tmp_path)
        assert (BOMB if declared == RAW_BYTES else "holds more than 100 bytes") in damage, damage
        assert int(mebibytes) < 100, mebibytes
