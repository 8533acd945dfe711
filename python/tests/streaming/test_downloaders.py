"""Data sets in stores that the engine has no client for: each scheme through its downloader, with the cloud's client
replaced by one that reads a folder, and custom schemes."""

import io
import os
import pickle
import shutil
import sys
import types
import urllib.parse

import pytest
from number_sets import numbers, write
from torch.utils.data import DataLoader

from forebay.streaming import Stream, StreamingDataset
from forebay.streaming.base.storage import _azure, _databricks, _gcs, _oci, download


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Attempts without waits between them."""
    monkeypatch.setattr("forebay.streaming.base.util.time.sleep", lambda seconds: None)


@pytest.fixture
def bucket(tmp_path):
    """Folder that represents a cloud, with objects by their keys."""
    write(tmp_path / "cloud" / "set" / "train", 60, compression="zstd")
    return tmp_path / "cloud"


class Blob:
    """An object as the clients return it."""

    def __init__(self, path):
        self.path = str(path)

    def blob(self, key):
        return Blob(os.path.join(self.path, key))

    def download_to_filename(self, path, timeout):
        assert timeout == 7
        shutil.copy(self.path, path)

    def download_blob(self):
        return self

    download_file = download_blob

    def readinto(self, file):
        with open(self.path, "rb") as source:
            shutil.copyfileobj(source, file)


def google(bucket, monkeypatch):
    client = types.SimpleNamespace(bucket=lambda name: Blob(bucket / name.removeprefix("bucket")))
    monkeypatch.setattr(_gcs, "_client", lambda: (client, _gcs.GCSAuthentication.SERVICE_ACCOUNT))
    return "gs://bucket/set"


def google_with_a_key(bucket, monkeypatch):
    pytest.importorskip("boto3", reason="boto3 is not installed")
    client = types.SimpleNamespace(download_file=lambda name, key, path, Config: shutil.copy(bucket / key, path))
    monkeypatch.setattr(_gcs, "_client", lambda: (client, _gcs.GCSAuthentication.HMAC))
    return "gs://bucket/set"


def azure(bucket, monkeypatch):
    pytest.importorskip("azure.core", reason="azure-core is not installed")
    client = types.SimpleNamespace(get_blob_client=lambda container, blob: Blob(bucket / blob))
    monkeypatch.setattr(_azure, "_blob_service", lambda url: client)
    return "azure://account.blob.core.windows.net/container/set"


def azure_data_lake(bucket, monkeypatch):
    pytest.importorskip("azure.core", reason="azure-core is not installed")
    client = types.SimpleNamespace(get_file_client=lambda file_system, file_path: Blob(bucket / file_path))
    monkeypatch.setattr(_azure, "_lake_service", lambda url: client)
    return "azure-dl://container/set"


def oracle(bucket, monkeypatch):
    class Client:
        def get_namespace(self):
            return types.SimpleNamespace(data="space")

        def get_object(self, namespace, name, key):
            assert (namespace, name) == ("space", "bucket")
            body = types.SimpleNamespace(stream=lambda size, decode_content: [(bucket / key).read_bytes()])
            return types.SimpleNamespace(data=types.SimpleNamespace(raw=body))

    monkeypatch.setattr(_oci, "_client", Client)
    return "oci://bucket@space/set"


def hugging_face(bucket, monkeypatch):
    def fetch(name, path, repo_type, etag_timeout, local_dir):
        assert (name, repo_type, etag_timeout) == ("organisation/name", "dataset", 7)
        # Without `local_dir` the real one keeps the file in its own cache.
        fetched = os.path.join(local_dir, path)
        os.makedirs(os.path.dirname(fetched), exist_ok=True)
        return shutil.copyfile(bucket / path, fetched)

    monkeypatch.setitem(sys.modules, "huggingface_hub", types.SimpleNamespace(hf_hub_download=fetch))
    return "hf://datasets/organisation/name/set"


def databricks(bucket, monkeypatch, url="dbfs:/set", prefix="/"):
    errors = types.ModuleType("databricks.sdk.errors.base")
    errors.DatabricksError = type("DatabricksError", (Exception,), {})
    for name in ("databricks", "databricks.sdk", "databricks.sdk.errors"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, errors.__name__, errors)

    def fetch(path):
        return types.SimpleNamespace(contents=io.BytesIO((bucket / path.removeprefix(prefix)).read_bytes()))

    workspace = types.SimpleNamespace(files=types.SimpleNamespace(download=fetch))
    monkeypatch.setattr(_databricks, "_workspace", lambda: workspace)
    return url


def databricks_volume(bucket, monkeypatch):
    return databricks(bucket, monkeypatch, "dbfs:/Volumes/catalogue/set", "/Volumes/catalogue/")


def sftp(bucket, monkeypatch):
    class Session:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def get(self, remotepath, localpath):
            shutil.copy(bucket / remotepath.lstrip("/"), localpath)

    class Client:
        open_sftp = Session

        def load_system_host_keys(self, path):
            pass

        def connect(self, hostname, port, username, password, key_filename, **timeouts):
            assert (hostname, port, username, password) == ("host", 2222, "me", "secret")

        def close(self):
            pass

    monkeypatch.setitem(sys.modules, "paramiko", types.SimpleNamespace(SSHClient=Client))
    return "sftp://me:secret@host:2222/set"


CLOUDS = [google, google_with_a_key, azure, azure_data_lake, oracle, hugging_face, databricks, databricks_volume, sftp]


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("workers", [0, 2])
def test_every_scheme_of_the_reference_can_be_streamed(cloud, workers, bucket, tmp_path, monkeypatch):
    remote, local = cloud(bucket, monkeypatch), tmp_path / "local"
    dataset = StreamingDataset(
        remote=remote, local=str(local), split="train", batch_size=4, download_timeout=7, num_canonical_nodes=1
    )
    assert os.listdir(local / "train") == ["index.json"]
    for _ in range(2):
        batches = list(DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0))
        assert sorted(int(n) for batch in batches for n in batch["number"]) == list(range(60))
    shards = [f"shard.{number:05}.mds" for number in range(len(dataset.shards))]
    assert sorted(os.listdir(local / "train")) == ["index.json", *shards]


class Shelf(download.CloudDownloader):
    """Custom scheme with failures that a test sets."""

    root, failures, attempts, clean_ups = "", 0, 0, 0

    @staticmethod
    def _client_identifier():
        return "shelf"

    def clean_up(self):
        Shelf.clean_ups += 1

    def _download_file_impl(self, remote, local, timeout):
        Shelf.attempts += 1
        with open(local, "wb") as file:
            file.write(b"half of it")
            if Shelf.failures:
                Shelf.failures -= 1
                raise KeyError("the shelf fell down")
        shutil.copy(os.path.join(Shelf.root, remote.removeprefix("shelf://")), local)


@pytest.fixture
def shelf(bucket, monkeypatch, custom_schemes):
    download.DOWNLOADER_MAPPINGS["shelf"] = Shelf
    for name, value in {"root": str(bucket), "failures": 0, "attempts": 0, "clean_ups": 0}.items():
        monkeypatch.setattr(Shelf, name, value)
    return "shelf://set/train"


def test_a_downloader_that_fails_is_retried_up_to_the_limit(shelf, tmp_path):
    dataset = StreamingDataset(remote=shelf, local=str(tmp_path / "local"), batch_size=4, download_retry=3)
    Shelf.failures = 2
    dataset.prepare_shard(0)
    # One for the index.
    assert Shelf.attempts == 1 + 3
    Shelf.failures = 3
    with pytest.raises(KeyError, match="the shelf fell down") as raised:
        dataset.prepare_shard(1)
    assert Shelf.attempts == 4 + 3
    if sys.version_info >= (3, 11):
        assert "shard.00001.mds.zstd" in raised.value.__notes__[0] and shelf in raised.value.__notes__[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_ends_the_epoch_with_the_downloader_s_error(shelf, bucket, tmp_path, workers):
    os.remove(bucket / "set" / "train" / "shard.00002.mds.zstd")
    dataset = StreamingDataset(remote=shelf, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1)
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match=r"shard.00002.mds.zstd"):
            numbers(DataLoader(dataset, batch_size=None, num_workers=workers, timeout=600 if workers else 0))
    assert not [name for name in os.listdir(tmp_path / "local") if not name.endswith((".mds", ".json"))]


def test_downloaded_files_are_compared_with_the_index(shelf, bucket, tmp_path):
    shard = bucket / "set" / "train" / "shard.00000.mds.zstd"
    whole = shard.read_bytes()
    dataset = StreamingDataset(remote=shelf, local=str(tmp_path / "local"), batch_size=4)
    shard.write_bytes(whole[:-1])
    with pytest.raises(OSError, match=f"has {len(whole) - 1} bytes, and {len(whole)} were expected"):
        dataset[0]
    assert os.listdir(tmp_path / "local") == ["index.json"]
    shard.write_bytes(whole)
    assert dataset[0] == {"number": 0}


def test_hashes_and_the_cache_limit_hold_for_every_scheme(shelf, bucket, tmp_path):
    shutil.rmtree(bucket / "set" / "train")
    write(bucket / "set" / "train", 300, hashes=["sha1"])
    dataset = StreamingDataset(
        remote=shelf, local=str(tmp_path / "local"), batch_size=4, validate_hash="sha1", cache_limit=1 << 14
    )
    # The folder, its index and four shards, in blocks of the disk.
    limit = 8 * 4096
    del dataset
    dataset = StreamingDataset(
        remote=shelf, local=str(tmp_path / "local"), batch_size=4, validate_hash="sha1", cache_limit=limit
    )
    for _ in range(2):
        assert sorted(numbers(dataset)) == list(range(300))
        assert dataset.cache_usage <= limit
    assert Shelf.attempts > len(dataset.shards) + 1, "shards went and were fetched again"
    damaged = bucket / "set" / "train" / "shard.00000.mds"
    bytes_ = bytearray(damaged.read_bytes())
    bytes_[-1] ^= 1
    damaged.write_bytes(bytes_)
    with pytest.raises(OSError, match="hash"):
        StreamingDataset(remote=shelf, local=str(tmp_path / "second"), batch_size=4, validate_hash="sha1")[0]


def test_an_index_that_cannot_be_downloaded_raises_the_downloader_s_exception(shelf, bucket, tmp_path):
    os.remove(bucket / "set" / "train" / "index.json")
    with pytest.raises(FileNotFoundError, match="index.json"):
        StreamingDataset(remote=shelf, local=str(tmp_path / "local"), batch_size=4)


def test_a_scheme_without_a_downloader_is_rejected_at_once(tmp_path):
    with pytest.raises(ValueError, match="Unsupported remote path: tape://host/set"):
        Stream(remote="tape://host/set", local=str(tmp_path))


def test_a_downloader_that_a_program_sets_is_used_for_any_scheme(shelf, bucket, tmp_path):
    stream = Stream(remote="shelf://set/train", local=str(tmp_path / "local"))
    given = Shelf()
    stream._downloader = given
    assert stream._downloader is given
    assert numbers(StreamingDataset(streams=[stream], batch_size=4)) == list(range(60))


def test_a_patched_downloader_class_is_used_instead_of_the_engine(bucket, tmp_path, monkeypatch):
    """Programs patch the S3 class, for buckets that need no credentials for example."""
    seen = []

    def fetch(self, remote, local, timeout):
        seen.append(remote)
        shutil.copy(bucket / urllib.parse.urlparse(remote).path.lstrip("/"), local)

    monkeypatch.setattr(download.S3Downloader, "_download_file_impl", fetch)
    dataset = StreamingDataset(remote="s3://bucket/set/train", local=str(tmp_path / "local"), batch_size=4)
    assert numbers(dataset) == list(range(60))
    assert seen[0] == "s3://bucket/set/train/index.json"


def test_a_stream_is_pickled_without_its_connection(monkeypatch, bucket, tmp_path):
    remote = google(bucket, monkeypatch)
    stream = Stream(remote=remote, local=str(tmp_path))
    stream._downloader._gcs_client = open(os.devnull)
    with stream._downloader._gcs_client:
        assert pickle.loads(pickle.dumps(stream))._downloader._gcs_client is None


def test_a_password_is_not_repeated_in_messages(monkeypatch, bucket, tmp_path):
    stream = Stream(remote=sftp(bucket, monkeypatch), local=str(tmp_path))
    stream.apply_default({"split": None, "download_retry": 1, "download_timeout": 7, "validate_hash": None, "keep_zip": False})
    assert stream._place()["remote"] == "sftp://...@host:2222/set/"


def test_no_thread_starts_before_the_first_request(shelf, tmp_path):
    import threading

    local = str(tmp_path / "local")
    assert len(numbers(StreamingDataset(remote=shelf, local=local, batch_size=4))) == 60
    dataset = StreamingDataset(remote=shelf, local=local, batch_size=4)
    before = set(threading.enumerate())
    assert len(numbers(dataset)) == 60
    assert set(threading.enumerate()) <= before
