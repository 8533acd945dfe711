"""JSON lines, CSV and TSV files as they are: the rows that Python's `json` and `csv` read, in forebay's order."""

import csv
import io
import itertools
import json
import logging

import pytest
from line_rows import FIELDS, SAMPLES, cells, json_lines, rows, write_set
from source_matrix import Case, SourceMatrix, opened

import forebay as fb

_prefixes = itertools.count()


class OfLines(SourceMatrix):
    CACHE_LIMIT = 40_000
    end, packed = ".jsonl", ""

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("lines")
        write_set(folder, cls.end, cls.packed)
        return folder

    @pytest.fixture
    def case(self, folder, bucket):
        prefix, names = f"lines-{next(_prefixes)}", f"*{self.end}{self.packed}"
        bucket.objects.update({f"{prefix}/{path.name}": path.read_bytes() for path in folder.iterdir()})
        options = {"fields": FIELDS}
        return Case(f"{folder}/{names}", f"s3://bucket/{prefix}/{names}", options, rows, SAMPLES, self.end + self.packed)


class TestJsonLines(OfLines):
    def test_files_of_this_machine_are_read_where_they_are(self, case, folder, cache):
        for place in ({"remote": case.remote}, {"local": case.remote}, {"remote": str(folder)}):
            with fb.Loader(**place, batch_size=8, framework="numpy", **case.options) as loader:
                assert sum(map(rows, loader), []) == SAMPLES
        assert {path.name for path in cache.rglob("*") if path.is_file()} == {"index.json"}

    def test_a_file_that_was_replaced_is_read_again(self, case, tmp_path):
        names = write_set(tmp_path / "set")
        with opened(case, f"{tmp_path}/set/{names}"):
            pass
        write_set(tmp_path / "set", samples=SAMPLES[:118])
        with opened(case, f"{tmp_path}/set/{names}") as loader:
            assert sum(map(rows, loader), [])[:118] == SAMPLES[:118]


class TestNewlineDelimitedJson(OfLines):
    end = ".ndjson"


class TestCsv(OfLines):
    end = ".csv"


class TestTsv(OfLines):
    end = ".tsv"


class TestPackedJsonLines(OfLines):
    packed = ".gz"


class TestPackedCsv(OfLines):
    end, packed = ".csv", ".zst"


@pytest.mark.parametrize("packed", ["", ".gz", ".zst", ".bz2", ".br"])
@pytest.mark.parametrize("end", [".jsonl", ".csv"])
def test_a_reader_returns_the_samples_by_their_numbers(end, packed, tmp_path):
    names = write_set(tmp_path / "set", end, packed)
    reader = fb.ShardReader(f"{tmp_path}/set/{names}")
    assert len(reader) == len(SAMPLES)
    for number in (127, 0, 64, 13, 12):
        sample, (expected, text, score) = reader[number], SAMPLES[number]
        assert (sample["number"], sample["text"]) == (expected, text)
        assert sample.get("score") == (None if score == float("-inf") else score)


def values(reader):
    return [dict(row) for row in reader]


def test_rows_of_csv_are_as_in_csv(tmp_path):
    text = cells(SAMPLES, "\r\n") + '\r\n"open, ""quote""",128,\r\n\r\nun"quoted,129,2e-3\r\n'
    path = tmp_path / "a.csv"
    path.write_text(text, newline="")
    theirs = list(csv.DictReader(io.StringIO(text, newline="")))
    ours = values(fb.ShardReader(str(path)))
    assert [row["text"] for row in ours] == [row["text"] for row in theirs]
    assert [row["number"] for row in ours] == [int(row["number"]) for row in theirs]
    assert [row["score"] for row in ours] == [float(row["score"]) if row["score"] else None for row in theirs]


def test_objects_of_json_lines_are_as_in_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json_lines(SAMPLES))
    theirs = [json.loads(line) for line in path.read_text().splitlines()]
    ours = values(fb.ShardReader(str(path)))
    for row, expected in zip(ours, theirs, strict=True):
        assert row == {"score": None, **expected}


def test_values_are_typed_by_the_fields(tmp_path):
    lines = [
        {"ids": [1, 2, 3], "vector": [0.5, 1], "flag": True, "meta": {"url": "u", "at": {"x": 1}}, "any": 1, "zip": "007"},
        {"ids": [], "vector": [2.0, 3], "flag": False, "meta": None, "any": "a", "zip": "x"},
    ]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, lines)))
    fields = {
        "ids": fb.Tokens("ids", length=3, pad=-1),
        "vector": fb.Array("vector"),
        "flag": fb.Scalar("flag", dtype="uint8"),
        "url": fb.Json("meta", path="url", dtype="str", default="none"),
        "x": fb.Json("meta", path="at.x", dtype="int64", default=-5),
        "any": fb.Json("any"),
        "zip": fb.Text("zip"),
    }
    with fb.Loader(remote=str(tmp_path / "a.json"), batch_size=2, fields=fields, framework="numpy") as loader:
        batch = next(iter(loader))
    assert batch["ids"].tolist() == [[1, 2, 3], [-1, -1, -1]]
    assert [row.tolist() for row in batch["vector"]] == [[0.5, 1.0], [2.0, 3.0]]
    assert batch["flag"].tolist() == [1, 0]
    assert (batch["url"], batch["x"].tolist()) == (["u", "none"], [1, -5])
    assert (batch["any"], batch["zip"]) == (["1", '"a"'], ["007", "x"])


def test_a_filter_reads_columns_and_paths(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json_lines(SAMPLES))
    for filter, kept in [
        ("number >= 100 and score > 30", [n for n, _, score in SAMPLES if n >= 100 and score > 30]),
        ("meta.url == 'http://x/17'", [17]),
        ("score is null", [n for n, _, score in SAMPLES if score == float("-inf")]),
    ]:
        with fb.Loader(
            remote=str(path), batch_size=1, fields={"n": fb.Scalar("number")}, select=fb.Select(filter=filter)
        ) as loader:
            assert [int(batch["n"][0]) for batch in loader] == kept
    path = tmp_path / "a.csv"
    path.write_text(cells(SAMPLES), newline="")
    with fb.Loader(
        remote=str(path), batch_size=1, fields={"n": fb.Scalar("number")}, select=fb.Select(filter="score is null")
    ) as loader:
        assert [int(batch["n"][0]) for batch in loader] == [n for n, _, score in SAMPLES if score == float("-inf")]


@pytest.mark.parametrize("stored", [False, True])
def test_a_damaged_record_names_its_file_and_line_and_can_be_skipped(stored, bucket, bucket_environment, tmp_path, caplog):
    body = b'{"a": "one"}\n\n{"a": "two"}\n{"a": \n{"a": "four"}\n'
    (tmp_path / "a.jsonl").write_bytes(body)
    prefix = f"lines-{next(_prefixes)}"
    bucket.objects[f"{prefix}/a.jsonl"] = body
    remote = f"s3://bucket/{prefix}/a.jsonl" if stored else str(tmp_path / "a.jsonl")
    with caplog.at_level(logging.WARNING):
        loader = fb.Loader(remote=remote, batch_size=1, fields={"a": fb.Text("a")}, framework="numpy")
    assert "1 records of a.jsonl cannot be read" in caplog.text and "line 4" in caplog.text
    with loader, pytest.raises(fb.FormatError) as caught:
        list(loader)
    assert caught.value.context["line"] == "4" and caught.value.context["file"] == "a.jsonl"
    with fb.Loader(remote=remote, batch_size=1, fields={"a": fb.Text("a")}, skip=fb.Skip(errors=1)) as loader:
        assert [batch["a"][0] for batch in loader] == ["one", "two", "four"]
    reader = fb.ShardReader(remote)
    assert reader[3]["a"] == "four"
    with pytest.raises(fb.FormatError) as caught:
        reader[2]
    assert caught.value.context["line"] == "4"


@pytest.mark.parametrize(
    ("name", "body", "problem"),
    [
        ("a.csv", b'a,b\n1,"2\n3,4\n', "a quote is not closed"),
        ("a.csv", b"a;b\n1;2\n", "semicolons"),
        ("a.json", b'[\n{"a": 1}\n]\n', "JSON list"),
        ("a.json", b'{\n"a": 1\n}\n', "one line"),
        ("a.jsonl", '{"a": 1}\n'.encode("utf-16"), "UTF-16"),
        ("a.csv.gz", b"a,b\n", "gz"),
        ("a.jsonl", b"", "no samples"),
    ],
)
def test_a_text_that_cannot_be_read_names_the_cause(name, body, problem, tmp_path):
    (tmp_path / name).write_bytes(body)
    with pytest.raises(fb.Error) as caught:
        fb.Loader(remote=str(tmp_path / name), batch_size=1)
    assert problem in str(caught.value)


def test_a_folder_has_the_splits_that_its_files_name(tmp_path):
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "test.jsonl").write_text('{"a": 3}\n')
    (tmp_path / "README.md").write_text("# Set\n")
    with fb.Loader(remote=str(tmp_path), split="test", batch_size=1, fields={"a": fb.Scalar("a")}) as loader:
        assert [int(batch["a"][0]) for batch in loader] == [3]
    with pytest.raises(fb.ConfigError, match="more than one split"):
        fb.Loader(remote=str(tmp_path), batch_size=1)


def test_files_of_different_columns_are_one_data_set(tmp_path):
    (tmp_path / "a.csv").write_text("n,t\n1,x\n")
    (tmp_path / "b.tsv").write_text("t\tmore\tn\ny\t2\t0.5\n")
    fields = {"n": fb.Scalar("n"), "t": fb.Text("t"), "more": fb.Scalar("more", default=-1)}
    with fb.Loader(remote=str(tmp_path), batch_size=2, fields=fields, framework="numpy") as loader:
        batch = next(iter(loader))
    assert (batch["n"].tolist(), batch["t"], batch["more"].tolist()) == ([1.0, 0.5], ["x", "y"], [-1, 2])


def test_a_long_text_has_several_shards(tmp_path):
    long = "x" * (9 << 20)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"n": n, "t": long}) + "\n" for n in range(20)))
    with fb.Loader(remote=str(tmp_path / "a.jsonl"), batch_size=4, fields={"n": fb.Scalar("n")}, extra=["sample_ids"]) as loader:
        found = [(int(n), ids.tolist()) for batch in loader for n, ids in zip(batch["n"], batch["sample_ids"], strict=True)]
        named = loader.samples_of(3)
    assert [n for n, _ in found] == list(range(20))
    assert len({shard for _, (_, shard, _) in found}) == 3
    assert [(sample.file, sample.number) for sample in named] == [("a.jsonl", n) for n in range(12, 16)]
