"""Parquet files of the pictures, as the hub's data sets have them: structs of `bytes` and `path`, in groups of 200 rows."""

import os

FILES = 8
GROUP = 200


def write(config):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from torchvision.datasets import ImageFolder

    os.makedirs(config["parquet"], exist_ok=True)
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    samples = ImageFolder(config["files"]).samples
    for number in range(FILES):
        name = os.path.join(config["parquet"], f"train-{number:05}-of-{FILES:05}.parquet")
        part = samples[number::FILES]
        schema = pa.schema({"image": kind, "class": pa.int64()})
        with pq.ParquetWriter(name, schema) as writer:
            for start in range(0, len(part), GROUP):
                rows = part[start : start + GROUP]
                pictures = [{"bytes": open(path, "rb").read(), "path": os.path.basename(path)} for path, _ in rows]
                labels = [label for _, label in rows]
                writer.write_table(pa.table({"image": pa.array(pictures, kind), "class": labels}, schema))
