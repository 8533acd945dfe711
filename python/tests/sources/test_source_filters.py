"""Filters of sources that are read as they are: the samples that SQLite keeps of the same values."""

import io
import json
import math
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tarfile

import litdata.streaming
import pytest
import torch
from tf_examples import example, record

import forebay as fb

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet"

ROWS = [
    {
        "number": n,
        "small": None if n % 11 == 3 else n * 37 % 100 - 50,
        "ratio": None if n % 13 == 4 else n / 8 - 3,
        "word": None if n % 7 == 5 else ["cat", "dog", "it's", "Ünder", "", "and"][n % 6],
    }
    for n in range(96)
]

CONDITIONS = [
    "small < 10",
    "not small < 10",
    "small != 3 and ratio >= 0.5",
    "small is null or word = 'cat'",
    "word is not null and not (word in ('dog', 'and') or small > 20)",
    "small in (1, 2, 3, -13, -50, 24) or word not in ('cat', '')",
    "small > ratio",
    "word < 'd' and number < 50",
    "word > 'Z'",
    "number = 17 or ratio is null and small is not null",
]


def expected(condition, rows=ROWS, table="number integer, small integer, ratio real, word text"):
    """Numbers of the rows that SQLite keeps."""
    database = sqlite3.connect(":memory:")
    database.execute(f"create table t ({table})")
    names = [column.split()[0] for column in table.split(", ")]
    database.executemany(f"insert into t values ({', '.join(':' + name for name in names)})", rows)
    query = f"select number from t where {condition} order by number"
    return [number for (number,) in database.execute(query)]


def kept(remote, condition, field, **options):
    with fb.Loader(
        remote=remote, select=fb.Select(filter=condition), fields={"n": field}, batch_size=5, framework="numpy", **options
    ) as loader:
        return [int(n) for batch in loader for n in batch["n"]]


def write_tar(path, samples):
    """Writes pairs of a key and the contents of its fields."""
    with tarfile.open(path, "w") as tar:
        for key, fields in samples:
            for name, content in fields.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def tar_sample(row):
    """A sample without the fields that are absent, and with all values in its document."""
    fields = {"jpg": b"\xff\xd8" * 20_000 if row["number"] % 3 else b"\xff\xd8", "json": json.dumps(row).encode()}
    if row["small"] is not None:
        fields["cls"] = b"%d\n" % row["small"]
    if row["word"] is not None:
        fields["txt"] = row["word"].encode()
    return f"{row['number']:04}", fields


@pytest.fixture
def tars(tmp_path):
    for shard in range(4):
        write_tar(tmp_path / f"{shard}.tar", map(tar_sample, ROWS[24 * shard : 24 * shard + 24]))
    return f"{tmp_path}/{{0..3}}.tar"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_tars_are_filtered_by_paths_into_their_documents(tars, condition):
    in_documents = re.sub(r"\b(number|small|ratio)\b", r"json.\1", re.sub(r"\bword\b", "`json.word`", condition))
    assert kept(tars, in_documents, fb.Json("json", "number", dtype="int64")) == expected(condition)


def test_tars_are_filtered_by_their_fields_and_keys(tars):
    number = fb.Json("json", "number", dtype="int64")
    for condition, same in [
        ("cls < 10", "small < 10"),
        ("cls is null", "small is null"),
        ("txt in ('cat', \"it's\") and not cls >= 0", "word in ('cat', 'it''s') and not small >= 0"),
        ("__key__ >= '0090' or txt == ''", "number >= 90 or word = ''"),
        ("`cls` <= json.number", "small <= number"),
    ]:
        assert kept(tars, condition, number) == expected(same), condition
    for condition, message in [
        ("class < 3", "there is no column `class`; of numbers and text there are __key__, cls, json.*txt"),
        ("jpg == 'x'", "at character 1, before `jpg == 'x'`: the column `jpg` is jpeg"),
        ("json == 'x'", "the column `json` has documents: write a path"),
        ("cls == '3'", "a number is compared with text"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            kept(tars, condition, number)


def test_a_value_of_a_tar_that_is_none_is_an_error_with_its_position(tmp_path):
    write_tar(tmp_path / "0.tar", [("a", {"cls": b"1"}), ("b", {"cls": b"one"})])
    with pytest.raises(fb.Error) as failed:
        kept(tmp_path / "0.tar", "cls == 1", fb.Scalar("cls"))
    assert [word for word in ["`one` is not an int", "column cls", "sample 1", "0.tar"] if word not in str(failed.value)] == []


def test_tars_of_a_bucket_are_filtered_once(tars, bucket, bucket_environment, tmp_path):
    for shard in range(4):
        bucket.objects[f"filtered/{shard}.tar"] = (tmp_path / f"{shard}.tar").read_bytes()
    remote, number = "s3://bucket/filtered/{0..3}.tar", fb.Json("json", "number", dtype="int64")
    local = tmp_path / "local"
    assert kept(remote, "cls < 10", number, local=local) == expected("small < 10")
    bucket.seen.clear()
    assert kept(remote, "cls < 10", number, local=local) == expected("small < 10")
    assert [request.key for request in bucket.seen if request.key.endswith(".tar")] == []


def sets():
    """Rows of the files `set-*.parquet`."""
    return [{"number": n, "text": f"sample {n} " * (n % 5)} for n in range(1120)]


SET_CONDITIONS = [
    ("id < 10 or id >= 1100", "number < 10 or number >= 1100"),
    ("text == ''", "text = ''"),
    ("id in (3, 700, 5000) or text > 'sample 99'", "number in (3, 700, 5000) or text > 'sample 99'"),
    ("not id != 1119", "not number != 1119"),
]


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_parquet_is_filtered_by_columns_that_no_field_has(where, bucket, bucket_environment, tmp_path):
    for path in PARQUET.glob("set-*.parquet"):
        bucket.objects[f"filtered-set/{path.name}"] = path.read_bytes()
    remote = f"{PARQUET}/set-{{0,1}}.parquet" if where == "folder" else "s3://bucket/filtered-set/set-*.parquet"
    for condition, same in SET_CONDITIONS:
        rows = expected(same, sets(), "number integer, text text")
        for ranks in (1, 2):
            found = []
            for rank in range(ranks):
                world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
                found += kept(remote, condition, fb.Scalar("id"), order=fb.Order(num_canonical_nodes=1), world=world)
            assert sorted(set(found)) == rows and len(found) < len(rows) + ranks, condition


def test_of_parquet_the_columns_of_the_filter_are_read_once(bucket, bucket_environment, tmp_path):
    for path in PARQUET.glob("set-*.parquet"):
        bucket.objects[f"filtered-once/{path.name}"] = path.read_bytes()
    remote = "s3://bucket/filtered-once/set-*.parquet"
    whole = sum(len(body) for key, body in bucket.objects.items() if key.startswith("filtered-once/"))
    options = {"remote": remote, "fields": {"tokens": fb.Array("tokens")}, "batch_size": 4, "local": tmp_path / "local"}
    with fb.Loader(select=fb.Select(filter="id < 3"), **options) as loader:
        assert loader.stats()["counters"]["filter_shards_read"] > 1
        assert loader.stats()["stages"]["fetch"]["bytes"] < whole / 4
        assert sum(len(batch["tokens"]) for batch in loader) == 3
    with fb.Loader(select=fb.Select(filter="id < 3"), **options) as loader:
        assert "filter_shards_read" not in loader.stats()["counters"]
        assert loader.stats()["stages"]["fetch"]["bytes"] == 0


def test_row_groups_are_skipped_by_their_statistics(bucket, bucket_environment, tmp_path):
    """Nine files of 100 rows: numbers that rise from file to file, with nulls in one file and NaN in a second one."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = []
    for file in range(9):
        part = [
            {
                "number": 100 * file + n,
                "small": None if file == 3 and n % 2 else file,
                "ratio": math.nan if file == 5 and n == 7 else file / 2,
                "word": f"{'abcdefghi'[file]}{n:02}",
            }
            for n in range(100)
        ]
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(part), out, row_group_size=30)
        bucket.objects[f"statistics/{file}.parquet"] = out.getvalue()
        rows += part
    # A NaN is a null in SQLite.
    numbers = {row["number"]: row["ratio"] for row in rows}
    for number, (condition, read) in enumerate([
        ("number >= 350", 1),
        ("number in (5, 205)", 2),
        ("small < 4", 1),
        ("not small = 3", 0),
        ("small is null", 1),
        ("small is not null and number < 900", 1),
        ("word >= 'c50' and word < 'd'", 1),
        ("word != 'zzz'", 0),
        ("ratio >= 2.25", 4),
        ("number < 0 or small < 1", 0),
    ]):
        local = tmp_path / str(number)
        with fb.Loader(
            remote="s3://bucket/statistics/*.parquet",
            select=fb.Select(filter=condition.replace(" = ", " == ")),
            batch_size=5,
            local=local,
            fields={"n": fb.Scalar("number")},
            framework="numpy",
        ) as loader:
            counters = loader.stats()["counters"]
            found = [int(n) for batch in loader for n in batch["n"]]
        table = "number integer, small integer, ratio real, word text"
        assert found == expected(condition, [row | {"ratio": None if row["ratio"] != row["ratio"] else row["ratio"]} for row in rows], table), condition
        assert counters["filter_shards_read"] == 9, condition
        assert 9 - counters["filter_shards_skipped"] == read, condition
    with_nan = kept("s3://bucket/statistics/*.parquet", "not ratio >= 0", fb.Scalar("number"), local=tmp_path / "nan")
    assert with_nan == [number for number, ratio in numbers.items() if math.isnan(ratio)]


def test_text_and_keys_with_special_characters_are_compared(tmp_path):
    words = ["a\nb", "a\\nb", "tab\there", 'quo"te', "it's", ""]
    rows = [{"number": n, "word": words[n % len(words)], "dotted": n % 3} for n in range(24)]
    write_tar(tmp_path / "0.tar", [(f"{r['number']:02}", {"json": json.dumps({"number": r["number"], "a.b": {"c]": r["dotted"]}}).encode(),
                                                         "txt": r["word"].encode()}) for r in rows])
    number, table = fb.Json("json", "number", dtype="int64"), "number integer, word text, dotted integer"
    for ours, same in [
        (r"txt == 'a\nb'", "word = 'a' || char(10) || 'b'"),
        (r"txt == 'a\\nb'", r"word = 'a\nb'"),
        (r"txt in ('tab\there', 'quo\"te', 'it\'s')", "word in ('tab' || char(9) || 'here', 'quo\"te', 'it''s')"),
        ('`json["a.b"]["c]"]` == 2 and txt != ""', "dotted = 2 and word != ''"),
        ("txt not in ()", "word not in ()"),
        ("(txt in () or txt not in ()) and json.number < 3", "number < 3"),
    ]:
        assert kept(tmp_path / "0.tar", ours, number) == expected(same, rows, table), ours
    with pytest.raises(fb.ConfigError, match=r"at character 10, before .*write a backslash twice"):
        kept(tmp_path / "0.tar", r"txt == 'a\d'", number)


def zoo_rows():
    """Rows of the zoo, as far as SQLite has such values."""
    rows = json.loads((PARQUET / "expected.json").read_text())
    return [
        {
            "number": row["id"],
            "small": row["small"],
            "flag": int(row["flag"]),
            "double": row["double"],
            "price": float(row["price"]),
            "text": row["text"],
            "day": row["day"],
            "moment": row["at"],
            "deep": row["deep"]["a"],
            "c": row["deep"]["b"]["c"],
            "path": row["image"]["path"],
        }
        for row in rows
    ]


@pytest.mark.parametrize("name", ["pyarrow-snappy.parquet", "polars-zstd.parquet", "duckdb-v2.parquet", "pyarrow-stream.arrow"])
def test_columns_of_all_types_are_compared(name):
    table = "number integer, small integer, flag integer, double real, price real, text text, day integer, moment integer, "
    rows, table = zoo_rows(), table + "deep integer, c text, path text"
    middle = rows[20]
    for condition in [
        "small < -15 and flag = true",
        "double >= 0.25 or price < -1.5",
        f"day > {middle['day']} and text <> ''".replace("<>", "!="),
        f"moment <= {middle['moment']}",
        "deep >= 5 and c != '7'",
        "path in ('3.jpg', '4.jpg')",
    ]:
        ours = condition.replace("moment", "at").replace("deep", "deep.a").replace("c !=", "deep.b.c !=").replace("path", "image.path")
        found = expected(condition, rows, table)
        assert found, condition
        assert kept(PARQUET / name, ours, fb.Scalar("id")) == found, condition


def test_nulls_of_parquet_are_absent():
    file = PARQUET / "nulls.parquet"
    rows = [{"number": n, "some": None if n == 17 else n} for n in range(30)]
    for condition in ["some >= 15", "not some >= 15", "some is null", "some is not null and some > 3", "some != 3 or number = 17"]:
        ours = condition.replace("number", "id")
        assert kept(file, ours, fb.Scalar("id")) == expected(condition, rows, "number integer, some integer"), condition
    with pytest.raises(fb.ConfigError, match="no sample of the stream is kept by filter="):
        kept(file, "all == all", fb.Scalar("id"))
    for condition, message in [
        ("absent < 3", "at character 1, before `absent < 3`: there is no column `absent`; of numbers and text there are id, some, all"),
        ("id < 3 and blobs == 'x'", "at character 12, before `blobs == 'x'`: the column `blobs` is list.bytes."),
        ("none is null", "the column `none` is of a different type"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            kept(file, condition, fb.Scalar("id"))


@pytest.fixture
def folder(tmp_path):
    for row in ROWS:
        path = tmp_path / "files" / ["red", "blue", "green"][row["number"] % 3] / f"{row['number']:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8")
        path.with_suffix(".txt").write_text(row["word"] or "none")
        path.with_suffix(".cls").write_text(str(row["number"]))
    return tmp_path / "files"


def test_folders_are_filtered_by_paths_classes_and_manifests(folder, bucket, bucket_environment, tmp_path):
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))

    def found(condition, **options):
        streams = [fb.Stream(remote=folder, select=fb.Select(filter=condition), **options)]
        with fb.Loader(streams=streams, fields={"path": fb.Text("path")}, batch_size=5) as loader:
            return sorted(path for batch in loader for path in batch["path"])

    assert found("class == 'red'") == [name for name in names if name.startswith("red")]
    assert found("label < 2 and path > 'green/005'") == [n for n in names if n[0] in "bg" and n > "green/005"]
    manifest = tmp_path / "list.csv"
    manifest.write_text("file_name,width,tag\n" + "".join(f"{n},{i * 7 % 50},{'ab'[i % 2]}\n" for i, n in enumerate(names)))
    wide = [name for i, name in enumerate(names) if i * 7 % 50 >= 20 and i % 2]
    assert found("width >= 20 and tag == 'b'", manifest=manifest) == wide
    with pytest.raises(fb.ConfigError, match="there is no column `height`; of numbers and text there are class, label, path, tag, width"):
        found("height < 3", manifest=manifest)
    for name in names:
        bucket.objects[f"filtered-files/{name}"] = b"\xff\xd8"
    bucket.seen.clear()
    with fb.Loader(
        remote="s3://bucket/filtered-files", select=fb.Select(filter="class == 'red'"), batch_size=4, fields={"p": fb.Text("path")}
    ):
        assert [request.key for request in bucket.seen if request.key.endswith(".jpg")] == []


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_files_with_one_stem_are_filtered_by_their_text_and_numbers(folder, where, bucket, bucket_environment):
    for path in folder.rglob("*.*"):
        bucket.objects[f"filtered-stems/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    remote = folder if where == "folder" else "s3://bucket/filtered-stems"
    words = {row["number"]: row["word"] or "none" for row in ROWS}
    bucket.seen.clear()
    streams = [fb.Stream(remote=remote, files="stem", select=fb.Select(filter="cls >= 40 and txt in ('cat', 'none')"))]
    with fb.Loader(streams=streams, fields={"n": fb.Scalar("cls")}, batch_size=4) as loader:
        assert [request.key for request in bucket.seen if request.key.endswith(".jpg")] == []
        found = sorted(n for batch in loader for n in batch["n"].tolist())
    assert found == [n for n, word in words.items() if n >= 40 and word in ("cat", "none")]


def test_litdata_is_filtered(tmp_path):
    cache = litdata.streaming.Cache(str(tmp_path / "set"), chunk_size=13)
    for row in ROWS:
        cache._add_item(row["number"], {"number": row["number"], "ratio": row["number"] / 8, "word": row["word"] or "", "x": torch.zeros(3)})
    cache.done()
    cache.merge()
    rows = [row | {"ratio": row["number"] / 8, "word": row["word"] or ""} for row in ROWS]
    for condition in ["number < 10 or word = 'dog'", "ratio >= 3.125 and word != ''"]:
        assert kept(tmp_path / "set", condition, fb.Scalar("number")) == expected(condition, rows)
    with pytest.raises(fb.ConfigError, match="the column `x` is ndarray"):
        kept(tmp_path / "set", "x < 3", fb.Scalar("number"))


def test_streams_of_a_mix_have_their_own_filters(tars, tmp_path):
    with fb.MDSWriter(out=tmp_path / "mds", columns={"cls": "int", "note": "str"}) as writer:
        for number in range(50):
            writer.write({"cls": 1000 + number, "note": "odd" if number % 2 else "even"})
    streams = [
        fb.Stream(remote=tars, select=fb.Select(filter="cls >= 40")),
        fb.Stream(remote=tmp_path / "mds", select=fb.Select(filter="note == 'odd'")),
    ]
    with fb.Loader(streams=streams, fields={"n": fb.Scalar("cls")}, batch_size=4, shuffle=True) as loader:
        found = sorted(n for batch in loader for n in batch["n"].tolist())
        run = loader.state_dict()
    classes = sorted(row["small"] for row in ROWS if row["small"] is not None and row["small"] >= 40)
    assert found == classes + list(range(1001, 1050, 2))
    with fb.Loader(streams=streams[:1] + [fb.Stream(remote=tmp_path / "mds")], fields={"n": fb.Scalar("cls")}, batch_size=4) as loader:
        with pytest.raises(fb.StateError, match="selection was stream 0: filter="):
            loader.load_state_dict(run)


CHILD = """
import json, sys
import forebay as fb
with fb.Loader(remote=sys.argv[1], select=fb.Select(filter="cls >= 0 and txt != 'dog'"), fields={"n": fb.Json("json", "number", dtype="int64")}, batch_size=4, framework="numpy") as loader:
    print(json.dumps([loader.stats()["counters"].get("filter_shards_read", 0), [n for b in loader for n in b["n"].tolist()]]))
"""


def test_processes_share_one_pass(tars, tmp_path):
    """Of several processes one reads each shard, and the rest takes its answer."""
    started = [
        subprocess.Popen([sys.executable, "-c", CHILD, tars], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        for _ in range(3)
    ]
    results = [json.loads(process.communicate(timeout=600)[0]) for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert sum(shards for shards, _ in results) == 4
    assert [numbers for _, numbers in results] == [expected("small >= 0 and word != 'dog'")] * 3


def test_a_pass_continues_with_the_shards_that_are_missing(tars, tmp_path, cache):
    """The last shard is damaged, so the first pass ends there. When it is there again, the rest is not read again."""
    path = tmp_path / "3.tar"
    whole, times = path.read_bytes(), path.stat()
    damaged = bytearray(whole)
    at = damaged.index(b".cls")
    damaged[at : at + 4] = b".cl~"
    number = fb.Json("json", "number", dtype="int64")
    assert kept(tars, "json.number >= 0", number) == [row["number"] for row in ROWS]
    path.write_bytes(damaged)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(fb.Error, match="3.tar"):
        kept(tars, "cls >= 0", number)
    path.write_bytes(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with fb.Loader(remote=tars, select=fb.Select(filter="cls >= 0"), fields={"n": number}, batch_size=5) as loader:
        assert loader.stats()["counters"]["filter_shards_read"] < 4
        assert [n for batch in loader for n in batch["n"].tolist()] == expected("small >= 0")
    # A file that was written again is read again.
    os.utime(path)
    with fb.Loader(remote=tars, select=fb.Select(filter="cls >= 0"), fields={"n": number}, batch_size=5) as loader:
        assert loader.stats()["counters"]["filter_shards_read"] == 4


def test_steps_of_a_filtered_run_are_named_replayed_and_left_out(tars, tmp_path, capfd):
    from forebay.__main__ import main

    options = {"remote": tars, "select": fb.Select(filter="cls >= 0", subset="5:90"), "shuffle": True, "batch_size": 4}
    options |= {"fields": {"n": fb.Json("json", "number", dtype="int64")}, "extra": ["sample_ids"]}
    rows = [n for n in expected("small >= 0") if 5 <= n < 90]
    with fb.Loader(**options) as loader:
        batches = list(loader)
        assert sorted(n for batch in batches for n in batch["n"].tolist()) == rows
        for step, batch in enumerate(batches):
            named = loader.samples_of(step)
            assert [sample.number for sample in named] == batch["n"].tolist()
            assert [[s.stream, s.shard, s.index] for s in named] == batch["sample_ids"].tolist()
        assert loader.replay(2)["n"].tolist() == batches[2]["n"].tolist()
        loader.save_run(tmp_path / "RUN.json")
    assert main(["which", str(tmp_path / "RUN.json"), "--step", "3", "--json"]) == 0
    found = [json.loads(line)["number"] for line in capfd.readouterr().out.splitlines()]
    assert found == batches[3]["n"].tolist()
    with fb.Loader(**options, order=fb.Order(skip_steps=[1, 2])) as loader:
        assert [batch["n"].tolist() for batch in loader] == [b["n"].tolist() for i, b in enumerate(batches) if i not in (1, 2)]


def test_a_copy_in_a_second_folder_has_the_state_of_the_first(tars, tmp_path):
    """The kept samples count, and neither the folder nor the words of the filter."""
    for shard in range(4):
        (tmp_path / "copy").mkdir(exist_ok=True)
        shutil.copy(tmp_path / f"{shard}.tar", tmp_path / "copy")
    options = {"fields": {"n": fb.Json("json", "number", dtype="int64")}, "batch_size": 4}
    with fb.Loader(remote=tars, select=fb.Select(filter="cls >= 0"), **options) as loader:
        state = loader.state_dict()
    with fb.Loader(remote=f"{tmp_path}/copy/{{0..3}}.tar", select=fb.Select(filter="not 0 > cls"), **options) as loader:
        loader.load_state_dict(state)
    with (
        fb.Loader(remote=tars, select=fb.Select(filter="cls >= 1"), **options) as loader,
        pytest.raises(fb.StateError, match="selection was filter="),
    ):
        loader.load_state_dict(state)


def test_records_of_tensorflow_are_filtered(tmp_path):
    for shard in range(3):
        part = ROWS[32 * shard : 32 * shard + 32]
        # A feature that a record lacks is absent.
        features = [{"n": [row["number"]]} | ({} if row["small"] is None else {"small": [row["small"]]}) for row in part]
        (tmp_path / f"{shard}.tfrecord").write_bytes(b"".join(record(example(each)) for each in features))
    remote = tmp_path / "*.tfrecord"
    for condition in ["small < 10", "not small < 10 and number > 40", "small is null or number in (1, 95)"]:
        assert kept(remote, condition.replace("number", "n"), fb.Scalar("n")) == expected(condition), condition


PRESENT = {"empty": [0, 1, 2], "some": [0, 2], "struct": [0, 2], "deep": [0, 1], "struct.a": [], "flat": []}
"""Rows of `presence.parquet` without a null in the columns. Of all of these the file has nulls alone."""


@pytest.mark.parametrize("column", PRESENT)
def test_lists_and_structs_are_null_only_where_their_rows_are(column):
    present = PRESENT[column]
    absent = [n for n in range(3) if n not in present]
    for condition, rows in [(f"{column} is not null", present), (f"{column} is null", absent), (f"not {column} is null", present)]:
        if rows:
            assert kept(PARQUET / "presence.parquet", condition, fb.Scalar("id")) == rows, condition
        else:
            with pytest.raises(fb.ConfigError, match="no sample of the stream is kept"):
                kept(PARQUET / "presence.parquet", condition, fb.Scalar("id"))


def test_decimals_that_are_whole_are_compared_with_all_their_digits(tmp_path):
    from decimal import Decimal

    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    prices = [Decimal(f"{12345678901234567890 + n}.00") for n in range(4)] + [Decimal("0.10"), Decimal("-7.50")]
    pq.write_table(pa.table({"number": range(6), "price": pa.array(prices, pa.decimal128(30, 2))}), tmp_path / "0.parquet")
    for condition, numbers in [
        ("price > 12345678901234567890", [1, 2, 3]),
        ("price == 12345678901234567892", [2]),
        ("price >= 12345678901234567892.00 or price == 0.1", [2, 3, 4]),
        ("price in (12345678901234567891, -7.5)", [1, 5]),
        ("price < 1.0", [4, 5]),
    ]:
        assert kept(tmp_path / "0.parquet", condition, fb.Scalar("number")) == numbers, condition
