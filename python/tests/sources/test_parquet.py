"""Parquet and Arrow files as they are: the zoo of `tests/data/parquet`, and the matrix of all sources."""

import base64
import itertools
import json
import pathlib
import shutil

import numpy as np
import pytest
from source_matrix import Case, SourceMatrix, batches, opened

import forebay as fb

DATA = pathlib.Path(__file__).parents[3] / "tests/data/parquet"

ZOO = sorted(path.name for path in DATA.glob("*-*.*") if not path.name.startswith("set-"))

FIELDS = {"id": fb.Scalar("id"), "text": fb.Text("text"), "tokens": fb.Array("tokens")}

_prefixes = itertools.count()


def expected():
    """The rows of the zoo."""

    def read(value):
        if isinstance(value, dict):
            return base64.b64decode(value["base64"]) if value.keys() == {"base64"} else {n: read(v) for n, v in value.items()}
        return value

    return [read(row) for row in json.loads((DATA / "expected.json").read_text())]


def delivered(value):
    """A value of a row of `expected` as the loader delivers it without `fields`."""
    if isinstance(value, dict):
        return value["bytes"] if value.keys() == {"bytes", "path"} else value
    return value


def same(found, value):
    """Compares what the loader delivers with a value of `expected`."""
    value = delivered(value)
    if isinstance(found, str) and not isinstance(value, str):
        return json.loads(found) == value
    if isinstance(value, bytes):
        return bytes(found) == value
    return np.asarray(found).tolist() == value


def rows(batch):
    return [
        (int(number), text, tuple(tokens.tolist()))
        for number, text, tokens in zip(batch["id"], batch["text"], batch["tokens"], strict=True)
    ]


def sample(n):
    return n, f"sample {n} " * (n % 5), tuple(range(n % 7))


@pytest.mark.parametrize("name", ZOO)
def test_all_columns_have_the_values_that_were_written(name):
    whole = expected()
    with fb.Loader(remote=DATA / name, batch_size=len(whole), framework="numpy") as loader:
        batch = next(iter(loader))
    assert set(batch) <= set(whole[0])
    for column, values in batch.items():
        wrong = [n for n, row in enumerate(whole) if not same(values[n], row[column])]
        assert wrong == [], f"{column}: {values[wrong[0]]!r} is not {whole[wrong[0]][column]!r}"


@pytest.mark.parametrize("name", ["pyarrow-snappy.parquet", "polars-zstd.parquet", "duckdb-v2.parquet", "pyarrow-stream.arrow"])
def test_nested_columns_have_paths(name):
    fields = {"c": fb.Text("deep.b.c"), "a": fb.Scalar("deep.a"), "path": fb.Text("image.path"), "image": fb.Bytes("image")}
    with fb.Loader(remote=DATA / name, batch_size=40, fields=fields, framework="numpy") as loader:
        batch = next(iter(loader))
    whole = expected()
    assert batch["c"] == [row["deep"]["b"]["c"] for row in whole]
    assert batch["a"].tolist() == [row["deep"]["a"] for row in whole]
    assert batch["path"] == [row["image"]["path"] for row in whole]
    assert list(map(bytes, batch["image"])) == [row["image"]["bytes"] for row in whole]


@pytest.mark.parametrize(
    ("column", "field", "words"),
    [
        ("some", fb.Scalar, ["null", "column some", "row_group 1", "row 7", "file nulls.parquet"]),
        ("all", fb.Scalar, ["null", "column all", "row_group 0", "row 0"]),
        ("inner", fb.Array, ["null", "column inner", "row_group 2", "row 5"]),
        ("ragged", fb.Array, ["different lengths", "column ragged", "row_group 0", "row 3"]),
        ("none", fb.Scalar, ["nulls cannot be delivered", "column none", "nulls.parquet"]),
        ("blobs", fb.Bytes, ["Binary", "inside of lists", "column blobs"]),
        ("absent", fb.Scalar, ["no such column; there are id, some, all", "column absent", "nulls.parquet"]),
    ],
)
def test_a_value_that_cannot_be_delivered_is_an_error_with_its_place(column, field, words):
    """The other columns of the file can be read."""
    with pytest.raises((fb.Error, ValueError)) as failed:
        with fb.Loader(remote=DATA / "nulls.parquet", batch_size=30, fields={"x": field(column)}, framework="numpy") as loader:
            next(iter(loader))
    assert [word for word in words if word not in str(failed.value)] == []
    with fb.Loader(remote=DATA / "nulls.parquet", batch_size=30, fields={"x": fb.Scalar("id")}, framework="numpy") as loader:
        assert next(iter(loader))["x"].tolist() == list(range(30))


@pytest.mark.parametrize("name", ["pyarrow-snappy.parquet", "pyarrow-stream.arrow"])
def test_a_file_that_is_cut_off_is_an_error_with_its_name(name, tmp_path):
    whole = (DATA / name).read_bytes()
    for length in [0, 3, 8, len(whole) // 2, len(whole) - 1]:
        (tmp_path / name).write_bytes(whole[:length])
        if name.endswith("arrow") and length == len(whole) - 1:
            # The end of a stream has a mark that no reader needs.
            continue
        with pytest.raises(fb.Error, match=name):
            fb.Loader(remote=tmp_path / name, batch_size=4)


class TestParquet(SourceMatrix):
    CACHE_LIMIT = 30_000

    @pytest.fixture
    def case(self, bucket, tmp_path):
        prefix = f"parquet-{next(_prefixes)}"
        (tmp_path / "set").mkdir()
        for path in DATA.glob("set-*.parquet"):
            shutil.copy(path, tmp_path / "set")
            bucket.objects[f"{prefix}/{path.name}"] = path.read_bytes()
        return Case(
            remote=f"{tmp_path}/set/set-{{0,1}}.parquet",
            stored=f"s3://bucket/{prefix}/set-*.parquet",
            options={"fields": FIELDS},
            rows=rows,
            samples=[sample(n) for n in range(1120)],
            object_suffix=".parquet",
        )

    def test_only_the_columns_of_the_fields_are_fetched(self, case, bucket, bucket_environment, tmp_path):
        """A loader of other columns has another folder, the same order, and takes the checkpoint of the first."""
        bytes_of = {}
        shuffled = {"shuffle": True, "shuffle_seed": 3}
        for name, fields in {"id": {"id": fb.Scalar("id")}, "all": FIELDS}.items():
            with fb.Loader(
                remote=case.stored, local=tmp_path / "local", batch_size=8, fields=fields, framework="numpy", **shuffled
            ) as loader:
                if bytes_of:
                    loader.load_state_dict(state)
                found = [batch["id"].tolist() for batch in loader]
                state = loader.state_dict()
                bytes_of[name] = loader.stats()["stages"]["fetch"]["bytes"]
        with opened(case, **shuffled) as loader:
            whole = [[row[0] for row in batch] for _ in range(2) for batch in batches(case, loader)]
        assert found == whole[140:]
        assert bytes_of["id"] < bytes_of["all"] / 2

    def test_a_file_that_was_replaced_is_read_again(self, case, tmp_path):
        with opened(case) as loader:
            first = batches(case, loader)
        shutil.copy(DATA / "set-1.parquet", tmp_path / "set/set-0.parquet")
        with opened(case, remote=f"{tmp_path}/set/set-0.parquet") as loader:
            assert sum(batches(case, loader), []) == [sample(n) for n in range(560, 1120)]
        assert sum(first, []) == case.samples
