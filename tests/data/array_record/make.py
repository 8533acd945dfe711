"""Writes the files of this folder with the package array_record (0.8.6): `python make.py`.

`set.*` and some further files have the records of ../tfrecord, `samples.*` the records of python/tests/sources/tf_examples.py.
They are compressed, since each file is padded to 64 KiB twice.
"""

import gzip
import pathlib
import sys
import tempfile

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.append(str(FOLDER.parents[2] / "python" / "tests" / "sources"))

from tf_examples import example, samples  # noqa: E402


def records(part):
    """The records of a file that TensorFlow wrote."""
    body, at = (FOLDER.parent / "tfrecord" / f"set.tfrecord-0000{part}-of-00003").read_bytes(), 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 8], "little")
        yield body[at + 12 : at + 12 + size]
        at += size + 16


def write(name, options, items):
    items = list(items)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/{name}"
        writer = ArrayRecordWriter(path, options)
        for item in items:
            writer.write(item)
        writer.close()
        assert ArrayRecordReader(path).read_all() == items
        (FOLDER / f"{name}.gz").write_bytes(gzip.compress(pathlib.Path(path).read_bytes(), 9, mtime=0))


for part, options in enumerate(["group_size:1", "group_size:4,brotli:6", "group_size:3,uncompressed"]):
    write(f"set.array_record-0000{part}-of-00003", options, records(part))
write("default.array_record", "", records(0))
write("snappy.array_record", "group_size:5,snappy", records(0))
write("transposed.array_record", "group_size:5,transpose", records(0))
write("empty.array_record", "", [])
# Chunks that are padded since they have more records than bytes, and no Examples.
write("plain.array_record", "group_size:500", [b"no example", *[b""] * 1000, b"\xff" * 300])
# Chunks that heads of blocks interrupt at many offsets, and padding between them.
write("blocks.array_record", "group_size:2,uncompressed", [bytes((i // 3 + n) % 251 for i in range(20_000 + n)) for n in range(10)])
write("padded.array_record", "group_size:1,pad_to_block_boundary:true", [b"%d" % n for n in range(3)])
# A footer that is longer than the part of a file's end that is fetched at first.
write("many.array_record", "group_size:1,uncompressed", [b""] * 30_000)
made = [example(item) for item in samples()]
for number in range(10):
    write(f"samples.array_record-{number:05}-of-00010", "group_size:5", made[13 * number : 13 * number + 13])
