"""Writers beyond the bytes they write: arguments, uploads, failures."""

import gc
import json
import logging
import os
import threading
import warnings

import pytest

from forebay import _forebay
from forebay.streaming import LocalDataset
from forebay.streaming.base.format import CSVWriter, JSONWriter, MDSWriter
from forebay.streaming.base.storage import _downloader, download
from forebay.streaming.base.storage.upload import CloudUploader, LocalUploader

COLUMNS = {"text": "str", "number": "int"}


def fill(writer, samples=40):
    for i in range(samples):
        writer.write({"text": "x" * 50, "number": i})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compression": "zip"}, "Invalid compression: zip"),
        ({"hashes": ["xxh64", "sha1"]}, "sorted order"),
        ({"hashes": ["crc"]}, "Invalid hash: crc"),
        ({"size_limit": 1 << 32}, "`size_limit` must be less than"),
        ({"size_limit": -1}, "`size_limit` must be greater than zero"),
        ({"min_workers": 1}, "Invalid Writer argument"),
    ],
)
def test_a_wrong_argument_is_named(either, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        either("base.format").MDSWriter(out=str(tmp_path / "out"), columns=COLUMNS, **arguments)


def test_a_repeated_hash_is_rejected(tmp_path):
    # The reference's message has this text too, but it accepts them.
    with pytest.raises(ValueError, match="unique"):
        MDSWriter(out=str(tmp_path), columns=COLUMNS, hashes=["sha1", "sha1"])


def test_a_shard_beyond_the_range_of_offsets_is_an_error():
    # The reference's offsets wrap around.
    with pytest.raises(ValueError, match="4 GiB"):
        _forebay.offset_table([1 << 31, 1 << 31], 8, b"")


def test_an_unknown_encoding_is_named(either, tmp_path):
    with pytest.raises(TypeError, match="column `text` with encoding `text` is unsupported"):
        either("base.format").MDSWriter(out=str(tmp_path), columns={"text": "text"})


def test_a_folder_that_is_not_empty_is_rejected_or_emptied(either, tmp_path):
    module = either("base.format")
    (tmp_path / "old").write_text("old")
    with pytest.raises(FileExistsError, match="Directory is not empty"):
        module.MDSWriter(out=str(tmp_path), columns=COLUMNS)
    with module.MDSWriter(out=str(tmp_path), columns=COLUMNS, exist_ok=True) as writer:
        fill(writer)
    assert not (tmp_path / "old").exists() and (tmp_path / "index.json").exists()


def test_a_sample_that_does_not_match_its_columns_is_rejected(either, tmp_path):
    writer = either("base.format").MDSWriter(out=str(tmp_path), columns=COLUMNS)
    with pytest.raises(KeyError):
        writer.write({"text": "x"})
    with pytest.raises(AttributeError):
        writer.write({"text": 1, "number": 1})
    with pytest.raises(KeyError, match="Unexpected data size"):
        writer.write({"text": "x", "number": b"123"})
    writer.finish()


@pytest.mark.parametrize("keep_local", [True, False])
def test_shards_and_index_are_uploaded(either, tmp_path, keep_local):
    local, remote = tmp_path / "local", tmp_path / "remote"
    module = either("base.format")
    with module.MDSWriter(out=(str(local), str(remote)), columns=COLUMNS, size_limit=500, keep_local=keep_local) as w:
        fill(w)
    names = {shard["raw_data"]["basename"] for shard in json.loads((remote / "index.json").read_text())["shards"]}
    assert len(names) > 2
    assert set(os.listdir(remote)) == {*names, "index.json"}
    assert local.exists() is keep_local


def test_the_index_is_uploaded_after_every_shard(tmp_path, monkeypatch):
    # The reference waits until the queue is empty, but not for the uploads in flight.
    uploaded = []
    first_waits = threading.Event()
    plain = LocalUploader.upload_file

    def slow(self, filename):
        if filename == "shard.00000.mds":
            first_waits.wait(600)
        plain(self, filename)
        uploaded.append(filename)
        if len(uploaded) == shards - 1:
            first_waits.set()

    monkeypatch.setattr(LocalUploader, "upload_file", slow)
    shards = 6
    with MDSWriter(out=(str(tmp_path / "l"), str(tmp_path / "r")), columns=COLUMNS, size_limit=700, max_workers=6) as writer:
        fill(writer, 38)
    assert len(writer.shards) == shards
    assert uploaded[-2:] == ["shard.00000.mds", "index.json"]


def test_a_failed_upload_fails_the_writer_and_leaves_no_index(tmp_path, monkeypatch, caplog):
    def fail(self, filename):
        raise ConnectionError(f"no way for {filename}")

    monkeypatch.setattr(LocalUploader, "upload_file", fail)
    with caplog.at_level(logging.ERROR):
        with pytest.raises(Exception, match="One of the threads failed") as caught:
            with MDSWriter(out=(str(tmp_path / "l"), str(tmp_path / "r")), columns=COLUMNS, size_limit=500) as writer:
                fill(writer, 4000)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert "no way for shard" in caplog.text
    assert not (tmp_path / "r" / "index.json").exists()


def test_an_upload_is_tried_up_to_retry_times(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "file").write_text("x")
    attempts = []

    class Flaky(LocalUploader):
        def _upload(self, local, remote, advance):
            attempts.append(remote)
            raise OSError("again")

    uploader = Flaky((str(tmp_path), str(tmp_path / "r")), retry=3, exist_ok=True)
    with pytest.raises(OSError, match="again"):
        uploader.upload_file("file")
    assert len(attempts) == 3


def test_a_remote_without_a_local_folder_is_written_through_a_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path / "temporary"))

    class Anywhere(CloudUploader):
        pass

    uploader = Anywhere("s3://bucket/folder")
    assert uploader.local == str(tmp_path / "temporary") and uploader.remote == "s3://bucket/folder"
    with pytest.raises(NotImplementedError, match="Anywhere"):
        uploader.list_objects()


@pytest.mark.parametrize("out", [("only",), ("a", "b", "c")])
def test_out_is_a_folder_or_a_pair_of_local_and_remote(either, out):
    with pytest.raises(ValueError, match="Invalid `out` argument"):
        either("base.storage.upload").CloudUploader.get(out)


def test_an_unknown_scheme_is_named(either, tmp_path):
    with pytest.raises(ValueError, match="Invalid Cloud provider prefix: ftp"):
        either("base.storage.upload").CloudUploader.get("ftp://host/folder")
    with pytest.raises(ValueError):
        either("base.storage.download").CloudDownloader.get("tape://host/folder")


def test_a_local_file_is_copied_once_and_completely(either, tmp_path):
    downloader = either("base.storage.download").CloudDownloader
    source, target = tmp_path / "source", tmp_path / "below" / "target"
    source.write_text("first")
    downloader.direct_download(str(source), str(target))
    source.write_text("second")
    downloader.direct_download(str(source), str(target))
    assert target.read_text() == "first"
    assert os.listdir(target.parent) == ["target"]
    with pytest.raises(ValueError):
        downloader.get().download("", str(tmp_path / "other"))
    with pytest.raises(ValueError):
        downloader.get().download("s3://bucket/key", str(tmp_path / "other"))


def test_a_failed_fetch_leaves_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        download.LocalDownloader().download(str(tmp_path / "missing"), str(tmp_path / "below" / "target"))
    with pytest.raises(KeyError), _downloader.whole_file(str(tmp_path / "below" / "half")) as path:
        with open(path, "w") as file:
            file.write("half")
        raise KeyError("a broken connection")
    assert os.listdir(tmp_path / "below") == []


def test_a_custom_scheme_can_be_fetched(tmp_path):
    class Shelf(download.CloudDownloader):
        @staticmethod
        def _client_identifier():
            return "shelf"

        def clean_up(self):
            pass

        def _download_file_impl(self, remote, local, timeout):
            with open(local, "w") as file:
                file.write(remote)

    download.CloudDownloader.direct_download("shelf://top/book", str(tmp_path / "book"))
    assert (tmp_path / "book").read_text() == "shelf://top/book"


def test_alipan_is_an_error_that_names_it():
    with pytest.raises(RuntimeError, match="alipan:// is not supported"):
        CloudUploader.get("alipan:///folder")


def test_listing_starts_at_a_prefix(either, tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("a/1", "a/2", "b"):
        (tmp_path / name).write_text("")
    uploader = either("base.storage.upload").CloudUploader.get(str(tmp_path), exist_ok=True)
    assert uploader.list_objects() == [str(tmp_path / name) for name in ("a/1", "a/2", "b")]
    assert uploader.list_objects("a/2") == [str(tmp_path / "a/2")]


@pytest.mark.parametrize("kind", [MDSWriter, CSVWriter, JSONWriter])
def test_a_writer_that_is_dropped_before_finish_warns_about_its_samples(tmp_path, kind):
    # The reference drops them without a word.
    writer = kind(out=str(tmp_path), columns=COLUMNS, size_limit=300)
    fill(writer, 5)
    # A job in flight keeps its writer.
    writer._packers.shutdown()
    writer.executor.shutdown()
    with pytest.warns(RuntimeWarning, match=rf"a {kind.__name__} .* the 5 samples .* {tmp_path} has no index\.json"):
        del writer
        gc.collect()


def test_a_writer_that_has_finished_does_not_warn(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MDSWriter(out=str(tmp_path / "none"), columns=COLUMNS)
        with MDSWriter(out=str(tmp_path / "set"), columns=COLUMNS) as writer:
            fill(writer)
        del writer
        gc.collect()
    assert [str(warning.message) for warning in caught if "finish()" in str(warning.message)] == []


def in_child(call):
    """Runs `call` in a forked child; returns its error's text."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            call()
        except BaseException as error:  # noqa: BLE001: its text is the result
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


def test_a_forked_child_cannot_use_a_writer_with_threads_of_its_parent(tmp_path):
    local, remote = tmp_path / "local", tmp_path / "remote"
    writer = MDSWriter(out=(str(local), str(remote)), columns=COLUMNS, size_limit=400)
    fill(writer)
    for call in (writer.finish, lambda: fill(writer)):
        assert "works in that process only, and this is a forked child" in in_child(call)
    writer.finish()
    assert [sample["number"] for sample in LocalDataset(str(remote))] == list(range(40))


def test_a_forked_child_can_use_a_writer_that_has_no_threads_yet(tmp_path):
    writer = MDSWriter(out=str(tmp_path), columns=COLUMNS)
    assert in_child(lambda: (fill(writer), writer.finish())) == ""
    assert [sample["number"] for sample in LocalDataset(str(tmp_path))] == list(range(40))
