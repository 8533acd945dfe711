"""Names of classes that the library `datasets` notes in Parquet and Arrow files."""

import json

import pytest

import forebay as fb

pa = pytest.importorskip("pyarrow")
import pyarrow.feather  # noqa: E402
import pyarrow.parquet  # noqa: E402

WRITE = {"parquet": pa.parquet.write_table, "arrow": lambda table, path: pa.feather.write_feather(table, path, compression="uncompressed")}


def write(path, names, first):
    features = {"n": {"dtype": "int64", "_type": "Value"}, "label": {"names": names, "_type": "ClassLabel"}}
    note = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"n": list(range(first, first + 4)), "label": [0, 1, 0, 1]}
    WRITE[path.suffix[1:]](pa.table(columns).replace_schema_metadata(note if names else None), str(path))


def numbers(folder, local, fields):
    with fb.Loader(remote=folder, local=local, batch_size=4, framework="numpy", fields=fields) as loader:
        return sorted(int(number) for batch in loader for number in batch["n"])


NUMBER, LABEL = {"n": fb.Scalar("n")}, {"n": fb.Scalar("n"), "label": fb.Scalar("label")}


@pytest.mark.parametrize("ending", WRITE)
@pytest.mark.parametrize("second", [["dog", "cat"], ["cat"], ["cat", "dog", "cow"]])
def test_files_with_different_classes_are_an_error_with_both(tmp_path, ending, second):
    (tmp_path / "data").mkdir()
    write(tmp_path / f"data/a.{ending}", ["cat", "dog"], 0)
    write(tmp_path / f"data/b.{ending}", second, 4)
    for _ in range(2):
        with pytest.raises(fb.ConfigError, match=rf"different lists of classes.*column label.*a\.{ending}.*b\.{ending}"):
            numbers(tmp_path / "data", tmp_path / "local", LABEL)
    assert numbers(tmp_path / "data", tmp_path / "local", NUMBER) == list(range(8))


@pytest.mark.parametrize("ending", WRITE)
def test_files_with_equal_classes_or_without_any_are_read(tmp_path, ending):
    (tmp_path / "data").mkdir()
    for number, names in enumerate((["cat", "dog"], ["cat", "dog"], [])):
        write(tmp_path / f"data/{number}.{ending}", names, 4 * number)
    assert numbers(tmp_path / "data", tmp_path / "local", LABEL) == list(range(12))


def test_two_streams_with_different_classes_are_an_error_for_a_column_of_any_name(tmp_path):
    for folder, names in (("a", ["cat", "dog"]), ("b", ["dog", "cat"])):
        (tmp_path / folder).mkdir()
        note = {"huggingface": json.dumps({"info": {"features": {"kind": {"names": names, "_type": "ClassLabel"}}}})}
        table = pa.table({"n": [0, 1], "kind": [0, 1]}).replace_schema_metadata(note)
        WRITE["parquet"](table, str(tmp_path / folder / f"{folder}.parquet"))
    streams = [fb.Stream(remote=tmp_path / folder, local=tmp_path / f"local-{folder}") for folder in "ab"]
    with pytest.raises(fb.ConfigError, match=r"two streams have different lists of classes.*column kind.*a\.parquet.*b\.parquet"):
        fb.Loader(streams=streams, batch_size=1, fields={"x": fb.Scalar("kind")})
    fb.Loader(streams=streams, batch_size=1, fields={"x": fb.Scalar("n")}).close()
