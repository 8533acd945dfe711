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
    """Compares a delivered value with a value of `expected`."""
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
        ("inner", fb.Array, ["null", "field x", "row_group 2", "row_in_group 5"]),
        ("ragged", fb.Array, ["different lengths", "field x", "row_group 0", "row_in_group 3"]),
        ("none", fb.Scalar, ["nulls cannot be delivered", "column none", "nulls.parquet"]),
        ("absent", fb.Scalar, ["no such column; there are id, some, all", "column absent", "nulls.parquet"]),
    ],
)
def test_a_value_that_cannot_be_delivered_is_an_error_with_its_position(column, field, words):
    """The remaining columns of the file can be read."""
    with pytest.raises((fb.Error, ValueError)) as failed:
        with fb.Loader(remote=DATA / "nulls.parquet", batch_size=30, fields={"x": field(column)}, framework="numpy") as loader:
            next(iter(loader))
    assert [word for word in words if word not in str(failed.value)] == []
    with fb.Loader(remote=DATA / "nulls.parquet", batch_size=30, fields={"x": fb.Scalar("id")}, framework="numpy") as loader:
        assert next(iter(loader))["x"].tolist() == list(range(30))


def test_a_column_of_nulls_is_as_good_as_none(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    def found(name, tables, field):
        (tmp_path / name).mkdir()
        for number, table in enumerate(tables):
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
        with fb.Loader(remote=tmp_path / name, batch_size=1, fields={"v": field}, framework="numpy") as loader:
            return [batch["v"][0] for batch in loader]

    empty, nulls = pa.table({"v": pa.array([], pa.null())}), pa.table({"v": pa.array([None], pa.null())})
    numbers, texts = pa.table({"v": [1, 2]}), pa.table({"v": ["a"]})
    assert found("empty", [numbers, empty], fb.Scalar("v")) == [1, 2]
    assert found("first", [empty, numbers], fb.Scalar("v")) == [1, 2]
    assert found("nulls", [texts, nulls], fb.Text("v", default="-")) == ["a", "-"]
    with pytest.raises(fb.UnsupportedError, match="column of nulls.*`default`"):
        found("error", [texts, nulls], fb.Text("v"))


def test_a_column_that_cannot_be_delivered_does_not_block_the_rest(caplog):
    fb.Loader(remote=DATA / "nulls.parquet", batch_size=10, framework="numpy").close()
    assert "nulls.parquet: columns are left out, because batches cannot have values of their types: none" in caplog.text


def test_lists_are_documents_for_fields_of_text():
    """Those of different lengths are no arrays. A loader of arrays before has its copies of the same rows."""
    path = DATA / "nulls.parquet"
    with fb.Loader(remote=path, batch_size=30, fields={"x": fb.Array("inner"), "n": fb.Scalar("id")}, framework="numpy") as loader:
        with pytest.raises(fb.DecodeError, match="null"):
            next(iter(loader))
    fields = {"x": fb.Text("ragged"), "y": fb.Json("ragged", "[0][0]", "int64"), "inner": fb.Text("inner")}
    with fb.Loader(remote=path, batch_size=30, fields=fields, framework="numpy") as loader:
        batch = next(iter(loader))
    expected = [[[1], [2, n]] if n == 3 else [[n]] for n in range(30)]
    assert [json.loads(text) for text in batch["x"]] == expected
    assert batch["y"].tolist() == [lists[0][0] for lists in expected]
    assert [json.loads(text) for text in batch["inner"]] == [[n, None] if n == 25 else [n] for n in range(30)]
    for field in (fb.Text("tokens"), fb.Array("tokens"), fb.Text("tokens")):
        with fb.Loader(remote=DATA / "set-0.parquet", batch_size=9, fields={"x": field}, framework="numpy") as loader:
            found = [json.loads(row) if isinstance(row, str) else row.tolist() for row in next(iter(loader))["x"]]
        assert found == [list(range(n % 7)) for n in range(9)]


def test_rows_of_a_folder_are_read_by_their_numbers(tmp_path):
    for path in DATA.glob("set-*.parquet"):
        shutil.copy(path, tmp_path)
    reader = fb.ShardReader(tmp_path)
    found = [(int(row["id"]), row["text"], tuple(row["tokens"].tolist())) for row in reader]
    assert found == [sample(n) for n in range(1120)]


def with_nulls(count=90):
    """Rows of all kinds of columns, each null in some of them."""
    values = {
        "n": lambda i: i,
        "x": lambda i: i / 4,
        "ok": lambda i: i % 2 == 0,
        "text": lambda i: "t" * (i % 3),
        "blob": lambda i: bytes([i]) * (i % 4),
        "ids": lambda i: list(range(1 + i % 5)),
        "deep": lambda i: None if i % 7 == 3 else {"a": i, "b": None if i % 5 == 2 else f"b{i}"},
    }
    return [
        {"id": i} | {name: None if (i + place) % 4 == 1 else value(i) for place, (name, value) in enumerate(values.items())}
        for i in range(count)
    ]


NULL_FIELDS = {
    "id": fb.Scalar("id"),
    "n": fb.Scalar("n", "int64", default=-1),
    "x": fb.Scalar("x", "float32", default=-0.5),
    "ok": fb.Scalar("ok", "uint8", default=7),
    "text": fb.Text("text", default="none"),
    "blob": fb.Bytes("blob", default=b"none"),
    "ids": fb.Array("ids", "int32", default=[-1, -2]),
    "b": fb.Text("deep.b", default="none"),
}


def null_rows(remote, ranks=1, **more):
    """The rows of each step of all ranks."""
    parts = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with fb.Loader(remote=remote, batch_size=8 // ranks, fields=NULL_FIELDS, framework="numpy", world=world, **more) as loader:
            parts.append([
                [[np.asarray(batch[name][i]).tolist() if name != "blob" else bytes(batch[name][i]) for name in NULL_FIELDS]
                 for i in range(len(batch["id"]))] for batch in loader
            ])
    return [sorted(sum(step, [])) for step in zip(*parts, strict=True)]


@pytest.mark.parametrize("name", ["0.feather", "0.ipc", "0.arrows"])
@pytest.mark.parametrize("file", ["pyarrow-file-lz4.arrow", "pyarrow-file-zstd.arrow", "pyarrow-stream.arrow"])
def test_further_names_of_arrow_files_are_known(file, name, tmp_path):
    shutil.copy(DATA / file, tmp_path / name)
    fields = {"id": fb.Scalar("id")}
    with fb.Loader(remote=DATA / file, batch_size=40, fields=fields, framework="numpy") as loader:
        expected = next(iter(loader))["id"].tolist()
    for remote in (tmp_path / name, tmp_path):
        with fb.Loader(remote=remote, batch_size=40, fields=fields, framework="numpy") as loader:
            assert next(iter(loader))["id"].tolist() == expected


def test_the_footer_of_an_arrow_file_counts_and_not_its_front(tmp_path):
    whole = (DATA / "pyarrow-file-dictionary.arrow").read_bytes()
    fields = {"id": fb.Scalar("id"), "kind": fb.Text("kind")}
    found = []
    # A front that is damaged, and a file without a footer.
    for number, content in enumerate([whole, whole[:16] + b"\xff" * 8 + whole[24:], whole[:-12]]):
        (tmp_path / f"{number}.arrow").write_bytes(content)
        with fb.Loader(remote=tmp_path / f"{number}.arrow", batch_size=40, fields=fields, framework="numpy") as loader:
            batch = next(iter(loader))
            found.append((batch["id"].tolist(), batch["kind"]))
    assert found == [([row["id"] for row in expected()], [row["kind"] for row in expected()])] * 3


def test_feather_files_of_version_1_are_an_error(tmp_path):
    (tmp_path / "0.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    with pytest.raises(fb.UnsupportedError, match="version 1 of Feather.*version=2"):
        fb.Loader(remote=tmp_path / "0.feather", batch_size=1)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_null_has_the_default_of_the_field_on_every_rank(suffix, tmp_path, bucket, bucket_environment):
    pa, pq, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    whole = with_nulls(96)
    prefix = f"nulls-{suffix}"
    for number in range(2):
        table = pa.Table.from_pylist(whole[48 * number : 48 * (number + 1)])
        if number:
            # The second file lacks a column.
            table = table.drop_columns(["n"])
        path = tmp_path / f"{number}.{suffix}"
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=10)
        else:
            with ipc.new_stream(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=10)
        bucket.objects[f"{prefix}/{path.name}"] = path.read_bytes()
    expected = []
    for row in whole:
        deep = row["deep"] or {}
        n = None if row["id"] >= 48 else row["n"]
        values = [row["id"], n, row["x"], row["ok"], row["text"], row["blob"], row["ids"], deep.get("b")]
        defaults = [0, -1, -0.5, 7, "none", b"none", [-1, -2], "none"]
        expected.append([default if value is None else value for value, default in zip(values, defaults, strict=True)])
    remote = f"{tmp_path}/{{0,1}}.{suffix}"
    assert sorted(sum(null_rows(remote), [])) == sorted(expected)
    shuffled = {"shuffle": True, "order": fb.Order(num_canonical_nodes=1)}
    steps = null_rows(remote, **shuffled)
    for ranks in (2, 4):
        assert null_rows(remote, ranks, **shuffled) == steps
    assert null_rows(f"s3://bucket/{prefix}/*.{suffix}", **shuffled) == steps
    for column in ("n", "x"):
        with pytest.raises(fb.Error, match="null|no such column"):
            with fb.Loader(remote=remote, batch_size=8, fields={"v": fb.Scalar(column)}) as loader:
                list(loader)
    with pytest.raises(fb.DecodeError, match="does not have the value.*column x"):
        fields = {"n": fb.Scalar("n", default=0), "x": fb.Scalar("x")}
        with fb.Loader(remote=remote, batch_size=8, fields=fields) as loader:
            list(loader)
    with pytest.raises(fb.ConfigError, match="no such column"):
        fb.Loader(remote=remote, batch_size=8, fields={"v": fb.Scalar("absent", default=0)})


@pytest.fixture(params=["parquet", "arrow"])
def some_nulls(request, tmp_path):
    """A file with nulls in several columns, in groups of 4 rows, and its rows."""
    pa, pq, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    whole = [
        {"id": i, "text": None if i % 5 == 1 else "t" * i, "x": None if i % 7 == 3 else i / 2, "ids": None if i == 6 else [i, -i]}
        for i in range(16)
    ]
    path, table = tmp_path / f"some.{request.param}", pa.Table.from_pylist(whole)
    if request.param == "parquet":
        pq.write_table(table, path, row_group_size=4)
    else:
        with ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=4)
    return path, whole


def test_a_row_is_read_by_its_number_with_its_nulls(some_nulls):
    path, whole = some_nulls
    reader = fb.ShardReader(path)
    found = [{name: value.tolist() if hasattr(value, "tolist") else value for name, value in row.items()} for row in reader]
    assert found == whole
    assert all(row["x"] is None for row in (reader[3], reader[10]))


def test_empty_lists_and_documents_are_no_nulls_of_a_row():
    found = [(row["id"], row["some"], row["struct"], row["flat"]) for row in fb.ShardReader(DATA / "presence.parquet")]
    assert found == [(0, [], {"a": None}, None), (1, None, None, None), (2, [], {"a": None}, None)]


@pytest.mark.parametrize("named", [True, False], ids=["fields", "all"])
def test_rows_with_a_null_are_left_out_with_further_bad_samples(some_nulls, named, caplog):
    path, whole = some_nulls
    fields = {"id": fb.Scalar("id"), "text": fb.Text("text"), "ids": fb.Array("ids")} if named else None
    needed = ["text", "ids"] if named else ["text", "ids", "x"]
    options = {"remote": path, "fields": fields, "batch_size": 4, "framework": "numpy"}
    with fb.Loader(**options, skip=fb.Skip(errors=16)) as loader:
        rows = list(loader)
        assert sorted(rows[0]) == sorted(fields or whole[0])
        assert loader.stats()["counters"]["samples_skipped"] == sum(any(row[name] is None for name in needed) for row in whole)
    kept = [int(number) for batch in rows for number in batch["id"]]
    assert kept == [row["id"] for row in whole if all(row[name] is not None for name in needed)]
    assert f"file {path.name}, row_group 0, row_in_group 1" in caplog.text and "column text" in caplog.text
    with fb.Loader(**options, skip=fb.Skip(errors=1)) as loader:
        with pytest.raises(fb.DecodeError, match=r"column \w+.*row_group \d, row_in_group \d.*skip.errors 1"):
            list(loader)
    with fb.Loader(**options) as loader, pytest.raises(fb.FormatError, match="is null.*(row_group|batch) 0, row 1"):
        list(loader)


def test_rows_with_a_null_in_any_column_are_not_in_the_plan_without_fields(some_nulls):
    path, whole = some_nulls
    with fb.Loader(remote=path, batch_size=1, skip=fb.Skip(missing=True), framework="numpy") as loader:
        found = [int(batch["id"][0]) for batch in loader]
    assert found == [row["id"] for row in whole if None not in row.values()]


def test_values_without_bounds_are_not_read_for_nulls_that_the_file_has_not(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names, rows = ["picture", "a`b", *(f"c{number}" for number in range(1100))], 12

    def written(name, last):
        columns = {column: pa.array([b"x" * 2000 if column == "picture" else b"x"] * (rows - 1) + last) for column in names}
        pq.write_table(pa.table({"id": pa.array(range(rows)), **columns}), tmp_path / name)

    def opened():
        with fb.Loader(remote=tmp_path / "*.parquet", batch_size=1, skip=fb.Skip(missing=True), framework="numpy") as loader:
            counters = loader.stats()["counters"]
            return len(loader), counters.get("filter_shards_read", 0), counters.get("filter_shards_skipped", 0)

    written("0.parquet", [b"x"])
    assert opened() == (rows, 0, 0)
    written("1.parquet", [None])
    kept, read, skipped = opened()
    assert (kept, read - skipped, skipped) == (2 * rows - 1, 1, 1)


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
        """A loader of different columns has its own folder, the same order, and takes the checkpoint of the first."""
        bytes_of = {}
        shuffled = {"shuffle": True, "seed": 3}
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


def test_a_column_with_the_name_of_the_list_of_fields_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"__fields__": [1, 2], "a": [3, 4]}), tmp_path / "0.parquet")
    with pytest.raises(fb.UnsupportedError, match="leave the column out.*column __fields__"):
        fb.Loader(remote=tmp_path / "0.parquet", batch_size=1, fields={"a": fb.Scalar("__fields__")})
    with fb.Loader(remote=tmp_path / "0.parquet", batch_size=2, fields={"a": fb.Scalar("a", default=0)}) as loader:
        assert next(iter(loader))["a"].tolist() == [3, 4]
