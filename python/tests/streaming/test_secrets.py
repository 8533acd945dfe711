"""Secrets in the addresses of stores: user names, passwords, queries and fragments are in no message."""

import logging
import os
import shutil
import traceback

import pytest
from number_sets import numbers, write

import forebay as fb
from forebay.index import index
from forebay.streaming import LocalDataset, Stream, StreamingDataset
from forebay.streaming.base.storage import download
from forebay.streaming.base.storage.download import CloudDownloader
from forebay.streaming.base.storage.upload import UPLOADERS, CloudUploader
from forebay.streaming.base.util import merge_index

ADDRESSES = [
    "http://me:gEhEiM@host/set",
    "http://me:12345/gEhEiM@host/set",
    "http://host/set?sig=gEhEiM",
    "s3://AKIA:gEhEiM@bucket/set",
    "gs://bucket/set#gEhEiM",
    "azure-dl://me:gEhEiM@container/set",
    "dbfs:/Volumes/set?sig=gEhEiM",
    "sftp://me:gEhEiM@host/set",
    "oci://me:gEhEiM@namespace/set",
]


def shown(error):
    """The texts of an error and of those that led to it, without the lines of code between them."""
    if error is None:
        return ""
    own = "".join(traceback.format_exception_only(type(error), error)) + repr(error)
    return own + shown(error.__cause__) + shown(error.__context__)


class LibraryError(Exception):
    """Error of a store's library, with the address in its text, its fields and its cause."""

    def __init__(self, text):
        super().__init__(text, {"request": [text]}, ConnectionError(text))
        self.text = text

    def __str__(self):
        return f"{self.args[0]}: {self.text}"


PATHS = ["me:gEhEiM@host:/set", "//me:gEhEiM@host/set"]


@pytest.mark.parametrize("address", [*ADDRESSES, *PATHS, "http://host/set;jsessionid=gEhEiM", "http://host/set&sig=gEhEiM"])
def test_an_address_where_a_folder_is_expected_does_not_show_them(address, tmp_path):
    for call in (
        lambda: fb.ShardReader(address),
        lambda: fb.read_index(address),
        lambda: fb.MDSWriter(out=address, columns={"a": "int"}),
        lambda: fb.Loader(local=address, batch_size=1),
        lambda: fb.Loader(remote=[address], batch_size=1),
        lambda: fb.Loader(streams=[address], batch_size=1),
        lambda: index(address, tmp_path / "out"),
        lambda: LocalDataset(address),
        lambda: StreamingDataset(local=address, batch_size=1),
        lambda: StreamingDataset(streams=[address], batch_size=1),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011: the classes differ
            call()
        assert "gEhEiM" not in shown(caught.value)


@pytest.mark.parametrize("address", [*PATHS, "/nowhere/set?token=gEhEiM", "nowhere?X-Amz-Signature=gEhEiM"])
def test_an_address_without_its_scheme_is_an_error_without_them(address, tmp_path):
    for call in (
        lambda: fb.Loader(remote=address, local=tmp_path / "local", batch_size=1),
        lambda: StreamingDataset(remote=address, local=str(tmp_path / "local"), batch_size=1),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011: the messages differ
            call()
        assert "gEhEiM" not in shown(caught.value)


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The scheme lib://; a file that is not in `root` is an error of its library."""
    monkeypatch.setitem(download.DOWNLOADER_MAPPINGS, "lib", None)
    monkeypatch.setitem(UPLOADERS, "lib", "LibraryUploader")

    class Library(CloudDownloader):
        root = tmp_path / "root"

        @staticmethod
        def _client_identifier():
            return "lib"

        def clean_up(self):
            pass

        def _download_file_impl(self, remote, local, timeout):
            source = self.root / remote.split("@")[1].partition("/")[2]
            if source.exists():
                shutil.copy(source, local)
                return
            try:
                raise OSError(2, "no such object", remote)
            except OSError as error:
                raise LibraryError(f"cannot read {remote.removeprefix('lib://')}") from error

    class LibraryUploader(CloudUploader):
        is_absent = False

        def _connect(self):
            if "absent" in self.remote:
                raise LibraryError(f"no folder {self.remote}")

        def _upload(self, local, remote, advance):
            raise LibraryError(f"cannot write me%3AgEhEiM to {remote}")

        def _list(self, prefix):
            raise LibraryError(f"cannot list {self.remote}")

    from forebay.streaming.base.storage import upload

    monkeypatch.setattr(upload, "LibraryUploader", LibraryUploader, raising=False)
    return Library


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_downloader_of_a_different_scheme_does_not_show_them(address, tmp_path):
    names = [name for name in download.__all__ if name.endswith("Downloader") and name != "CloudDownloader"]
    for downloader in (getattr(download, name)() for name in names):
        if address.split(":")[0] == downloader._client_identifier().removesuffix("-uc"):
            continue
        with pytest.raises(ValueError, match="Expected") as caught:
            downloader.download(address, str(tmp_path / "file"))
        assert "gEhEiM" not in shown(caught.value), downloader


def test_an_error_of_a_library_stays_the_same_error_without_them(library, tmp_path):
    with pytest.raises(LibraryError) as caught:
        CloudDownloader.direct_download("lib://me:gEhEiM@host/set/x?sig=gEhEiM", str(tmp_path / "x"))
    assert "gEhEiM" not in shown(caught.value) and "gEhEiM" not in str(caught.value.args[2])
    assert str(caught.value) == "cannot read ...@host/set/x...: cannot read ...@host/set/x..."
    assert caught.value.args[1] == {"request": ["cannot read ...@host/set/x..."]}
    assert caught.value.__cause__.errno == 2
    with pytest.raises(LibraryError, match=r"cannot read me@x/y\?z"):
        library()._download_file_impl("lib://me@x/y?z", str(tmp_path / "x"), 1)


def test_an_error_about_an_address_without_secrets_is_unchanged(library, tmp_path, monkeypatch):
    monkeypatch.setattr(library, "_download_file_impl", lambda *_: (_ for _ in ()).throw(OSError(2, "no object", "x?y")))
    with pytest.raises(FileNotFoundError, match=r"\[Errno 2\] no object: 'x\?y'"):
        CloudDownloader.direct_download("lib://host/x", str(tmp_path / "x"))


def test_a_bucket_with_a_key_before_it_is_an_error_of_the_library_without_the_key(monkeypatch, tmp_path):
    exceptions = pytest.importorskip("botocore.exceptions", reason="boto3 is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "us-east-1")
    address = "s3://AKIA:gEhEiM@bucket/set"
    for call in (lambda: CloudDownloader.direct_download(address, str(tmp_path / "x")), lambda: CloudUploader.get(address)):
        with pytest.raises(exceptions.ParamValidationError, match=r'Invalid bucket name "\.\.\.@bucket"') as caught:
            call()
        assert "gEhEiM" not in shown(caught.value)


def test_an_uploader_does_not_show_them(library, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    address = "lib://me:gEhEiM@host/set"
    with pytest.raises(LibraryError, match=r"no folder lib://\.\.\.@host/set/absent") as caught:
        CloudUploader.get(f"{address}/absent")
    assert "gEhEiM" not in shown(caught.value)
    uploader = CloudUploader.get((str(tmp_path / "local"), address), retry=1)
    (tmp_path / "local" / "file").touch()
    for call in (lambda: uploader.upload_file("file"), uploader.list_objects):
        with pytest.raises(LibraryError, match=r"lib://\.\.\.@host/set") as caught:
            call()
        assert "gEhEiM" not in shown(caught.value)
    uploader.progress_bar = True
    with pytest.raises(LibraryError):
        uploader.upload_file("file")
    assert "uploading to lib://...@host/set/file" in caplog.text and "gEhEiM" not in caplog.text


def test_a_progress_bar_does_not_show_them(library, tmp_path, capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    uploader = CloudUploader.get((str(tmp_path / "local"), "lib://me:gEhEiM@host/set"), retry=1, progress_bar=True)
    (tmp_path / "local" / "file").write_bytes(b"x")
    with pytest.raises(LibraryError):
        uploader.upload_file("file")
    assert "Uploading to lib://...@host/set/file" in (err := capsys.readouterr().err) and "gEhEiM" not in err


@pytest.mark.parametrize("address", [*ADDRESSES, "lib://me:gEhEiM@host/set", "lib://me:12345/gEhEiM@host/set"])
def test_a_merged_index_does_not_show_them(address, library, tmp_path, monkeypatch):
    for scheme in list(UPLOADERS):
        if scheme:
            monkeypatch.setitem(download.DOWNLOADER_MAPPINGS, scheme, library)
    with pytest.raises(RuntimeError, match="Failed to download index.json") as caught:
        merge_index([f"{address}/1/index.json", f"{address}/2/index.json"], str(tmp_path / "out"))
    assert "gEhEiM" not in shown(caught.value)
    with pytest.raises(ValueError, match="Invalid arguments to merge_index") as caught:
        merge_index((address, address), 1, 2, 3)
    assert "gEhEiM" not in shown(caught.value)


def test_a_data_set_does_not_show_them(library, tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr("forebay.streaming.base.util.time.sleep", lambda seconds: None)
    write(library.root / "set", 60)
    remote = "lib://me:gEhEiM@host/set"
    local = str(tmp_path / "local")
    dataset = StreamingDataset(remote=remote, local=local, batch_size=4)
    assert numbers(dataset) == list(range(60))
    with pytest.raises(ValueError, match="Reused local directory: .* has the shards of lib://...@host/set") as caught:
        StreamingDataset(remote=remote.replace("gEhEiM", "gEhEiM2"), local=local, batch_size=4)
    assert "gEhEiM" not in shown(caught.value)
    os.remove(library.root / "set" / "index.json")
    with pytest.raises(LibraryError) as caught:
        StreamingDataset(remote=remote, local=str(tmp_path / "second"), batch_size=4, download_retry=2)
    assert "gEhEiM" not in shown(caught.value) and "gEhEiM" not in caplog.text


def test_the_engine_gets_a_name_without_them(library, tmp_path):
    stream = Stream(remote="lib://me:gEhEiM@host/set", local=str(tmp_path), split="train")
    stream.apply_default({"split": None, "download_retry": 1, "download_timeout": 7, "validate_hash": None, "keep_zip": False})
    assert stream._place()["remote"] == "lib://...@host/set/train"
