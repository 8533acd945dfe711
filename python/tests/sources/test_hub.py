"""Data sets on the Hugging Face hub, and folders of files without an index."""

import pathlib
import shutil

import pytest
from hub_server import hub_server

import forebay as fb

DATA = pathlib.Path(__file__).parents[3] / "tests/data/parquet"

SETS = [(DATA / f"set-{n}.parquet").read_bytes() for n in range(2)]

NAME = "hf://datasets/me/set"


@pytest.fixture
def hub(monkeypatch):
    with hub_server() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


def ids(remote, **options):
    """Numbers of all samples."""
    with fb.Loader(remote=remote, batch_size=80, fields={"id": fb.Scalar("id")}, framework="numpy", **options) as loader:
        return [number for batch in loader for number in batch["id"].tolist()]


FIRST, SECOND = list(range(560)), list(range(560, 1120))


def test_splits_are_found_by_the_names_of_files(hub):
    hub.put("me/set", "README.md", b"# A set")
    hub.put("me/set", ".gitattributes", b"")
    hub.put("me/set", "data/train-00000-of-00002.parquet", SETS[0])
    hub.put("me/set", "data/train-00001-of-00002.parquet", SETS[1])
    hub.put("me/set", "data/test-00000-of-00001.parquet", SETS[1])
    assert ids(NAME, split="train") == FIRST + SECOND
    assert ids(NAME, split="test") == SECOND
    assert ids(f"{NAME}/data", split="test") == SECOND
    assert ids(f"{NAME}/data/train-*.parquet") == FIRST + SECOND
    with pytest.raises(ValueError, match=r'more than one split \(test, train\): choose one, as in split="test"'):
        ids(NAME)
    with pytest.raises(ValueError, match="no split dev; there are test, train"):
        ids(NAME, split="dev")


def test_a_stream_mixes_splits(hub):
    hub.put("me/set", "train.parquet", SETS[0])
    hub.put("me/set", "test.parquet", SETS[1])
    streams = [fb.Stream(remote=NAME, split=split) for split in ["train", "test"]]
    with fb.Loader(streams=streams, batch_size=80, fields={"id": fb.Scalar("id")}, framework="numpy") as loader:
        assert sorted(number for batch in loader for number in batch["id"].tolist()) == FIRST + SECOND


def test_the_card_has_configurations(hub):
    card = """---
license: mit
configs:
- config_name: small
  data_files:
  - split: train
    path: a/*.parquet
- config_name: large
  data_files:
  - split: train
    path: [a/*, b/*]
---
"""
    hub.put("me/set", "README.md", card.encode())
    hub.put("me/set", "a/0.parquet", SETS[0])
    hub.put("me/set", "b/0.parquet", SETS[1])
    assert ids(NAME, split="small/train") == ids(NAME, split="small") == FIRST
    assert ids(NAME, split="large/train") == FIRST + SECOND
    with pytest.raises(ValueError, match=r'more than one configuration \(large, small\): .* split="large/train"'):
        ids(NAME, split="train")


def test_the_card_has_folders_of_configurations(hub):
    card = """---
configs:
- config_name: en
  data_dir: en
- config_name: fr
  data_dir: ./fr/
  data_files:
  - split: train
    path: "*.parquet"
- config_name: gone
  data_dir: gone
---
"""
    hub.put("me/set", "README.md", card.encode())
    for name, content in [("en/train.parquet", SETS[0]), ("en/test.parquet", SETS[1]), ("fr/0.parquet", SETS[1]), ("0.parquet", SETS[0])]:
        hub.put("me/set", name, content)
    assert ids(NAME, split="en/train") == FIRST
    assert ids(NAME, split="en/test") == SECOND
    assert ids(NAME, split="fr/train") == ids(NAME, split="fr") == SECOND
    with pytest.raises(ValueError, match="data_dir.*folder gone"):
        ids(NAME, split="gone/train")


def test_a_file_of_the_card_that_does_not_exist_is_an_error(hub):
    hub.put("me/set", "README.md", b"---\nconfigs:\n- config_name: x\n  data_files: [0.parquet, '*-x.parquet', 1.parquet]\n---\n")
    hub.put("me/set", "0.parquet", SETS[0])
    with pytest.raises(ValueError, match=r"does not exist.*file 1\.parquet"):
        ids(NAME)
    hub.put("me/set", "1.parquet", SETS[1])
    assert ids(NAME) == FIRST + SECOND


def test_a_data_set_in_a_foreign_format_is_read_as_the_hub_converts_it(hub):
    hub.put("me/set", "data.csv", b"id\n1\n")
    converted = "refs/convert/parquet"
    hub.put("me/set", "default/train/0000.parquet", SETS[0], converted)
    hub.put("me/set", "default/train/0001.parquet", SETS[1], converted)
    hub.put("me/set", "default/partial-test/0000.parquet", SETS[1], converted)
    assert ids(NAME, split="train") == FIRST + SECOND
    assert ids(NAME, split="partial-test") == SECOND
    with pytest.raises(ValueError, match='only a part .* split="partial-test"'):
        ids(NAME, split="test")


def test_a_data_set_that_does_not_exist_is_an_error_of_the_hub(hub):
    hub.put("me/set", "notes.txt", b"")
    with pytest.raises(Exception, match="no data set me/absent, or it is private"):
        ids("hf://datasets/me/absent")
    with pytest.raises(FileNotFoundError):
        ids(NAME)


def test_a_folder_of_files_needs_no_index(bucket, bucket_environment, tmp_path):
    for number, content in enumerate(SETS):
        bucket.objects[f"folder/{number}.parquet"] = content
        (tmp_path / f"{number}.parquet").write_bytes(content)
    assert ids("s3://bucket/folder") == ids("s3://bucket/folder/") == FIRST + SECOND
    assert ids(tmp_path) == FIRST + SECOND
    with fb.Loader(local=tmp_path, batch_size=80, fields={"id": fb.Scalar("id")}, framework="numpy") as loader:
        assert [number for batch in loader for number in batch["id"].tolist()] == FIRST + SECOND
    # A file that is added is found, and one of a different kind is an error.
    shutil.copy(DATA / "set-0.parquet", tmp_path / "2.parquet")
    assert ids(tmp_path) == FIRST + SECOND + FIRST
    (tmp_path / "3.arrow").write_bytes(bytes(1024))
    with pytest.raises(ValueError, match="several kinds"):
        ids(tmp_path)
