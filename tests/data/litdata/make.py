"""Makes the data sets of this folder with LitData, where pyarrow is installed: chunks whose samples are rows of Arrow files.

Usage: python make.py, with litdata, pyarrow and pillow. `test_litdata.py` has the same samples.
"""

import io
import pathlib

from litdata.streaming.writer import BinaryWriter
from PIL import Image

HERE = pathlib.Path(__file__).parent


def jpeg(number):
    file = io.BytesIO()
    Image.new("RGB", (16, 8), (number, 2 * number, 0)).save(file, "jpeg")
    return file.getvalue()


def pictures():
    for number in range(7):
        yield {"image": jpeg(number), "class": number, "meta": {"box": [number / 2, 1.0], "name": "ä" * number}}


def texts():
    for number in range(300):
        yield {"text": f"text {number}", "ids": list(range(number % 4)), "score": number / 4 if number % 5 else None}


def mixed():
    """The second chunk has a column of two types, which is no column of Arrow."""
    for number in range(4):
        yield {"a": [number] if number < 3 else ["text"]}


def written(name, samples, **options):
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    writer = BinaryWriter(str(folder), **options)
    for number, sample in enumerate(samples):
        writer[number] = sample
    writer.done()
    writer.merge()


if __name__ == "__main__":
    written("pictures", pictures(), chunk_size=3)
    written("texts", texts(), chunk_size=290, compression="zstd")
    written("mixed", mixed(), chunk_size=2)
