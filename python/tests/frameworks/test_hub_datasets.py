"""Parquet and folders of files as the library `datasets` reads them."""

import json

import numpy as np
import pytest

import forebay as fb

datasets = pytest.importorskip("datasets")

import pyarrow as pa  # noqa: E402, with datasets
import pyarrow.parquet as pq  # noqa: E402

CARD = """---
configs:
- config_name: default
  data_files:
  - split: train
    path: data/**/a*
  - split: other
    path:
    - "*.parquet"
    - data/[c-x]*.parquet
---
"""

LAYOUTS = {
    "one": ["x.parquet", "a/b.parquet"],
    "sharded": ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/dev_a-00000-of-00001.parquet"],
    "names": ["train.parquet", "my_valid_1.parquet", "evaluation-a.parquet", "b/training0.parquet"],
    "folders": ["train/0.parquet", "test/b/0.parquet", "test/train.parquet", "x/dev/0.parquet"],
    "mixed": ["train/0.parquet", "test.parquet"],
    "others": ["trains.parquet", "contest.parquet"],
    "card": ["README.md", "data/x/a0.parquet", "data/a1.parquet", "data/d.parquet", "z.parquet"],
}


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "datasets"))


def ids(remote, **options):
    with fb.Loader(remote=remote, batch_size=1, fields={"id": fb.Scalar("id")}, framework="numpy", **options) as loader:
        return [number for batch in loader for number in batch["id"].tolist()]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_has_the_splits_and_files_of_datasets(layout, tmp_path):
    folder = tmp_path / "set"
    for number, name in enumerate(LAYOUTS[layout]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name == "README.md":
            (folder / name).write_text(CARD)
        else:
            pq.write_table(pa.table({"id": [number]}), folder / name)
    theirs = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "datasets"))
    expected = {split: sorted(rows["id"]) for split, rows in theirs.items()}
    assert {split: sorted(ids(folder, split=split)) for split in theirs} == expected


def rows_of(count):
    """Rows of all kinds of columns."""
    draw = np.random.default_rng(count)
    for n in range(count):
        yield {
            "id": n,
            "half": float(draw.random()),
            "text": "ü" * (n % 5),
            "tokens": draw.integers(0, 2**31, n % 9).tolist(),
            "vector": draw.random(4).astype("float32").tolist(),
            "image": {"bytes": draw.bytes(n * 31 % 700), "path": f"{n}.jpg"},
            "messages": [{"role": "user", "content": f"a\n\"{n}"}] * (n % 3),
        }


FEATURES = {
    "id": datasets.Value("int64"),
    "half": datasets.Value("float64"),
    "text": datasets.Value("string"),
    "tokens": datasets.List(datasets.Value("int32")),
    "vector": datasets.List(datasets.Value("float32"), length=4),
    "image": datasets.Image(decode=False),
    "messages": datasets.List({"role": datasets.Value("string"), "content": datasets.Value("string")}),
}


def check_rows(loader, theirs):
    """Compares all rows of a loader of `FIELDS` with the rows of `datasets`."""
    theirs = iter(theirs)
    for batch in loader:
        for place in range(len(batch["id"])):
            row = next(theirs)
            assert json.loads(batch["messages"][place]) == row["messages"]
            assert [batch[name][place] for name in ["id", "half", "text"]] == [row["id"], row["half"], row["text"]]
            assert (bytes(batch["image"][place]), batch["path"][place]) == (row["image"]["bytes"], row["image"]["path"])
            assert batch["tokens"][place].tolist() == row["tokens"]
            assert batch["vector"][place].tolist() == row["vector"]
    assert next(theirs, None) is None


FIELDS = {
    **{"id": fb.Scalar("id"), "half": fb.Scalar("half"), "text": fb.Text("text"), "path": fb.Text("image.path")},
    **{"image": fb.Bytes("image"), "tokens": fb.Array("tokens"), "vector": fb.Array("vector")},
    **{"messages": fb.Text("messages")},
}


@pytest.mark.parametrize("group", [7, 64, 1000])
def test_rows_are_those_that_datasets_reads(group, tmp_path):
    whole = datasets.Dataset.from_list(list(rows_of(300)), features=datasets.Features(FEATURES))
    whole.to_parquet(tmp_path / "train.parquet", batch_size=group)
    theirs = datasets.load_dataset("parquet", data_files=str(tmp_path / "train.parquet"), split="train", streaming=True)
    theirs = theirs.cast_column("image", datasets.Image(decode=False))
    with fb.Loader(remote=tmp_path / "train.parquet", batch_size=50, fields=FIELDS, framework="numpy") as loader:
        check_rows(loader, theirs)


@pytest.fixture
def loaded(tmp_path):
    """A data set of several files that is loaded from this machine."""
    whole = datasets.Dataset.from_list(list(rows_of(300)), features=datasets.Features(FEATURES))
    whole.save_to_disk(tmp_path / "saved", num_shards=3)
    return datasets.load_from_disk(str(tmp_path / "saved"))


def test_a_loaded_data_set_is_read_from_its_files(loaded, tmp_path):
    for remote in [loaded, tmp_path / "saved"]:
        with fb.Loader(remote=remote, batch_size=50, fields=FIELDS, framework="numpy") as loader:
            check_rows(loader, loaded)
    streams = [fb.Stream(remote=loaded)]
    with fb.Loader(streams=streams, batch_size=50, shuffle=True, fields=FIELDS, framework="numpy") as loader:
        assert sorted(number for batch in loader for number in batch["id"].tolist()) == list(range(300))


def test_a_data_set_is_refused_if_its_files_have_different_rows(loaded):
    for changed, message in [
        (loaded.shuffle(seed=1), "flatten_indices"),
        (loaded.select([1, 3]), "flatten_indices"),
        (loaded.rename_column("id", "number"), "rename_columns.*save_to_disk"),
        (datasets.Dataset.from_dict({"id": [1]}), "in memory.*save_to_disk"),
    ]:
        with pytest.raises(ValueError, match=message):
            fb.Loader(remote=changed, batch_size=1)


def test_the_rows_of_flatten_indices_are_read(loaded, tmp_path):
    shuffled = loaded.shuffle(seed=1).flatten_indices(cache_file_name=str(tmp_path / "flat.arrow"))
    with fb.Loader(remote=shuffled, batch_size=50, fields=FIELDS, framework="numpy") as loader:
        check_rows(loader, shuffled)


def nullable_rows(count):
    draw = np.random.default_rng(count)
    for n in range(count):
        yield {
            "id": n,
            "number": None if n % 7 == 2 else int(draw.integers(-50, 50)),
            "ratio": None if n % 11 == 4 else float(draw.normal()),
            "text": None if n % 5 == 1 else ["cat", "dog", "", "ü"][n % 4],
            "flag": None if n % 13 == 5 else bool(n % 2),
            "image": {"bytes": draw.bytes(n * 31 % 700), "path": f"{n}.jpg"},
            "meta": {"width": int(draw.integers(0, 500)), "tag": "ab"[n % 2]},
        }


FILTERS = {
    "number < 10": lambda row: row["number"] is not None and row["number"] < 10,
    "not number < 10 and ratio <= 0.25": lambda row: (
        row["number"] is not None and row["number"] >= 10 and row["ratio"] is not None and row["ratio"] <= 0.25
    ),
    "text in ('cat', 'ü') or text is null": lambda row: row["text"] in ("cat", "ü", None),
    "flag == true": lambda row: row["flag"] is True,
    "flag != true or number is null": lambda row: row["flag"] is False or row["number"] is None,
    "meta.width >= 256 and meta.tag == 'a'": lambda row: row["meta"]["width"] >= 256 and row["meta"]["tag"] == "a",
    "id in (5, 17, 299, 300)": lambda row: row["id"] in (5, 17, 299),
    "image.path < '2'": lambda row: row["image"]["path"] < "2",
    "number > ratio": lambda row: None not in (row["number"], row["ratio"]) and row["number"] > row["ratio"],
}


@pytest.mark.parametrize("form", ["parquet", "small groups", "saved", "folder"])
def test_a_filter_keeps_the_rows_that_datasets_keeps(form, tmp_path):
    whole = datasets.Dataset.from_list(list(nullable_rows(300)))
    remote = tmp_path / "train.parquet"
    if form == "saved":
        whole.save_to_disk(tmp_path / "saved", num_shards=3)
        remote = tmp_path / "saved"
    elif form == "folder":
        remote = tmp_path / "set"
        remote.mkdir()
        for part in range(3):
            name = f"train-{part:05}-of-00003.parquet"
            whole.select(range(100 * part, 100 * part + 100)).to_parquet(remote / name, batch_size=30)
    else:
        whole.to_parquet(remote, batch_size=10 if form == "small groups" else 1000)
    for condition, keeps in FILTERS.items():
        theirs = whole.filter(keeps)["id"]
        assert 0 < len(theirs) < 300
        with fb.Loader(
            remote=remote, select=fb.Select(filter=condition), batch_size=8, fields={"id": fb.Scalar("id")}, framework="numpy"
        ) as loader:
            assert [number for batch in loader for number in batch["id"].tolist()] == list(theirs), condition
