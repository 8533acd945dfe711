"""Spark's data frames as MDS, on a local session. Spark is not among the packages of `make test`: without it these tests are
skipped with that reason, and `reference_suite.sh` runs the reference's own."""

import os
import shutil
import sys
from decimal import Decimal

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
pytest.importorskip("pyarrow", reason="pyarrow is not installed")
if shutil.which("java") is None:
    pytest.skip("java is not installed", allow_module_level=True)

from pyspark.sql import SparkSession
from pyspark.sql import types as spark

from forebay.streaming.base.compression import decompress
from forebay.streaming.base.converters import dataframe_to_mds, infer_dataframe_schema, is_json_compatible
from forebay.streaming.base.local import LocalDataset

ROWS = [(i, f"name {i}", Decimal(i) / 4, [i, i + 1]) for i in range(20)]


@pytest.fixture(scope="module")
def frame():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").getOrCreate()
    columns = [
        ("n", spark.IntegerType()),
        ("s", spark.StringType()),
        ("d", spark.DecimalType(10, 2)),
        ("a", spark.ArrayType(spark.LongType())),
    ]
    schema = spark.StructType([spark.StructField(name, kind) for name, kind in columns])
    yield session.createDataFrame(ROWS, schema).repartition(3)
    session.stop()


def test_every_row_is_written_and_the_parts_have_one_index(frame, tmp_path):
    settings = {"out": str(tmp_path)}
    assert dataframe_to_mds(frame, mds_kwargs=settings) == (str(tmp_path), "")
    assert settings == {"out": str(tmp_path)}, "the caller's settings are unchanged"
    for packed in tmp_path.rglob("*.zstd"):
        packed.with_suffix("").write_bytes(decompress("zstd", packed.read_bytes()))
    rows = sorted(((int(x["n"]), x["s"], x["d"], x["a"].tolist()) for x in LocalDataset(str(tmp_path))[:]))
    assert rows == ROWS


def test_a_function_makes_samples_of_rows(frame, tmp_path):
    def twice(rows, word):
        for name in rows["s"]:
            yield {"text": f"{name} {word}"}
            yield {"text": name}

    settings = {"out": str(tmp_path), "columns": {"text": "str"}, "compression": None}
    dataframe_to_mds(frame, mds_kwargs=settings, udf_iterable=twice, udf_kwargs={"word": "again"})
    assert len(LocalDataset(str(tmp_path))) == 2 * len(ROWS)


def test_columns_of_the_wrong_type_are_named(frame):
    assert infer_dataframe_schema(frame) == {"n": "int32", "s": "str", "d": "str_decimal", "a": "ndarray:int64"}
    for columns, message in [
        ({"m": "str"}, "m is not a column"),
        ({"n": "int64"}, "Mismatched types: column name `n`"),
        ({"n": "strr"}, "strr is not supported"),
        ({"n": "jpeg"}, "Non-binary col n"),
        ({"d": "json"}, "d can not be encoded by MDS JSON"),
    ]:
        with pytest.raises(ValueError, match=message):
            infer_dataframe_schema(frame, columns)
    assert is_json_compatible(spark.MapType(spark.StringType(), spark.ArrayType(spark.IntegerType())))


def test_an_empty_data_frame_is_an_error(frame):
    with pytest.raises(ValueError, match="None or Empty"):
        dataframe_to_mds(frame.limit(0), mds_kwargs={"out": "nowhere"})
    with pytest.raises(ValueError, match="`out`"):
        dataframe_to_mds(frame)
