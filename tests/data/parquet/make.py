"""Makes the Parquet and Arrow files of this folder: one table as several programs write it, in all encodings and compressions.

Usage: python make.py, with pyarrow, polars, duckdb and pillow. `expected.json` has the rows, with bytes in base64.
"""

import base64
import datetime
import decimal
import io
import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

HERE = pathlib.Path(__file__).parent
ROWS = 40
GROUP = 16

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "small": pa.int8(),
        "short": pa.uint16(),
        "half": pa.float16(),
        "single": pa.float32(),
        "double": pa.float64(),
        "flag": pa.bool_(),
        "text": pa.string(),
        "blob": pa.binary(),
        "four": pa.binary(4),
        "kind": pa.dictionary(pa.int8(), pa.string()),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "price": pa.decimal128(9, 2),
        "tokens": pa.list_(pa.int32()),
        "vector": pa.list_(pa.float32(), 3),
        "grid": pa.list_(pa.list_(pa.int16())),
        "words": pa.list_(pa.string()),
        "image": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
        "deep": pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.string()})}),
    }
)
PLAIN = ["id", "small", "short", "single", "double", "flag", "text", "blob", "day", "at", "price", "tokens", "words", "image", "deep"]
"""Columns that every program can write."""


def row(n):
    """Row `n` of the table."""
    return {
        "id": n * 1_000_003,
        "small": n - 20,
        "short": n * 1000,
        "half": n / 4,
        "single": n / 8,
        "double": n / 16,
        "flag": n % 3 == 0,
        "text": f"täxt {n}" * (n % 4),
        "blob": bytes([n]) * (n * 7 % 50),
        "four": n.to_bytes(4, "big"),
        "kind": ["red", "green", "blue"][n % 3],
        "day": datetime.date(2026, 1, 1) + datetime.timedelta(days=n),
        "at": datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=n * 1_000_001),
        "price": decimal.Decimal(n * 101 - 500) / 100,
        "tokens": list(range(n % 5)),
        "vector": [n, n + 0.5, -n],
        "grid": [[n, 1, 2]] * (n % 3 + 1),
        "words": ["a", "b\"ü\n"] * (n % 3),
        "image": {"bytes": b"\xff\xd8" + bytes([n]) * 20, "path": f"{n}.jpg"},
        "deep": {"a": n, "b": {"c": str(n)}},
    }


def shown(value):
    """A value in JSON, as forebay delivers it: dates and times as numbers, decimals as text."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    return str(value) if isinstance(value, decimal.Decimal) else value


def write_set():
    """Writes two files of 7 groups each. A column that is rarely read makes the groups too large to share a shard."""
    for file in range(2):
        numbers = range(file * 560, file * 560 + 560)
        columns = {
            "id": pa.array(numbers, pa.int64()),
            "text": [f"sample {n} " * (n % 5) for n in numbers],
            "tokens": pa.array([list(range(n % 7)) for n in numbers], pa.list_(pa.int32())),
            "pad": pa.DictionaryArray.from_arrays(pa.array([0] * 560, pa.int8()), ["x" * 220_000]),
        }
        pq.write_table(pa.table(columns), HERE / f"set-{file}.parquet", row_group_size=80, compression="zstd")


def write_pictures():
    """Writes pictures as the hub's data sets have them."""
    pictures = []
    for n in range(32):
        content = io.BytesIO()
        Image.new("RGB", (40, 32), (n * 8, 255 - n * 8, n)).save(content, "PNG")
        pictures.append({"bytes": content.getvalue(), "path": f"{n}.png"})
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    columns = {"img": pa.array(pictures, kind), "label": pa.array([n % 5 for n in range(32)], pa.int64())}
    pq.write_table(pa.table(columns), HERE / "pictures.parquet")


def write_nulls():
    """Writes columns with nulls, and lists of lists of several lengths."""
    columns = {
        "id": pa.array(range(30), pa.int64()),
        "some": pa.array([None if n == 17 else n for n in range(30)], pa.int32()),
        "all": pa.array([None] * 30, pa.int32()),
        "none": pa.nulls(30),
        "inner": pa.array([[n, None] if n == 25 else [n] for n in range(30)], pa.list_(pa.int32())),
        "ragged": pa.array([[[1], [2, n]] if n == 3 else [[n]] for n in range(30)], pa.list_(pa.list_(pa.int32()))),
        "blobs": pa.array([[b"x"]] * 30, pa.list_(pa.binary())),
    }
    pq.write_table(pa.table(columns), HERE / "nulls.parquet", row_group_size=10)


def write_presence():
    """Writes columns with nulls alone, as the file has them: some are empty lists, or children of structs."""
    columns = {
        "id": pa.array([0, 1, 2], pa.int64()),
        "empty": pa.array([[], [], []], pa.list_(pa.int64())),
        "some": pa.array([[], None, []], pa.list_(pa.string())),
        "struct": pa.array([{"a": None}, None, {"a": None}], pa.struct({"a": pa.int64()})),
        "deep": pa.array([{"a": []}, {"a": None}, None], pa.struct({"a": pa.list_(pa.int64())})),
        "flat": pa.array([None, None, None], pa.int64()),
    }
    pq.write_table(pa.table(columns), HERE / "presence.parquet")


def write_arrow():
    """Writes the table in Arrow's formats, without the column that has a dictionary and with it."""
    rows = [row(n) for n in range(ROWS)]
    whole = pa.Table.from_pylist(rows, SCHEMA)
    table = whole.drop_columns(["kind"])
    # Each batch has different values, which replace the values before.
    kinds = [pa.array([row["kind"] for row in rows[n : n + GROUP]]).dictionary_encode() for n in range(0, ROWS, GROUP)]
    replaced = whole.select(["id", "text"]).append_column("kind", pa.chunked_array(kinds))
    same = whole.select(["id", "text", "kind"])
    for name, opened, rows, options in [
        ("stream", pa.ipc.new_stream, table, {}),
        ("file-lz4", pa.ipc.new_file, table, {"compression": "lz4"}),
        ("file-zstd", pa.ipc.new_file, table, {"compression": "zstd"}),
        ("file-dictionary", pa.ipc.new_file, same, {}),
        ("stream-dictionaries", pa.ipc.new_stream, replaced, {}),
        ("stream-deltas", pa.ipc.new_stream, deltas(whole), {"emit_dictionary_deltas": True}),
    ]:
        with opened(str(HERE / f"pyarrow-{name}.arrow"), rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
            file.write_table(rows, max_chunksize=GROUP)


def deltas(whole):
    """Two columns with a dictionary that grows with each batch."""
    texts = whole["text"].to_pylist()
    known, chunks = [], []
    for start in range(0, ROWS, GROUP):
        part = texts[start : start + GROUP]
        known += sorted({text for text in part} - {*known})
        chunks.append(pa.DictionaryArray.from_arrays(pa.array([known.index(text) for text in part], pa.int16()), list(known)))
    return whole.select(["id"]).append_column("text", pa.chunked_array(chunks))


def write_polars(name):
    """Writes the table as this version of polars does: its files have no schema in front, or vectors out of order."""
    import polars

    table = pa.Table.from_pylist([row(n) for n in range(ROWS)], SCHEMA)
    frame = polars.from_arrow(table.select(PLAIN)).with_columns(kind=polars.Series([row(n)["kind"] for n in range(ROWS)]))
    frame = frame.with_columns(polars.col("kind").cast(polars.Categorical))
    for compression in ["uncompressed", "zstd"]:
        frame.write_ipc(HERE / f"polars-{name}-{compression}.arrow", compression=compression)


def write_units():
    """Writes tables that differ in the units of their times, for `units/`, and one with checksums of its pages."""
    at, day, span = datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.date(2020, 1, 2), datetime.timedelta(seconds=5)
    (HERE / "units").mkdir(exist_ok=True)
    for unit, days, zone in [("ms", pa.date32(), "UTC"), ("us", pa.date64(), "Europe/Berlin"), ("ns", pa.date32(), None)]:
        table = pa.table(
            {
                "number": pa.array([1, 2], pa.int64()),
                "time": pa.array([at, at], pa.timestamp(unit)),
                "zoned": pa.array([at, at], pa.timestamp("us", zone)),
                "span": pa.array([span, span], pa.duration(unit)),
                "day": pa.array([day, day], days),
                "times": pa.array([[at], [at]], pa.list_(pa.timestamp(unit))),
                "event": pa.array([{"at": at}, {"at": at}], pa.struct([("at", pa.timestamp(unit))])),
            }
        )
        pq.write_table(table, HERE / f"units/{unit}.parquet")
    numbers = pa.table({"id": pa.array(range(1000), pa.int64())})
    pq.write_table(
        numbers, HERE / "checksums.parquet", write_page_checksum=True, compression="none", use_dictionary=False, data_page_size=2048
    )


def main():
    rows = [row(n) for n in range(ROWS)]
    table = pa.Table.from_pylist(rows, SCHEMA)
    (HERE / "expected.json").write_text(json.dumps([{k: shown(v) for k, v in row.items()} for row in table.to_pylist()]))

    def write(name, table=table, **options):
        pq.write_table(table, HERE / f"{name}.parquet", **{"row_group_size": GROUP, **options})

    for compression in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        write(f"pyarrow-{compression}", compression=compression)
    write("pyarrow-v1", version="1.0", data_page_version="1.0", use_dictionary=False)
    write("pyarrow-pages-v2", data_page_version="2.0", write_page_index=True, data_page_size=64)
    write("pyarrow-one-group", row_group_size=ROWS)
    # Types that are only in the schema that Arrow's writers add.
    write("pyarrow-no-arrow", store_schema=False)
    large = {"text": pa.large_string(), "blob": pa.large_binary(), "tokens": pa.large_list(pa.int32())}
    write("pyarrow-large", table.cast(pa.schema([pa.field(f.name, large.get(f.name, f.type)) for f in SCHEMA])))
    flat = ["id", "small", "short", "single", "double", "text", "blob", "four"]
    for name, encodings in {
        "delta": {"id": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY", "blob": "DELTA_LENGTH_BYTE_ARRAY"},
        "split": {"single": "BYTE_STREAM_SPLIT", "double": "BYTE_STREAM_SPLIT", "id": "BYTE_STREAM_SPLIT"},
        "plain": {"id": "PLAIN", "text": "PLAIN"},
    }.items():
        write(f"pyarrow-{name}", table.select(flat), use_dictionary=False, column_encoding=encodings)

    write_set()
    write_pictures()
    write_arrow()
    # And with polars 1.9, as `1`.
    write_polars("2")
    write_nulls()
    write_presence()
    write_units()

    import duckdb
    import polars

    plain = table.select(PLAIN)
    frame = polars.from_arrow(plain)
    for compression in ["lz4", "zstd"]:
        frame.write_parquet(HERE / f"polars-{compression}.parquet", compression=compression, row_group_size=GROUP)
    duckdb.register("plain", plain)
    for version in ["V1", "V2"]:
        file = HERE / f"duckdb-{version.lower()}.parquet"
        duckdb.sql(f"COPY plain TO '{file}' (FORMAT parquet, PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")


if __name__ == "__main__":
    sys.exit(main())
