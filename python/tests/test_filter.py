"""Filters: samples by their number and text columns."""

import io
import itertools
import json
import os
import sqlite3
import tarfile

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import CLASSES, SAMPLES, write_pictures

import forebay as fb
from forebay import streaming

torch = pytest.importorskip("torch")

COUNT = 300


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Folder of the data that are kept of remotes without `local`, and of filters."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def rows():
    """Numbers and text of many kinds."""
    generator = np.random.default_rng(7)
    words = ["cat", "dog", "it's", "Ünder", "", "and"]
    for number in range(COUNT):
        yield {
            "number": number,
            "small": int(generator.integers(-100, 100)),
            "big": int(generator.integers(-(2**62), 2**62)),
            "ratio": float(np.float32(generator.normal())),
            "word": words[int(generator.integers(len(words)))],
        }


def write(folder, kind):
    """Writes the rows in a format; the folder or address of the set."""
    types = {"number": "int", "small": "int", "big": "int", "ratio": "float", "word": "str"}
    if kind == "mds":
        types |= {"small": "int16", "ratio": "float32", "big": "str_int", "pad": "bytes"}
        with fb.MDSWriter(out=folder, columns=types, size_limit=1 << 12) as writer:
            for row in rows():
                writer.write(row | {"small": np.int16(row["small"]), "ratio": np.float32(row["ratio"]), "pad": b"." * 50})
        return str(folder)
    made = {"jsonl": streaming.JSONWriter, "csv": streaming.TSVWriter}[kind]
    with made(out=str(folder), columns=types, size_limit=1 << 12) as writer:
        for row in rows():
            writer.write(row)
    return str(folder)


def expected(condition):
    """Numbers of the rows that SQLite keeps."""
    database = sqlite3.connect(":memory:")
    database.execute("create table t (number integer, small integer, big integer, ratio real, word text)")
    database.executemany("insert into t values (:number, :small, :big, :ratio, :word)", list(rows()))
    query = condition.replace("==", "=").replace("`", '"').replace('\\"', '"')
    return [number for (number,) in database.execute(f"select number from t where {query} order by number")]


CONDITIONS = [
    "small < 10",
    "small >= 10 and ratio > 0.0",
    "small < -50 or small > 50 and word == 'cat'",
    "(small < -50 or small > 50) and word == 'cat'",
    "not (small < 0 or word in ('dog', 'and'))",
    "small not in (1, 2, 3, 4, 5, 6, 7, 8, 9) and small > 0",
    "big > 4611686018427387 and big != 5",
    "ratio < -0.5 or `ratio` >= 0.5",
    "word == ''",
    "word < 'd' and word != 'cat'",
    "word == 'Ünder' or word == 'it''s'",
    "small > ratio",
    "number in (0, 299, 1000)",
    "word is not null and -5 <= small",
]


@pytest.mark.parametrize("kind", ["mds", "jsonl", "csv"])
def test_a_filter_keeps_the_rows_that_sqlite_keeps(tmp_path, kind):
    folder = write(tmp_path / "set", kind)
    assert len([name for name in os.listdir(folder) if name.startswith("shard")]) > 3
    for condition in CONDITIONS:
        kept = expected(condition)
        assert kept
        with ordered(folder, select=fb.Select(filter=condition.replace("'it''s'", "\"it's\""))) as loader:
            assert sum(numbers(loader), []) == kept, condition


def test_random_filters_keep_the_rows_that_sqlite_keeps(tmp_path):
    folder = write(tmp_path / "set", "mds")
    generator = np.random.default_rng(0)

    def made(depth):
        if depth == 0 or generator.random() < 0.2:
            column = ["small", "big", "ratio", "number"][generator.integers(4)]
            sign = ["<", "<=", "==", "!=", ">=", ">"][generator.integers(6)]
            scale = {"small": 100, "big": 2**62, "ratio": 1, "number": COUNT}[column]
            value = round(float(generator.normal()) * scale, 3) if column == "ratio" else int(generator.normal() * scale)
            return f"{column} {sign} {value}"
        parts = [made(depth - 1) for _ in range(generator.integers(1, 4))]
        joined = f" {['and', 'or'][generator.integers(2)]} ".join(parts)
        return f"not ({joined})" if generator.random() < 0.3 else f"({joined})"

    tried = 0
    for condition in (made(3) for _ in range(60)):
        kept = expected(condition)
        if not kept:
            continue
        tried += 1
        with ordered(folder, select=fb.Select(filter=condition)) as loader:
            assert sum(numbers(loader), []) == kept, condition
    assert tried > 30


def test_a_filter_holds_together_with_subsets_ranks_and_checkpoints(pictures):
    condition = f"class < 4 and name != 'picture 10' and number >= {SAMPLES // 10}"
    kept = [n for n in range(30, 150) if n % CLASSES < 4 and n != 10 and n >= SAMPLES // 10]
    common = {
        "select": fb.Select(filter=condition, subset="30:150"),
        "shuffle": True,
        "order": fb.Order(num_canonical_nodes=1),
        "batch_size": 4,
    }
    for ranks in (1, 2, 4, 8):
        delivered = []
        for rank in range(ranks):
            world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
            with ordered(pictures, world=world, **common) as loader:
                delivered += sum(numbers(loader), [])
        assert set(delivered) == set(kept) and len(delivered) < len(kept) + ranks
    with ordered(pictures, **common) as loader:
        state = loader.state_dict()
    with ordered(pictures, **common | {"select": fb.Select(filter=condition + " and class != 3")}) as loader:
        with pytest.raises(fb.StateError, match="selection was subset="):
            loader.load_state_dict(state)
    # The samples count, and not the arguments.
    with ordered(pictures, **common | {"select": fb.Select(filter=None, subset=kept)}) as loader:
        loader.load_state_dict(state)


def test_the_answer_is_kept_and_pictures_are_not_decoded(tmp_path, cache):
    remote = write_pictures(tmp_path / "remote", size_limit=1 << 14)
    options = {"remote": remote, "local": tmp_path / "local", "fields": NUMBER, "batch_size": 8}
    kept = [n for n in range(SAMPLES) if n % CLASSES == 1]
    with fb.Loader(select=fb.Select(filter="class == 1"), **options) as loader:
        assert sum(numbers(loader), []) == kept
    (answer,) = (tmp_path / "local").glob("filter-*/answers")
    for name in os.listdir(remote):
        if name.endswith(".mds"):
            os.remove(f"{remote}/{name}")
    # Neither the remote's shards nor the local ones are read to open the loader again.
    for shard in (tmp_path / "local").glob("*.mds"):
        os.truncate(shard, 0)
    with fb.Loader(select=fb.Select(filter="class == 1"), **options) as loader:
        assert loader.samples_of(0)[0].number == 1
    # A damaged answer is not used, nor is the answer of a different filter.
    answer.write_bytes(answer.read_bytes()[:-1] + b"!")
    for condition in ("class == 1", "class == 2"):
        with pytest.raises(fb.Error):
            fb.Loader(select=fb.Select(filter=condition), **options)


def test_shards_that_a_subset_leaves_out_are_not_read_for_a_filter(tmp_path):
    remote = write_pictures(tmp_path / "remote", size_limit=1 << 14)
    shards = json.loads((tmp_path / "remote/index.json").read_text())["shards"]
    for shard in shards[1:]:
        os.remove(tmp_path / "remote" / shard["raw_data"]["basename"])
    first = range(shards[0]["samples"])
    with fb.Loader(
        remote=remote, local=tmp_path / "local", select=fb.Select(subset=first, filter="class != 0"), fields=NUMBER, batch_size=4
    ) as loader:
        assert sum(numbers(loader), []) == [n for n in first if n % CLASSES]


def test_a_filter_works_with_room_for_one_shard_and_with_compressed_shards(tmp_path):
    remote = write_pictures(tmp_path / "remote", size_limit=1 << 14, compression="zstd")
    index = json.loads((tmp_path / "remote/index.json").read_text())["shards"]
    room = max(s["raw_data"]["bytes"] + s["zip_data"]["bytes"] for s in index) * 2 + (1 << 20)
    options = {"remote": remote, "fields": NUMBER, "batch_size": 8, "cache_limit": room}
    with fb.Loader(select=fb.Select(filter="class == 1"), local=tmp_path / "local", **options) as loader:
        assert sum(numbers(loader), []) == [n for n in range(SAMPLES) if n % CLASSES == 1]


def test_tars_have_filters_on_numbers_text_and_keys(tmp_path):
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for number, (suffix, text) in itertools.product(range(10 * shard, 10 * shard + 10), [("cls", "{}"), ("txt", "t{}")]):
                body = text.format(number).encode()
                member = tarfile.TarInfo(f"{number:04}.{suffix}")
                member.size = len(body)
                tar.addfile(member, io.BytesIO(body))
    address = str(tmp_path / "{0..2}.tar")
    for condition, kept in (
        ("cls >= 7 and cls < 23", range(7, 23)),
        ("txt in ('t3', 't25')", [3, 25]),
        ("__key__ < '0002'", [0, 1]),
    ):
        with fb.Loader(remote=address, select=fb.Select(filter=condition), fields={"n": fb.Scalar("cls")}, batch_size=4) as loader:
            assert [int(n) for batch in loader for n in batch["n"]] == list(kept)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "has a mistake at its end: a condition such as `class < 100` is missing"),
        ("class <", "at its end: a column, a number or a text is missing"),
        ("class < 5 and", "at its end"),
        ("klass < 5", "at character 1, before `klass < 5`: there is no column `klass`; of numbers and text there are class"),
        ("number < 5 and image == 'x'", "at character 16, before `image == 'x'`: the column `image` is jpeg"),
        ("class == 'x'", "at character 1.*a number is compared with text"),
        ("name < 5", "text is compared with a number"),
        ("class < 5)", "at character 10"),
        ("class < 5; drop", "at character 10, before `; drop`: this character has no meaning here"),
        ("__import__('os')", "at character 11"),
        ("class + 1 < 5", "at character 7"),
        ("class < 0", "no sample of the stream is kept by filter="),
        ("(" * 100_000, "nested deeper than 100"),
        ("not " * 100_000 + "class < 3", "nested deeper than 100"),
        ("\0", "at character 1"),
        (5, "filter is text"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_filters_that_are_wrong_are_rejected_with_the_reason(pictures, condition, message):
    with pytest.raises(fb.ConfigError, match=message):
        ordered(pictures, select=fb.Select(filter=condition))


def test_a_long_list_is_no_problem(pictures):
    condition = " or ".join(f"number == {number}" for number in range(0, SAMPLES, 3)) + " or number in (1, 2)"
    with ordered(pictures, select=fb.Select(filter=condition)) as loader:
        assert sum(numbers(loader), []) == sorted({*range(0, SAMPLES, 3), 1, 2})


def test_a_damaged_shard_is_an_error_that_names_it(tmp_path):
    folder = write(tmp_path / "set", "mds")
    shard = sorted(name for name in os.listdir(folder) if name.startswith("shard"))[1]
    with open(f"{folder}/{shard}", "r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(file.tell() - 100)
    with pytest.raises(fb.Error) as caught:
        ordered(folder, select=fb.Select(filter="small < 10"))
    assert shard in str(caught.value)
