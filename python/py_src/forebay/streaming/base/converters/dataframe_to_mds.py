"""Conversion of a Spark data frame to MDS. Every task writes a separate folder; the indexes are merged at the end."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..util import get_import_exception_message
from ..util import merge_index as merge_indexes

try:
    from pyspark.sql import types as spark
except ImportError as error:
    error.msg = get_import_exception_message("spark", "spark")
    raise

from ..format.index import get_index_basename
from ..storage.upload import CloudUploader

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame

__all__ = ["SPARK_TO_MDS", "dataframe_to_mds", "infer_dataframe_schema", "is_json_compatible"]

logger = logging.getLogger(__name__)

SPARK_TO_MDS: dict[spark.DataType, str | None] = {
    spark.ByteType(): "uint8",
    spark.ShortType(): "uint16",
    spark.IntegerType(): "int32",
    spark.LongType(): "int64",
    spark.FloatType(): "float32",
    spark.DoubleType(): "float64",
    spark.DecimalType(): "str_decimal",
    spark.StringType(): "str",
    spark.BinaryType(): "bytes",
    spark.BooleanType(): None,
    spark.TimestampType(): None,
    spark.TimestampNTZType(): None,
    spark.DateType(): None,
    spark.DayTimeIntervalType(): None,
    spark.ArrayType(spark.IntegerType()): "ndarray:int32",
    spark.ArrayType(spark.ShortType()): "ndarray:int16",
    spark.ArrayType(spark.LongType()): "ndarray:int64",
    spark.ArrayType(spark.FloatType()): "ndarray:float32",
    spark.ArrayType(spark.DoubleType()): "ndarray:float64",
}
"""Encoding of each Spark type; None: not supported."""

_JSON_LEAVES = (spark.StringType, spark.IntegerType, spark.FloatType, spark.BooleanType, spark.NullType)
_FILES = ("pil", "png", "jpeg", "pkl")
_ENCODINGS = frozenset(filter(None, SPARK_TO_MDS.values()))


def is_json_compatible(data_type: Any) -> bool:
    """Returns true if JSON can represent every value of a Spark type."""
    if isinstance(data_type, spark.StructType):
        return all(is_json_compatible(field.dataType) for field in data_type.fields)
    if isinstance(data_type, spark.ArrayType):
        return is_json_compatible(data_type.elementType)
    if isinstance(data_type, spark.MapType):
        return is_json_compatible(data_type.keyType) and is_json_compatible(data_type.valueType)
    return isinstance(data_type, _JSON_LEAVES)


def _encoding_of(data_type: spark.DataType) -> str:
    # Decimals of all precisions have the same encoding.
    key = spark.DecimalType() if isinstance(data_type, spark.DecimalType) else data_type
    encoding = SPARK_TO_MDS.get(key)
    if encoding is None:
        raise ValueError(f"{data_type} is not supported by dataframe_to_mds")
    return encoding


def infer_dataframe_schema(
    dataframe: DataFrame, user_defined_cols: dict[str, str] | None = None
) -> dict[str, str] | None:
    """Returns the columns of a data frame with their encodings, or checks the given encodings.

    Args:
        dataframe: The data frame.
        user_defined_cols: Encodings by column to check.

    Returns:
        The encodings by column; None if they were given.

    Raises:
        ValueError: A column is missing, has no encoding, or does not match the given encoding.
    """
    if user_defined_cols is None:
        return {field.name: _encoding_of(field.dataType) for field in dataframe.schema}
    for name, encoding in user_defined_cols.items():
        if name not in dataframe.columns:
            raise ValueError(f"{name} is not a column of input dataframe: {dataframe.columns}")
        _check(name, encoding, dataframe.schema[name].dataType)
    return None


def _check(name: str, encoding: str, data_type: spark.DataType) -> None:
    """Checks that a column's values fit an encoding."""
    # The dtype of an array must match; its shape may be any.
    encoding = ":".join(encoding.split(":")[:2])
    if encoding == "json":
        if not is_json_compatible(data_type):
            raise ValueError(f"{name} can not be encoded by MDS JSON.")
    elif encoding in _FILES:
        if not isinstance(data_type, spark.BinaryType):
            raise ValueError(f"Non-binary col {name} cannot encode as {encoding}.")
    elif encoding not in _ENCODINGS:
        raise ValueError(f"{encoding} is not supported by dataframe_to_mds")
    elif encoding != _encoding_of(data_type):
        raise ValueError(
            f"Mismatched types: column name `{name}` is `{_encoding_of(data_type)}` in DataFrame but `{encoding}` in "
            "user_defined_cols"
        )


def dataframe_to_mds(
    dataframe: DataFrame,
    merge_index: bool = True,
    mds_kwargs: dict[str, Any] | None = None,
    udf_iterable: Callable[..., Iterable[dict[str, Any]]] | None = None,
    udf_kwargs: dict[str, Any] | None = None,
) -> tuple[str, str]:
    """Writes a data frame as MDS, one folder per task.

    Args:
        dataframe: The data frame.
        merge_index: Write an index of all folders.
        mds_kwargs: `MDSWriter`'s arguments. `out` is required; `columns` is optional without `udf_iterable`; the
            default compression is zstd.
        udf_iterable: Function that makes samples of each pandas data frame of a task. None: its rows.
        udf_kwargs: Further arguments of `udf_iterable`.

    Returns:
        The local and the remote folder; "" for none.

    Raises:
        ValueError: The data frame is empty, `out` or required `columns` are missing, or a column does not fit.
    """
    if dataframe is None or dataframe.isEmpty():
        raise ValueError("Input dataframe is None or Empty!")
    settings = {"compression": "zstd", **(mds_kwargs or {})}
    if "out" not in settings:
        raise ValueError("`out` and `columns` need to be specified in `mds_kwargs`")
    if udf_iterable is not None:
        if "columns" not in settings:
            raise ValueError("If udf_iterable is specified, user must provide correct `columns` in the mds_kwargs")
    elif "columns" in settings:
        infer_dataframe_schema(dataframe, settings["columns"])
    else:
        settings["columns"] = infer_dataframe_schema(dataframe)
        logger.warning("columns are not given and are inferred as %s", settings["columns"])

    out = settings.pop("out")
    uploader = CloudUploader.get(out)
    folders = (uploader.local, uploader.remote or "")
    if uploader.remote is None:
        logger.warning("%s is local: it must be the same folder on every executor", uploader.local)
    # The indexes are merged in the folder where they were written.
    settings["keep_local"] = settings.get("keep_local", False) or merge_index

    schema = spark.StructType(
        [spark.StructField(name, spark.StringType(), False) for name in ("mds_path_local", "mds_path_remote")]
    )
    task = _task(folders, settings, udf_iterable, udf_kwargs or {})
    written = [tuple(row) for row in dataframe.mapInPandas(task, schema).collect()]

    # A local folder without a remote is the only copy. Next to a remote it is removed only on request.
    keep_local = uploader.remote is None or bool((mds_kwargs or {}).get("keep_local", True))
    if merge_index:
        merge_indexes(written, out, keep_local=keep_local)
    if not keep_local:
        shutil.rmtree(uploader.local, ignore_errors=True)
    return folders


def _task(
    folders: tuple[str, str],
    settings: dict[str, Any],
    udf_iterable: Callable[..., Iterable[dict[str, Any]]] | None,
    udf_kwargs: dict[str, Any],
) -> Callable[[Iterator[pandas.DataFrame]], Iterator[pandas.DataFrame]]:
    """Returns the function of each task: it writes its rows below `folders` and yields the path of its index."""

    def write(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
        import pandas
        from pyspark import TaskContext

        from forebay.streaming import MDSWriter

        name = str(TaskContext.get().taskAttemptId())
        local, remote = (os.path.join(folder, name) if folder else "" for folder in folders)
        with MDSWriter(out=(local, remote) if remote else local, **settings) as writer:
            for frame in frames:
                records = frame.to_dict("records") if udf_iterable is None else udf_iterable(frame, **udf_kwargs)
                for sample in records:
                    writer.write(sample)
        index = get_index_basename()
        paths = {
            "mds_path_local": [os.path.join(local, index)],
            "mds_path_remote": [os.path.join(remote, index) if remote else ""],
        }
        yield pandas.DataFrame(paths)

    return write
