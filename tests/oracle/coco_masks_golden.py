"""Records the masks that pycocotools draws, under tests/data/coco.

    python tests/oracle/coco_masks_golden.py

Needs pycocotools (2.0.11) and numpy. `polygons` has the CRC-32 of the pixels, column by column, and their sum for each case of `polygons_of`,
which the test repeats; `runs.jsonl` has the text of run lengths, the lengths and the same CRC-32.
"""

import json
import os
import struct
import zlib

import numpy as np
from pycocotools import mask

CASES = 4000


class Numbers:
    """Generator of numbers that the test has as well."""

    def __init__(self, seed):
        self.state = seed * 2_654_435_761 & 0xFFFF_FFFF

    def below(self, bound):
        self.state = (self.state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        return (self.state >> 8) % bound


def polygons_of(number):
    """Returns height and width of a picture, and the polygons of an object."""
    numbers, kind = Numbers(number), number % 8
    height, width = 1 + numbers.below(90), 1 + numbers.below(3 if kind == 7 else 90)
    polygons = []
    for _ in range(1 + numbers.below(4) if kind == 4 else 1):
        # Small numbers of few values: equal corners, and edges along earlier edges.
        count = 2 * (3 + numbers.below(10)) + (numbers.below(2) if kind == 3 else 0)
        one = {
            0: lambda: float(numbers.below(100)),
            1: lambda: numbers.below(10_000) / 100,
            2: lambda: (numbers.below(40_000) - 20_000) / 100,
            3: lambda: float(numbers.below(4) * 20),
            4: lambda: numbers.below(1000) / 10,
            5: lambda: (numbers.below(1200) - 100) / 10,
            6: lambda: (numbers.below(2_000_000) - 1_000_000) / 10,
            7: lambda: numbers.below(10_000) / 100,
        }[kind]
        polygons.append([one() for _ in range(count)])
    return height, width, polygons


def runs_of(pixels):
    """Returns the lengths of the runs of equal pixels, of zeros first."""
    changes = np.flatnonzero(np.diff(np.concatenate([[0], pixels]).astype(np.int8))) if len(pixels) else []
    return np.diff(np.concatenate([[0], changes, [len(pixels)]])).astype(int).tolist()


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/coco")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "polygons"), "wb") as polygons, open(os.path.join(folder, "runs.jsonl"), "w") as runs:
        for number in range(CASES):
            height, width, drawn = polygons_of(number)
            packed = mask.merge(mask.frPyObjects(drawn, height, width))
            pixels = mask.decode(packed).ravel(order="F")
            crc = zlib.crc32(pixels.tobytes())
            polygons.write(struct.pack("<II", crc, int(pixels.sum())))
            if number % 20 == 0:
                case = {"size": [height, width], "counts": packed["counts"].decode(), "runs": runs_of(pixels), "crc": crc}
                assert (mask.decode(mask.frPyObjects({"counts": case["runs"], "size": case["size"]}, 0, 0)).ravel(order="F") == pixels).all()
                runs.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
