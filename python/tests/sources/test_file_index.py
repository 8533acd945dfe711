"""`forebay index` with folders of files: the list next to them."""

import functools
import http.server
import itertools
import json
import os
import pathlib
import shutil

import pytest
from picture_set import jpeg
from range_server import serving

import forebay as fb
from forebay.__main__ import main
from forebay.index import index_files

NAMES = [f"{'ab'[n % 2]}/{n}.jpg" for n in range(12)]
FIELDS = {"path": fb.Text("path"), "file": fb.Bytes("file"), "label": fb.Scalar("label")}

_prefixes = itertools.count()


@pytest.fixture
def pictures_folder(tmp_path):
    for number, name in enumerate(NAMES):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    return tmp_path / "set"


def in_bucket(bucket, root):
    prefix = f"listed-{next(_prefixes)}"
    bucket.objects.update({f"{prefix}/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*") if path.is_file()})
    return f"s3://bucket/{prefix}"


def rows(loader):
    return [row for batch in loader for row in zip(batch["path"], map(bytes, batch["file"]), batch["label"].tolist(), strict=True)]


def opened(remote, **more):
    return fb.Loader(remote=remote, batch_size=4, framework="numpy", fields=FIELDS, **more)


@pytest.fixture
def expected(pictures_folder):
    with opened(pictures_folder) as loader:
        return rows(loader)


def test_a_folder_with_a_list_is_not_listed_and_read_without_a_copy(pictures_folder, expected, cache):
    with opened(pictures_folder, shuffle=True) as loader:
        taken = iter(loader)
        first, state = rows([next(taken)]), loader.state_dict()
    report = index_files(pictures_folder)
    assert (report.url, report.samples) == (f"{pictures_folder}/index.json", 12)
    # A file that is added is not in the list.
    (pictures_folder / "a/new.jpg").write_bytes(jpeg(99))
    with opened(pictures_folder) as loader:
        assert rows(loader) == expected and loader.classes == ["a", "b"]
    with opened(pictures_folder, shuffle=True) as loader:
        loader.load_state_dict(state)
        rest = rows(loader)
    assert sorted(first + rest) == sorted(expected)
    assert {name for _, _, names in os.walk(cache) for name in names} == {"index.json"}
    assert [fb.ShardReader(pictures_folder)[i]["path"] for i in (0, 11)] == [expected[0][0], expected[11][0]]
    with pytest.raises(fb.ConfigError, match="index.json exists.*--overwrite"):
        index_files(pictures_folder)
    assert main(["index", str(pictures_folder), "--overwrite"]) == 0
    with opened(pictures_folder) as loader:
        assert len(rows(loader)) == 13


def test_a_bucket_with_a_list_is_opened_without_a_listing(pictures_folder, expected, bucket, bucket_environment, cache):
    remote = in_bucket(bucket, pictures_folder)
    assert main(["index", remote]) == 0
    bucket.seen.clear()
    with opened(remote) as loader:
        keys = [(request.method, request.key.rsplit("/", 1)[-1]) for request in bucket.seen]
        assert keys == [("GET", "index.json")]
        assert rows(loader) == expected
    with opened(remote, split="") as loader:
        assert rows(loader) == expected


def test_a_web_server_can_have_files_with_a_list(pictures_folder, expected):
    index_files(pictures_folder)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=pictures_folder)
    handler.log_message = lambda *_: None
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        with opened(f"http://127.0.0.1:{server.server_address[1]}") as loader:
            assert rows(loader) == expected


def test_the_list_has_the_chosen_files_and_the_columns_of_the_manifest(tmp_path):
    root = tmp_path / "pairs"
    root.mkdir()
    for n in range(6):
        (root / f"{n}.bin").write_bytes(bytes([n]) * n)
        (root / f"{n}.txt").write_text(f"text {n}")
    assert main(["index", "--files", "stem", str(root)]) == 0
    fields = {"b": fb.Bytes("bin"), "t": fb.Text("txt")}
    with fb.Loader(remote=root, batch_size=6, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert (list(map(bytes, batch["b"])), batch["t"]) == ([bytes([n]) * n for n in range(6)], [f"text {n}" for n in range(6)])
    table = tmp_path / "table.csv"
    table.write_text("file_name,score\n" + "".join(f"{n}.txt,{n / 2}\n" for n in (4, 1)))
    assert main(["index", "--manifest", str(table), "--overwrite", str(root)]) == 0
    fields = {"p": fb.Text("path"), "s": fb.Scalar("score")}
    with fb.Loader(remote=root, batch_size=2, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert list(zip(batch["p"], batch["s"].tolist(), strict=True)) == [("4.txt", 2.0), ("1.txt", 0.5)]


def test_a_list_of_different_files_than_there_are_is_an_error_that_names_them(pictures_folder):
    index_files(pictures_folder)
    (pictures_folder / NAMES[0]).unlink()
    with pytest.raises(fb.StaleError, match="removed after its folder was listed"), opened(pictures_folder) as loader:
        rows(loader)


@pytest.mark.parametrize("change", ["cut", "version", "path"])
def test_a_damaged_list_is_an_error_with_the_position(pictures_folder, change):
    index_files(pictures_folder)
    path = pictures_folder / "index.json"
    document = json.loads(path.read_text())
    if change == "version":
        document["forebay_files"] = 99
    if change == "path":
        document["bytes"].pop()
    text = json.dumps(document, separators=(",", ":"))
    path.write_text(text[:-9] if change == "cut" else text)
    with pytest.raises(fb.Error, match="list of files|index"):
        opened(pictures_folder)


def test_files_with_a_different_kind_of_index_are_refused(tmp_path, capsys):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/notes.md").write_text("")
    assert main(["index", str(tmp_path / "tables")]) == 2
    assert "no files that are samples" in capsys.readouterr().err
    assert main(["index", f"{tmp_path}/none/{{0..1}}.jpg"]) == 2
    with fb.MDSWriter(out=tmp_path / "mds", columns={"n": "int"}) as writer:
        writer.write({"n": 1})
    assert main(["index", str(tmp_path / "mds")]) == 2


PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet"


def tables_in(bucket, prefix, names=None):
    """Copies tables to the bucket."""
    names = names or sorted(path.name for path in PARQUET.glob("set-*.parquet"))
    for name in names:
        bucket.objects[f"{prefix}/{name}"] = (PARQUET / name).read_bytes()
    return f"s3://bucket/{prefix}"


def ids(remote, **options):
    with fb.Loader(remote=remote, batch_size=7, fields={"n": fb.Scalar("id"), "t": fb.Text("text")}, **options) as loader:
        return [(int(n), text) for batch in loader for n, text in zip(batch["n"], batch["t"], strict=True)]


def gets(bucket, prefix):
    return [request.key.rsplit("/", 1)[-1] for request in bucket.seen if request.method == "GET" and request.key.startswith(prefix + "/")]


@pytest.mark.parametrize("form", ["", "/*.parquet", "/set-{0,1}.parquet"])
def test_tables_with_an_index_next_to_them_are_opened_without_their_ends(form, bucket, bucket_environment, tmp_path):
    prefix = f"indexed-tables-{form.count('*')}-{len(form)}"
    remote = tables_in(bucket, prefix) + form
    expected = ids(remote, local=tmp_path / "without")
    with fb.Loader(remote=remote, batch_size=7, local=tmp_path / "state") as loader:
        state = loader.state_dict()
    assert main(["index", remote]) == 0
    report = index_files(remote, overwrite=True)
    assert (report.url, report.samples) == (f"s3://bucket/{prefix}/_forebay_tables.json", len(expected))
    with pytest.raises(fb.ConfigError, match="_forebay_tables.json exists"):
        index_files(remote)
    bucket.seen.clear()
    with fb.Loader(remote=remote, batch_size=7, fields={"n": fb.Scalar("id")}, local=tmp_path / "with") as loader:
        opened = [name for name in gets(bucket, prefix) if name.endswith(".parquet")]
        loader.load_state_dict(state)
    assert opened == [] and gets(bucket, prefix).count("_forebay_tables.json") == 1
    assert ids(remote, local=tmp_path / "again") == expected


def test_files_that_were_added_or_written_again_after_the_index_are_read(bucket, bucket_environment, tmp_path, caplog):
    first, second = sorted(path.name for path in PARQUET.glob("set-*.parquet"))
    remote = tables_in(bucket, "grown-tables", [first])
    index_files(remote)
    tables_in(bucket, "grown-tables", [second])
    bucket.seen.clear()
    with fb.Loader(remote=remote, batch_size=7, fields={"n": fb.Scalar("id")}, local=tmp_path / "a"):
        assert {name for name in gets(bucket, "grown-tables") if name.endswith(".parquet")} == {second}
    assert ids(remote, local=tmp_path / "b") == ids(f"{PARQUET}/set-{{0,1}}.parquet")
    assert "written again" not in caplog.text
    bucket.objects[f"grown-tables/{first}"] = bucket.objects[f"grown-tables/{second}"]
    assert ids(remote, local=tmp_path / "c") == ids(PARQUET / second) * 2
    assert "1 files were written again" in caplog.text


def test_a_folder_of_tables_of_any_types_has_an_index(tmp_path, caplog):
    """All columns are in it, also those that cannot be delivered."""
    for name in ["pyarrow-snappy.parquet", "nulls.parquet"]:
        shutil.copy(PARQUET / name, tmp_path)
    report = index_files(tmp_path)
    assert report.url == f"{tmp_path}/_forebay_tables.json"
    for name in ["pyarrow-snappy.parquet", "nulls.parquet"]:
        with fb.Loader(remote=tmp_path / name, batch_size=1, fields={"n": fb.Scalar("id")}) as loader:
            found = [int(batch["n"][0]) for batch in loader]
        with fb.Loader(remote=PARQUET / name, batch_size=1, fields={"n": fb.Scalar("id")}) as loader:
            assert found == [int(batch["n"][0]) for batch in loader]
    (tmp_path / "_forebay_tables.json").write_text('{"forebay_tables": 1, "kind": "parquet"')
    with fb.Loader(remote=tmp_path / "*.parquet", batch_size=1, fields={"n": fb.Scalar("id")}):
        assert "_forebay_tables.json is not used" in caplog.text


def test_an_index_of_arrow_files_saves_the_pass_over_them(bucket, bucket_environment, tmp_path):
    bucket.objects["indexed-arrow/a.arrow"] = (PARQUET / "pyarrow-stream.arrow").read_bytes()
    index_files("s3://bucket/indexed-arrow")
    bucket.seen.clear()
    with fb.Loader(remote="s3://bucket/indexed-arrow", batch_size=1, fields={"n": fb.Scalar("id")}, local=tmp_path / "local") as loader:
        assert "_forebay_tables.json" in gets(bucket, "indexed-arrow") and "a.arrow" not in gets(bucket, "indexed-arrow")
        found = [int(batch["n"][0]) for batch in loader]
    with fb.Loader(remote=PARQUET / "pyarrow-stream.arrow", batch_size=1, fields={"n": fb.Scalar("id")}) as loader:
        assert found == [int(batch["n"][0]) for batch in loader]


DAMAGE = {
    "fewer rows": lambda index: index["files"][0]["groups"][0].update(rows=2),
    "more rows than the columns have": lambda index: index["files"][0]["groups"][0].update(rows=1 << 40),
    "an offset that overflows": lambda index: index["files"][0]["groups"][0]["chunks"][0].__setitem__(0, 1 << 63),
    "a length that overflows": lambda index: index["files"][0]["groups"][0]["chunks"][0].__setitem__(1, (1 << 64) - 1),
    "a length of exabytes": lambda index: index["files"][0]["groups"][0]["chunks"][1].__setitem__(1, 1 << 62),
    "unpacked exabytes": lambda index: index["files"][0]["groups"][0]["chunks"][1].__setitem__(4, 1 << 62),
    "a group twice": lambda index: index["files"][0]["groups"].append(index["files"][0]["groups"][0]),
    "rows that overflow": lambda index: [
        group.update(rows=1 << 63, chunks=[[*chunk[:2], 1 << 63, *chunk[3:]] for chunk in group["chunks"]])
        for group in index["files"][0]["groups"] * 2
    ],
    "a column less": lambda index: index["files"][0]["groups"][0]["chunks"].pop(),
    "a schema that there is not": lambda index: index["files"][0].update(schema=9),
    "a damaged schema": lambda index: index["schemas"].__setitem__(0, "AAAA"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_of_tables_is_not_used(damage, tmp_path, caplog):
    shutil.copy(PARQUET / "set-0.parquet", tmp_path)
    index_files(tmp_path)
    path = tmp_path / "_forebay_tables.json"
    index = json.loads(path.read_text())
    DAMAGE[damage](index)
    path.write_text(json.dumps(index))
    assert ids(tmp_path) == ids(PARQUET / "set-0.parquet")
    assert "_forebay_tables.json is not used" in caplog.text


def test_a_damaged_index_of_arrow_files_is_not_used(tmp_path, caplog):
    shutil.copy(PARQUET / "pyarrow-stream.arrow", tmp_path)
    expected = ids(PARQUET / "pyarrow-stream.arrow")
    index_files(tmp_path)
    path = tmp_path / "_forebay_tables.json"
    whole = json.loads(path.read_text())
    assert ids(tmp_path) == expected and "is not used" not in caplog.text
    for place, value in [(0, 1 << 63), (1, 1 << 62), (2, 1)]:
        index = json.loads(json.dumps(whole))
        index["files"][0]["groups"][0]["chunks"][0][place] = value
        path.write_text(json.dumps(index))
        caplog.clear()
        assert ids(tmp_path, local=tmp_path / f"local-{place}") == expected
        assert "_forebay_tables.json is not used" in caplog.text
