"""Units of times in tables: files with different units are refused before a batch mixes them."""

import pathlib
import shutil

import pytest

import forebay as fb

UNITS = pathlib.Path(__file__).parents[3] / "tests/data/parquet/units"


def folder(tmp_path, *units):
    for unit in units:
        shutil.copy(UNITS / f"{unit}.parquet", tmp_path)
    return str(tmp_path)


def refused(pattern, **arguments):
    with pytest.raises(fb.ConfigError, match="times of different units in two files: write both with one unit") as caught:
        fb.Loader(batch_size=2, framework="numpy", **arguments)
    assert all(part in str(caught.value) for part in pattern), caught.value


@pytest.mark.parametrize(
    ("field", "other"),
    [
        (fb.Scalar("time"), "us"),
        (fb.Scalar("zoned"), "ns"),
        (fb.Scalar("span"), "us"),
        (fb.Scalar("day", dtype="int64"), "us"),
        (fb.Array("times"), "us"),
        (fb.Scalar("event.at"), "us"),
    ],
    ids=["time", "zone", "span", "day", "list", "struct"],
)
def test_a_column_of_two_units_is_an_error_that_names_both_files(field, other, tmp_path):
    refused(["ms.parquet", f"{other}.parquet"], remote=folder(tmp_path, "ms", other), fields={"x": field})


def test_two_streams_of_different_units_are_an_error():
    streams = [fb.Stream(remote=str(UNITS / f"{unit}.parquet")) for unit in ("ms", "ns")]
    refused(["ms.parquet", "ns.parquet", "column time"], streams=streams, fields={"x": fb.Scalar("time")})


def test_a_filter_compares_numbers_of_one_unit(tmp_path):
    remote = folder(tmp_path, "ms", "us")
    streams = [fb.Stream(remote=remote, select=fb.Select(filter="time > 1577934244000"))]
    refused(["column time"], streams=streams, fields={"x": fb.Scalar("number")})


def test_all_columns_are_read_without_fields(tmp_path):
    refused(["ms.parquet"], remote=folder(tmp_path, "ms", "us"))


def test_columns_that_are_not_read_may_differ(tmp_path):
    remote = folder(tmp_path, "ms", "us", "ns")
    with fb.Loader(remote=remote, batch_size=6, framework="numpy", fields={"n": fb.Scalar("number")}) as loader:
        assert next(iter(loader))["n"].tolist() == [1, 2] * 3


def test_zones_of_one_unit_are_the_same_instants(tmp_path):
    fields = {"x": fb.Scalar("zoned")}
    with fb.Loader(remote=folder(tmp_path, "ms", "us"), batch_size=4, framework="numpy", fields=fields) as loader:
        assert set(next(iter(loader))["x"].tolist()) == {1577934245000000}


def test_a_reader_of_samples_refuses_two_units(tmp_path):
    with pytest.raises(fb.ConfigError, match="times of different units in two files"):
        fb.ShardReader(folder(tmp_path, "ms", "us"))
