"""Folders with several splits, hidden folders and files of two kinds: refused or left out, never a part of the data in silence."""

import io
import shutil
import tarfile

import pytest
from PIL import Image

import forebay as fb


def write_tar(path, key):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(f"{key}.cls")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"1"))


def write_picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)


def keys(remote, **arguments):
    fields = {"key": fb.Text("__key__")}
    with fb.Loader(remote=str(remote), batch_size=4, framework="numpy", fields=fields, **arguments) as loader:
        return [key for batch in loader for key in batch["key"]]


@pytest.fixture
def tars(tmp_path):
    for split in ("test", "train", "val"):
        write_tar(tmp_path / "set" / split / "0.tar", split)
    return tmp_path / "set"


def test_tars_of_several_splits_need_the_name_of_one(tars):
    with pytest.raises(fb.ConfigError, match=r'more than one split \(test, train, val\): choose one, as in split="train"'):
        keys(tars)
    assert keys(tars, split="train") == ["train"]
    assert sorted(keys(f"{tars}/**/*.tar")) == ["test", "train", "val"]


def test_tars_in_one_folder_with_the_names_of_several_splits_need_a_list(tmp_path):
    for name in ("imagenet-train-000000", "imagenet-train-000001", "imagenet-val-000000"):
        write_tar(tmp_path / "set" / f"{name}.tar", name)
    with pytest.raises(fb.ConfigError, match=r"more than one split: name the files of one by a list, such as \*train\*\.tar.*train-000000\.tar.*val-000000\.tar"):
        keys(tmp_path / "set")
    assert keys(f"{tmp_path}/set/*train*.tar") == ["imagenet-train-000000", "imagenet-train-000001"]


def test_hidden_tars_are_no_data(tars):
    write_tar(tars / "train/.cache/1.tar", "hidden")
    write_tar(tars / "train/._0.tar", "hidden")
    assert keys(tars, split="train") == ["train"]


def labels(remote, **arguments):
    with fb.Loader(remote=str(remote), batch_size=4, framework="numpy", **arguments) as loader:
        return [int(label) for batch in loader for label in batch["label"]]


def test_splits_of_pictures_are_no_classes(tmp_path):
    for name in ("train/a/0.png", "train/b/0.png", "val/a/0.png"):
        write_picture(tmp_path / "set" / name)
    with pytest.raises(fb.ConfigError, match=r'more than one split \(train, val\): choose one, as in split="train"'):
        labels(tmp_path / "set")
    assert labels(tmp_path / "set", split="train") == [0, 1]
    shutil.rmtree(tmp_path / "set/val")
    with pytest.raises(fb.ConfigError, match='all pictures are in the folder train, which would be their only class'):
        labels(tmp_path / "set")


@pytest.mark.parametrize("hidden", [".ipynb_checkpoints/0-checkpoint.png", "__MACOSX/a/0.png"])
def test_a_hidden_folder_of_pictures_is_an_error_and_no_class(hidden, tmp_path):
    for name in ("a/0.png", "b/0.png", hidden):
        write_picture(tmp_path / "set" / name)
    with pytest.raises(fb.ConfigError, match=f"would be a class: remove it.*folder {hidden.split('/')[0]}"):
        labels(tmp_path / "set")
    shutil.rmtree(tmp_path / "set" / hidden.split("/")[0])
    assert labels(tmp_path / "set") == [0, 1]
