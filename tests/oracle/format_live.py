"""The live half of the comparison with the reference, called by the suite `format` (test `live`).

    python tests/oracle/format_live.py write FOLDER FIRST_SEED COUNT   random data sets by the reference: FOLDER/<seed>/
    python tests/oracle/format_live.py read FOLDER                     the reference reads FOLDER/<seed>/ours as its own data
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np  # noqa: E402
from format_sets import random_set  # noqa: E402
from PIL import Image  # noqa: E402
from streaming import LocalDataset  # noqa: E402
from streaming.base.compression import decompress  # noqa: E402
from streaming.base.hashing import get_hash  # noqa: E402


def plain(value):
    """A decoded value in a form that `==` compares."""
    if isinstance(value, Image.Image):
        return value.mode, value.size, value.tobytes()
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.shape, value.tobytes()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return type(value).__name__, repr(value)


def samples(folder):
    """Every sample as the reference decodes it, after unpacking and checking sizes and hashes as it does on download."""
    with open(os.path.join(folder, "index.json")) as file:
        index = json.load(file)
    for shard in index["shards"]:
        for kind in ("data", "meta"):
            raw, packed = shard.get("raw_" + kind), shard.get("zip_" + kind)
            for info in filter(None, [packed, raw]):
                path = os.path.join(folder, info["basename"])
                if info is raw and packed:
                    with open(os.path.join(folder, packed["basename"]), "rb") as file:
                        unpacked = decompress(shard["compression"], file.read())
                    with open(path, "wb") as file:
                        file.write(unpacked)
                with open(path, "rb") as file:
                    data = file.read()
                assert len(data) == info["bytes"], path
                for algo, digest in info["hashes"].items():
                    assert get_hash(algo, data) == digest, (path, algo)
    if not index["shards"]:
        return []
    return [{name: plain(value) for name, value in sample.items()} for sample in LocalDataset(folder)]


def main():
    command, folder = sys.argv[1:3]
    if command == "write":
        first, count = map(int, sys.argv[3:])
        for seed in range(first, first + count):
            os.makedirs(os.path.join(folder, str(seed)))
            random_set(os.path.join(folder, str(seed)), seed)
        return
    seen = 0
    for seed in sorted(os.listdir(folder)):
        theirs, ours = (samples(os.path.join(folder, seed, name)) for name in ("data", "ours"))
        assert theirs == ours, f"set {seed}: the reference reads our copy otherwise"
        seen += len(ours)
    print(f"the reference read {seen} samples")


main()
