"""Errors about sources that name the change: addresses, columns, weights and streams that do not fit together."""

import logging
import pathlib

import numpy as np
import pytest
from tar_sets import END, tar, write_set

import forebay as fb
from forebay import index
from forebay.__main__ import main

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet/presence.parquet"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """Folder of tars."""
    write_set(tmp_path / "wds", (3, 2))
    return tmp_path / "wds"


@pytest.fixture
def shards(tmp_path):
    """Folder of MDS with a number, a text and a weight."""
    with fb.MDSWriter(out=tmp_path / "set", columns={"label": "int", "name": "str", "weight": "float32"}) as writer:
        for number in range(8):
            writer.write({"label": number % 4, "name": f"n{number}", "weight": np.float32(number - 1)})
    return str(tmp_path / "set")


def error(**arguments):
    """The error of a loader's first batch."""
    with pytest.raises(fb.Error) as caught:
        with fb.Loader(**{"batch_size": 2, "framework": "numpy"} | arguments) as loader:
            next(iter(loader))
    return caught.value


@pytest.mark.parametrize("several", [list, tuple])
def test_a_list_has_its_files_in_order_by_their_exact_names(several, folder, tmp_path):
    odd = tmp_path / "a{1,2}b.tar"
    odd.write_bytes(pathlib.Path(folder, "train-000.tar").read_bytes())
    first, second = pathlib.Path(folder, "train-000.tar"), f"{folder}/train-001.tar"

    def labels(files):
        with fb.Loader(remote=several(files), batch_size=1, framework="numpy", fields={"y": fb.Scalar("cls")}) as loader:
            return [int(batch["y"][0]) for batch in loader]

    one, two = labels([first]), labels([second])
    assert labels([second, first]) == two + one
    assert labels([odd, second]) == one + two
    assert labels([f"{folder}/train-*.tar"]) == one + two
    assert len(fb.ShardReader(several([first, second]))) == len(fb.ShardReader("::".join([str(first), second]))) == 5


def test_a_list_that_is_no_list_of_files_is_an_error(folder):
    for several, sentence in [
        ({f"{folder}/train-000.tar"}, "a set, which has no order"),
        ([], "a list of files, but it is []"),
        ([folder, folder], "pass each folder as a Stream"),
        ([f"{folder}/a.tar::{folder}/b.tar"], "remote[0] is one file of a list"),
        ([f"{folder}/train-000.tar", ""], "remote[1] is one file of a list"),
        ([f"{folder}/train-000.tar", 7], "remote[1]"),
    ]:
        assert sentence in str(error(remote=several))
    assert str(error(streams=[fb.Stream(remote=[folder, folder])])).startswith("streams[0]: remote is a URL or a path")
    with pytest.raises(fb.ConfigError, match="pass each folder as a Stream"):
        index.index_tars([folder, folder])


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("rows.txt", 'files="each" of a Stream makes each file a sample'),
        ("rows.zip", "unpack the archive"),
        ("shard.00000.mds", "name its folder, which has the index.json"),
    ],
)
@pytest.mark.parametrize("argument", ["remote", "local"])
def test_a_file_that_is_not_read_as_it_is_names_the_way(argument, name, advice, tmp_path):
    (tmp_path / name).write_text('{"a": 1}\n')
    message = str(error(**{argument: str(tmp_path / name)}))
    assert advice in message
    assert ("names a file of a kind that is not read" if argument == "remote" else "this is a file, and not a folder") in message
    if argument == "remote":
        assert advice in str(error(remote=str(tmp_path / "absent" / name)))
        with pytest.raises(fb.NotFoundError) as caught:
            fb.ShardReader(str(tmp_path / name))
        assert advice in str(caught.value)


def test_a_file_of_a_store_names_the_way(bucket, bucket_environment):
    bucket.objects["rows/part.txt"] = b"{}\n"
    assert "an object in each line as .jsonl" in str(error(remote="s3://bucket/rows/part.txt", fetch=fb.Fetch(retry=1)))


@pytest.mark.parametrize("pattern", ["*", "train-*", "train-{000..001}", "train-00?"])
def test_a_list_without_an_extension_names_the_form(pattern, folder):
    assert "names of a list have the extension of its files, as in *.tar" in str(error(remote=f"{folder}/{pattern}"))


@pytest.mark.parametrize(
    ("source", "name", "meant", "effect"),
    [("tars", "clss", "cls", "cls, txt"), ("mds", "lable", "label", "label, name"), ("parquet", "som", "some", "some")],
)
def test_a_column_with_a_mistake_in_its_name_is_an_error_in_each_way(source, name, meant, effect, folder, shards):
    remote = {"tars": str(folder), "mds": shards, "parquet": str(PARQUET)}[source]
    for field, options, sentence in [
        (fb.Bytes(name), {}, "no such column"),
        (fb.Bytes(name), {"skip": fb.Skip(missing=True)}, 'no such column, so skip.missing would leave out all samples'),
        (fb.Bytes(name, default=b""), {}, "no such column, so all samples would have the field's default"),
        (
            fb.Bytes(name, default=b""),
            {"skip": fb.Skip(missing=True)},
            "no such column, so all samples would have the field's default",
        ),
    ]:
        found = error(remote=remote, fields={"y": field}, **options)
        assert isinstance(found, fb.ConfigError)
        message = str(found)
        assert sentence in message and message.endswith(f"did you mean `{meant}`?"), message
        assert effect in message and "__fields__" not in message and "filter" not in message, message


def test_a_column_that_the_counted_samples_lack_is_a_warning_with_the_near_name(tmp_path, caplog):
    (tmp_path / "0.tar").write_bytes(tar([(f"{i}", {"cls": b"%d" % i}) for i in range(3)]) + END)
    (tmp_path / "sizes.json").write_text('{"0.tar": 3}')
    fields = {"y": fb.Bytes("clss", default=b"-")}
    with caplog.at_level(logging.WARNING, "forebay"):
        with fb.Loader(remote=f"{tmp_path}/0.tar", batch_size=3, fields=fields, framework="numpy") as loader:
            assert list(map(bytes, next(iter(loader))["y"])) == [b"-"] * 3
    assert "no sample is known to have the column clss" in caplog.text and "did you mean `cls`?" in caplog.text
    assert "so skip.missing" in str(error(remote=f"{tmp_path}/0.tar", fields={"y": fb.Bytes("clss")}, skip=fb.Skip(missing=True)))


def test_weights_that_are_no_weights_name_the_number_and_the_change(shards):
    for weights, message in [
        ([1.0, -1.0] * 4, "select: weights[1] is a number, at least 0, but it is -1.0"),
        ([float("nan")] * 8, "select: weights[0] is a number, at least 0, but it is nan"),
    ]:
        assert str(error(remote=shards, select=fb.Select(weights=weights))) == message
    for weights, number in [(np.full(8, np.nan), "NaN (number 0"), (np.arange(8) - 1.0, "-1 (number 0"), ("weight", "-1")]:
        message = str(error(remote=shards, select=fb.Select(weights=weights)))
        assert number in message and "weights" in message
        assert message.endswith("replace such numbers before: a weight of 0 leaves its sample out"), message


def test_a_filter_has_lists_as_in_python(shards):
    def kept(condition):
        with fb.Loader(
            remote=shards, batch_size=8, select=fb.Select(filter=condition), fields={"y": fb.Scalar("label")}, framework="numpy"
        ) as loader:
            return sorted(loader_batch for batch in loader for loader_batch in batch["y"].tolist())

    assert kept("label in [1, 2]") == kept("label in (1, 2)") == [1, 1, 2, 2]
    assert kept("label not in [0] and name is not None") == [1, 1, 2, 2, 3, 3]
    assert "write `and`" in str(error(remote=shards, select=fb.Select(filter="label > 1 & label < 3")))


def test_streams_with_different_columns_are_named_with_the_difference(folder, shards):
    streams = [fb.Stream(remote=shards), fb.Stream(remote=str(folder))]
    message = str(error(streams=streams))
    assert "the streams' columns differ, and so would their outputs: only the first has `label`, `name`, `weight`" in message
    assert "only the second has `__key__`, `cls`, `txt`" in message
    assert f"stream 0 ({shards})" in message and f"second stream 1 ({folder})" in message
    assert message.endswith("pass `fields` that all of them can fill; a field with a `default` may lack its column")


def test_streams_with_different_types_are_named_with_the_types(shards, tmp_path):
    with fb.MDSWriter(out=tmp_path / "second", columns={"label": "float32", "name": "str"}) as writer:
        writer.write({"label": np.float32(1), "name": "a"})
    streams = [fb.Stream(remote=shards), fb.Stream(remote=str(tmp_path / "second"))]
    fields = {"y": fb.Scalar("label"), "name": fb.Text("name")}
    message = str(error(streams=streams, fields=fields))
    assert "`y` is int64 and float32" in message and "pass these fields a `dtype` or a `shape`" in message
    with fb.Loader(streams=streams, batch_size=9, fields={"y": fb.Scalar("label", "float32")}, framework="numpy") as loader:
        assert len(next(iter(loader))["y"]) == 9


def test_the_command_indexes_a_folder_of_tars(folder, capsys):
    assert main(["index", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("index.json: 2 tars, 5 samples\n")
    with fb.Loader(remote=str(folder), batch_size=5, framework="numpy", fields={"y": fb.Scalar("cls")}) as loader:
        assert next(iter(loader))["y"].tolist() == [0, 1, 2, 3, 4]
    assert main(["index", str(folder)]) == 2
    assert "exists: pass overwrite=True (--overwrite)" in capsys.readouterr().err
    assert main(["index", "--overwrite", str(folder)]) == 0


def test_the_command_indexes_a_folder_of_tars_of_a_store(stored_tars, capsys):
    prefix = stored_tars.rsplit("/", 1)[0]
    assert main(["index", prefix]) == 0
    assert "index.json: 6 tars, 80 samples" in capsys.readouterr().out


def test_the_command_does_not_guess_the_kind_of_a_folder(folder, tmp_path, capsys):
    (folder / "preview.png").write_bytes(b"")
    assert main(["index", str(folder)]) == 2
    assert "files of two kinds: name those to read, such as *.tar" in capsys.readouterr().err
    assert main(["index", str(tmp_path / "absent")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(["index", f"{folder}/*"]) == 2
    assert "a list of files has their extension, as in 'train/*.tar'" in capsys.readouterr().err
    with pytest.raises(fb.ConfigError, match="nor a folder of tars"):
        (tmp_path / "empty").mkdir()
        index.index_tars(str(tmp_path / "empty"))
