"""Columns of Parquet and Arrow files that are no plain values: lists of pictures, lists that are no arrays, parts of paths."""

import io
import json

import numpy as np
import pytest
from PIL import Image

import forebay as fb

pa = pytest.importorskip("pyarrow")
import pyarrow.dataset  # noqa: E402
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

WRITE = {"parquet": pa.parquet.write_table, "arrow": lambda table, path: pa.feather.write_feather(table, path, compression="uncompressed")}
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    WRITE[path.suffix[1:]](table, str(path))


def picture(colour, form="PNG", size=(3, 2)):
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, form, **({"quality": 95} if form == "JPEG" else {}))
    return file.getvalue()


def rows(remote, fields, **arguments):
    with fb.Loader(remote=remote, batch_size=1, framework="numpy", fields=fields, **arguments) as loader:
        return [{name: values[0] for name, values in batch.items()} for batch in loader]


@pytest.mark.parametrize("ending", WRITE)
@pytest.mark.parametrize(
    "kind", [pa.list_(PICTURE), pa.large_list(PICTURE), pa.list_(PICTURE, 2), pa.list_(pa.binary()), pa.list_(pa.large_binary())]
)
def test_a_list_of_pictures_is_the_first_dimension_of_an_image(tmp_path, ending, kind):
    files = [picture((1, 2, 3)), picture((4, 5, 6), "GIF" if ending == "parquet" else "BMP")]
    items = [{"bytes": file, "path": None} for file in files] if kind.value_type == PICTURE else files
    write(pa.table({"images": pa.array([items, items[::-1]], kind), "n": [0, 1]}), tmp_path / f"set/a.{ending}")
    found = rows(tmp_path / "set", {"x": fb.Image("images"), "y": fb.Image("images", fb.Resize(1), fb.CenterCrop(1)), "n": fb.Scalar("n")})
    for row in found:
        colours = [(1, 2, 3), (4, 5, 6)][:: -1 if row["n"] else 1]
        assert row["x"].shape == (2, 3, 2, 3) and row["x"][:, :, 0, 0].tolist() == list(map(list, colours))
        assert row["y"].shape == (2, 3, 1, 1)
    reader = fb.ShardReader(tmp_path / "set")
    assert [reader[0]["images"], reader[1]["images"]] == [files, files[::-1]]


def test_lists_of_pictures_have_any_length_and_a_damaged_one_is_one_sample(tmp_path):
    whole, absent = {"bytes": picture((9, 9, 9)), "path": "a.png"}, {"bytes": None, "path": "a.png"}
    lists = [[], [whole], [whole] * 5, [whole, absent], [whole, None], None]
    write(pa.table({"images": pa.array(lists, pa.list_(PICTURE)), "n": range(6)}), tmp_path / "set/a.parquet")
    found = rows(tmp_path / "set", {"x": fb.Image("images"), "n": fb.Scalar("n")}, skip=fb.Skip(errors=9))
    assert [(int(row["n"]), len(row["x"])) for row in found] == [(1, 1), (2, 5)]
    reader = fb.ShardReader(tmp_path / "set")
    assert [reader[n]["images"] for n in (0, 3, 4, 5)] == [[], [whole["bytes"], b""], [whole["bytes"], b""], None]


def test_lists_inside_of_lists_are_arrays_where_they_can_be_and_block_no_other_row(tmp_path):
    lists = [[[1, 2, 3], [4]], [[5, 6]], [[7, None]], [], [[]], [[8], [9]]]
    table = pa.table({"v": pa.array(lists, pa.list_(pa.list_(pa.int64()))), "n": range(6)})
    write(table, tmp_path / "set/a.parquet")
    reader = fb.ShardReader(tmp_path / "set")
    assert [reader[n]["v"] for n in (0, 2)] == [lists[0], lists[2]]
    for n in (1, 3, 4, 5):
        found = reader[n]["v"]
        assert isinstance(found, np.ndarray) and found.dtype == np.int64 and found.tolist() == lists[n]
    assert [reader[n]["n"] for n in range(6)] == list(range(6))
    found = rows(tmp_path / "set", {"v": fb.Array("v"), "n": fb.Scalar("n")}, skip=fb.Skip(errors=9))
    assert [(int(row["n"]), row["v"].tolist()) for row in found] == [(n, lists[n]) for n in (1, 3, 4, 5)]
    with pytest.raises(fb.DecodeError, match="different lengths, or an element is null.*Text or Json.*row_in_group 0"):
        rows(tmp_path / "set", {"v": fb.Array("v")})
    found = rows(tmp_path / "set", {"v": fb.Text("v")})
    assert [json.loads(row["v"]) for row in found] == lists


def test_a_column_that_cannot_be_delivered_does_not_block_the_rest_of_a_reader(tmp_path):
    nested = pa.array([[[b"a"]], [[b"b"]]], pa.list_(pa.list_(pa.binary())))
    lists = pa.array([[[1.5], [2, 3]], [[4]]], pa.list_(pa.list_(pa.float32())))
    write(pa.table({"bad": nested, "a": [1, 2], "v": lists}), tmp_path / "set/a.parquet")
    reader = fb.ShardReader(tmp_path / "set")
    assert (reader[0]["a"], reader[0]["v"], "bad" in reader[0]) == (1, [[1.5], [2, 3]], False)
    assert reader[1]["v"].dtype == np.float32


@pytest.mark.parametrize("ending", WRITE)
def test_names_and_values_in_the_paths_of_tables_are_columns(tmp_path, ending):
    n = 0
    for year in (2023, 2024):
        for lang in ("en", "de%20AT", "__HIVE_DEFAULT_PARTITION__"):
            write(pa.table({"n": [n, n + 1]}), tmp_path / f"set/year={year}/lang={lang}/0.{ending}")
            n += 2
    kind = "feather" if ending == "arrow" else ending
    expected = pa.dataset.dataset(tmp_path / "set", format=kind, partitioning="hive").to_table().to_pylist()
    expected.sort(key=lambda row: row["n"])
    fields = {"n": fb.Scalar("n"), "year": fb.Scalar("year"), "lang": fb.Text("lang", default="-")}
    found = sorted(rows(tmp_path / "set", fields), key=lambda row: row["n"])
    shown = [{"n": int(row["n"]), "year": int(row["year"]), "lang": None if row["lang"] == "-" else row["lang"]} for row in found]
    assert shown == expected
    assert found[0]["year"].dtype == np.int32
    for condition, keep in [
        ("year == 2024", lambda row: row["year"] == 2024),
        ("lang == 'de AT' and n > 3", lambda row: row["lang"] == "de AT" and row["n"] > 3),
    ]:
        chosen = rows(tmp_path / "set", {"n": fb.Scalar("n")}, select=fb.Select(filter=condition))
        assert sorted(int(row["n"]) for row in chosen) == [row["n"] for row in expected if keep(row)]
    assert sorted(int(row["year"]) for row in rows(tmp_path / "set", {"year": fb.Scalar("year")})) == [2023] * 6 + [2024] * 6
    reader = fb.ShardReader(tmp_path / "set")
    assert sorted((dict(sample) for sample in reader), key=lambda row: row["n"]) == expected
    with pytest.raises(fb.Error, match="null"):
        rows(tmp_path / "set", {"lang": fb.Text("lang")})


def test_a_column_of_the_file_comes_before_one_in_its_path(tmp_path):
    for k in (1, 2):
        write(pa.table({"k": [10 * k]}), tmp_path / f"set/k={k}/0.parquet")
    assert sorted(int(row["k"]) for row in rows(tmp_path / "set", {"k": fb.Scalar("k")})) == [10, 20]


def test_a_dataset_dict_is_read_by_its_splits(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = {name: datasets.Dataset.from_dict({"n": [n, n + 1]}) for n, name in ((0, "train_sft"), (10, "train_gen"))}
    datasets.DatasetDict(data).save_to_disk(str(tmp_path / "set"))
    fields = {"n": fb.Scalar("n")}
    assert [int(row["n"]) for row in rows(tmp_path / "set", fields, split="train_gen")] == [10, 11]
    with pytest.raises(fb.ConfigError, match=r"\(train_gen, train_sft\): choose one, as in split="):
        rows(tmp_path / "set", fields)
    loaded = datasets.load_from_disk(str(tmp_path / "set"))
    assert [int(row["n"]) for row in rows(loaded, fields, split="train_sft")] == [0, 1]
    with pytest.raises(fb.ConfigError, match='DatasetDict has more than one split; there are .*: choose one, as in split="'):
        rows(loaded, fields)
    with pytest.raises(fb.ConfigError, match="DatasetDict has no split 'train'"):
        rows(loaded, fields, split="train")
    assert [int(row["n"]) for row in rows(datasets.DatasetDict({"a": loaded["train_gen"]}), fields)] == [10, 11]


@pytest.mark.parametrize("ending", WRITE)
def test_the_classes_of_a_loader_are_the_names_of_its_labels(tmp_path, ending):
    def found(features, fields):
        note = {"huggingface": json.dumps({"info": {"features": features}})}
        columns = {"n": [1, 2], "label": [0, 1], "kind": [1, 0]}
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        write(pa.table(columns).replace_schema_metadata(note), folder / f"a.{ending}")
        with fb.Loader(remote=folder, batch_size=1, framework="numpy", fields=fields) as loader:
            return loader.classes

    def label(*names):
        return {"names": list(names), "_type": "ClassLabel"}

    read = {"n": fb.Scalar("n")}
    assert found({"label": label("cat", "dog")}, read) == ["cat", "dog"]
    assert found({"kind": label("a", "b")}, read) == ["a", "b"]
    both = {"label": label("cat", "dog"), "kind": label("a", "b")}
    assert found(both, read) == ["cat", "dog"]
    assert found(both, {"y": fb.Scalar("kind")}) == ["a", "b"]
    assert found({"kind": label("a", "b"), "n": label("x", "y", "z")}, {"y": fb.Scalar("label")}) is None
    assert found({}, read) is None
