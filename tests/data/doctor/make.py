"""Makes the tables of this folder: a clean one, and one with planted defects, as Parquet and Arrow (pyarrow 26)."""

import io
import pathlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = pathlib.Path(__file__).parent


def picture(seed):
    numbers = random.Random(seed)
    small = Image.new("RGB", (5, 6))
    small.putdata([tuple(numbers.randrange(256) for _ in range(3)) for _ in range(30)])
    out = io.BytesIO()
    small.resize((40 + seed % 9, 36 + seed % 7), Image.Resampling.BICUBIC).save(out, "JPEG", quality=50)
    return out.getvalue()


def rows():
    numbers = random.Random(7)
    for number in range(32):
        yield {
            "image": picture(number),
            "label": numbers.randrange(3),
            "text": f"Sentence {number} has the words {numbers.randrange(1 << 30)} and {numbers.randrange(1 << 30)}.",
            "score": numbers.random(),
        }


def write(samples, name):
    schema = pa.schema({"image": pa.binary(), "label": pa.int64(), "text": pa.string(), "score": pa.float64()})
    table = pa.Table.from_pylist(samples, schema)
    pq.write_table(table, HERE / f"{name}.parquet", row_group_size=16)
    with pa.ipc.new_file(HERE / f"{name}.arrow", schema) as writer:
        writer.write_table(table, max_chunksize=16)


clean = list(rows())
write(clean, "clean")
planted = list(rows())
planted[2]["text"] = ""
planted[3]["image"] = planted[3]["image"][:300]
planted[5]["score"] = float("nan")
planted[6]["text"] = None
planted[7]["label"] = -1
planted[29] = dict(planted[4])
write(planted, "planted")
