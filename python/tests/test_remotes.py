"""Remotes of fsspec's schemes and of a program's own."""

import sys

import pytest
from loaders import NUMBER, numbers
from sftp_server import COUNT, write_numbers
from torch.utils.data import DataLoader

import forebay as fb
from forebay import remotes
from forebay.streaming import StreamingDataset
from forebay.verify import verify

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

FILES = ("set/a.bin", "set/b/a.bin", "set/b/c/a.bin")
FAILURES = {}
TWICE = fb.StoreOptions(retry=2)


@pytest.fixture
def memory():
    """Address of a data set in fsspec's memory."""
    remote = "memory://numbers/train"
    write_numbers(remote, compression="zstd")
    yield remote
    fsspec.filesystem("memory").rm("/numbers", recursive=True)


@pytest.fixture
def folder(tmp_path):
    write_numbers(tmp_path / "folder")
    return tmp_path / "folder"


class Shelf(remotes.RemoteFolder):
    """Folder of this machine under a new scheme, which can only be read."""

    root, failure = None, None

    def stat(self, key):
        if Shelf.failure is not None:
            raise Shelf.failure
        path = Shelf.root / key
        return remotes.RemoteFile(key, path.stat().st_size) if path.exists() else None

    def get(self, key, start):
        yield (Shelf.root / key).read_bytes()[start:]


@pytest.fixture
def shelf(folder, monkeypatch):
    monkeypatch.setattr(Shelf, "root", folder)
    remotes.register("rack", lambda url, timeout: Shelf())
    return "rack://me:gEhEiM@host/set"


def test_a_data_set_of_a_file_system_of_fsspec_is_written_read_and_verified(memory, folder, tmp_path):
    with (
        fb.Loader(remote=folder, fields=NUMBER, batch_size=16, shuffle=True) as expected,
        fb.Loader(remote=memory, local=tmp_path / "local", fields=NUMBER, batch_size=16, shuffle=True) as found,
    ):
        assert numbers(found) == numbers(expected)
    assert verify(memory).is_intact
    with pytest.raises(fb.ConfigError, match="Directory is not empty"):
        write_numbers(memory)
    write_numbers(memory, exist_ok=True)
    assert verify(memory).is_intact
    with pytest.raises(fb.NotFoundError, match=r"no such file.*remote memory://numbers/test"):
        fb.Loader(remote="memory://numbers", split="test", local=tmp_path / "second", batch_size=1)


@pytest.fixture
def failures():
    """Errors of the listings of each folder of `tree://set`, a file system that can list one folder at a time."""
    class Tree(fsspec.AbstractFileSystem):
        protocol = "tree"

        def ls(self, path, detail=True, **kwargs):
            if of_folder := FAILURES.get(path.rpartition("/")[2]):
                raise of_folder.pop()
            start = f"{path.rstrip('/')}/"
            names = sorted({start + name.removeprefix(start).split("/")[0] for name in FILES if name.startswith(start)})
            if not names:
                raise FileNotFoundError(path)
            return [{"name": name, "size": 10, "type": "file" if name in FILES else "directory"} for name in names]

    fsspec.register_implementation("tree", Tree, clobber=True)
    yield FAILURES
    FAILURES.clear()


@pytest.mark.parametrize(
    ("errors", "cls"),
    [([OSError("broken")], None), ([FileNotFoundError("gone")], None), ([OSError("broken")] * 9, fb.NetworkError),
     ([FileNotFoundError("gone")] * 9, fb.NetworkError), ([PermissionError(13, "closed")], fb.AccessError)],
)  # fmt: skip
def test_a_folder_below_that_cannot_be_listed_is_not_left_out(failures, errors, cls):
    failures["c"] = list(errors)
    if cls is None:
        assert [file.url for file in fb.list_files("tree://set/", store=TWICE)] == [f"tree://{name}" for name in FILES]
    else:
        with pytest.raises(cls):
            list(fb.list_files("tree://set/", store=TWICE))
    assert list(fb.list_files("tree://set/none/")) == []


def test_a_scheme_of_the_program_is_read_by_its_own_class(shelf, tmp_path):
    with fb.Loader(remote=shelf, local=tmp_path / "local", fields=NUMBER, batch_size=16) as found:
        assert sorted(sum(numbers(found), [])) == list(range(COUNT))
    assert verify(shelf).is_intact
    with pytest.raises(fb.UnsupportedError, match="Shelf can be read only"):
        fb.MDSWriter(out=shelf, columns={"a": "int"})


@pytest.mark.parametrize("workers", [0, 2])
def test_single_samples_of_it_are_read(shelf, workers):
    loader = DataLoader(fb.ShardReader(shelf), batch_size=4, num_workers=workers, timeout=600 if workers else 0)
    assert [int(number) for batch in loader for number in batch["number"]] == list(range(COUNT))


@pytest.mark.parametrize("workers", [0, 2])
def test_forebay_streaming_reads_it_too(shelf, tmp_path, workers):
    dataset = StreamingDataset(remote=shelf, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1)
    assert int(dataset[COUNT - 1]["number"]) == COUNT - 1
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0)
    assert sorted(int(number) for batch in loader for number in batch["number"]) == list(range(COUNT))


@pytest.mark.parametrize(
    ("failure", "cls", "attempts"),
    [
        (OSError("me:gEhEiM is broken"), fb.NetworkError, 2),
        (KeyError("gEhEiM"), fb.NetworkError, 2),
        (TimeoutError("late"), fb.StalledError, 2),
        (PermissionError(13, "closed"), fb.AccessError, 1),
        (OSError(28, "no space"), fb.FullError, 1),
        (fb.FormatError("not for me:gEhEiM"), fb.FormatError, 1),
    ],
)
def test_an_error_of_its_class_has_a_kind_and_no_secrets(shelf, tmp_path, monkeypatch, failure, cls, attempts):
    monkeypatch.setattr(Shelf, "failure", failure)
    with pytest.raises(cls, match=f"attempt {attempts} of 2, key index.json, remote rack://...@host/set") as caught:
        fb.Loader(remote=shelf, local=tmp_path / "local", batch_size=1)
    assert "gEhEiM" not in f"{caught.value!r} {caught.value.context}"


def test_a_scheme_of_the_engine_cannot_be_replaced():
    for scheme in ("s3", "https", "file", "no scheme", "x"):
        with pytest.raises(fb.ConfigError, match="is not a scheme, or it is one that forebay opens"):
            remotes.register(scheme, lambda url, timeout: Shelf())


def test_an_unknown_scheme_and_missing_libraries_are_named(tmp_path, monkeypatch):
    def opened(remote):
        return fb.Loader(remote=remote, local=tmp_path / "local", batch_size=1)

    with pytest.raises(fb.ConfigError, match=r"unknown scheme: use s3://"):
        opened("s33://bucket/set")
    monkeypatch.setitem(sys.modules, "smbclient", None)
    with pytest.raises(fb.UnsupportedError, match=r"smb:// remotes need one more package: .*smbprotocol"):
        opened("smb://host/share/set")
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(fb.UnsupportedError, match="pip install fsspec"):
        opened("webdav://host/set")


@pytest.mark.parametrize(
    ("remote", "match"),
    [
        ("r2://bucket/set", "use s3://BUCKET/folder, with AWS_ENDPOINT_URL=https://ACCOUNT.r2.cloudflarestorage.com"),
        ("alipan://set", "copy the data set to a folder"),
    ],
)
def test_a_scheme_without_a_transport_has_an_error_with_an_alternative(remote, match, tmp_path):
    with pytest.raises(fb.UnsupportedError, match=match):
        fb.Loader(remote=remote, local=tmp_path / "local", batch_size=1)
