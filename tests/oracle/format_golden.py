"""Records the golden data sets under tests/data/format/golden: run with a Python that has mosaicml-streaming 0.13.0.

    python tests/oracle/format_golden.py

The output does not depend on the clock except for the gz files, which have it in their header.
"""

import os
import random
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from format_sets import HASHES, MDS_ENCODINGS, MDSWriter, write_set  # noqa: E402
from streaming.base.util import merge_index  # noqa: E402

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "format", "golden")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)

    def record(name, *args, **options):
        folder = os.path.join(ROOT, name)
        os.makedirs(folder)
        write_set(folder, random.Random(name), *args, **options)

    every = {f"{i:02}_{encoding}": encoding for i, encoding in enumerate(MDS_ENCODINGS)}
    record("mds_every_encoding", "mds", every, 12, size_limit=8000)
    plain = {"id": "str", "x": "int", "ü": "float32"}
    record("mds_every_hash", "mds", plain, 20, size_limit=600, hashes=HASHES)
    record("mds_first_too_large", "mds", {"a": "jpeg"}, 4, size_limit=400)
    record("mds_one_shard", "mds", plain, 7, size_limit=None)
    record("mds_nothing", "mds", plain, 0)
    for compression in ["br:3", "bz2", "gz:6", "snappy", "zstd:7"]:
        record("mds_" + compression.split(":")[0], "mds", plain, 40, size_limit=900, compression=compression, hashes=["sha1", "xxh64"])
    words = {"b": "str", "a": "int", "c": "float", "é\"\n": "str"}
    record("json", "json", words, 25, size_limit=700, hashes=["md5"])
    record("json_zstd", "json", words, 25, size_limit=700, hashes=["md5"], compression="zstd", newline="\r\n")
    words = {"b": "str", "a": "int", "c": "float", "é": "str"}
    record("csv", "csv", words, 25, size_limit=500)
    record("tsv", "tsv", words, 25, size_limit=500, newline="\r\n")
    record("xsv", "xsv", words, 25, size_limit=500, separator="||", hashes=["xxh3_64"])

    # merge_index: three directories and the result of their merge.
    merged = os.path.join(ROOT, "merge")
    for part in ["000", "001", "002"]:
        options = {"compression": "zstd", "hashes": ["xxh64"]} if part == "001" else {}
        with MDSWriter(out=os.path.join(merged, part), columns={"x": "int"}, size_limit=300, **options) as out:
            for x in range(20):
                out.write({"x": x})
    merge_index([os.path.join(merged, part, "index.json") for part in ["000", "001", "002"]], merged)
    for folder, _, files in os.walk(merged):
        for file in files:
            if file != "index.json":
                os.remove(os.path.join(folder, file))


main()
