"""The names of s3torchconnector.dcp."""

import pickle

import pytest

torch = pytest.importorskip("torch")

import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

from forebay import s3torch  # noqa: E402
from forebay.s3torch.dcp import (  # noqa: E402
    BinaryPrefixStrategy,
    DefaultPrefixStrategy,
    HexPrefixStrategy,
    RoundRobinPrefixStrategy,
    S3FileSystem,
    S3StorageReader,
    S3StorageWriter,
)


pytestmark = pytest.mark.usefixtures("bucket_environment")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_state_is_saved_and_loaded(bucket, threads):
    url = f"s3://bucket/state-{threads}"
    strategy = HexPrefixStrategy(epoch_num=3, min_prefix_length=4)
    saved = {f"weights-{number}": torch.arange(1000.0) + number for number in range(4)}
    writer = S3StorageWriter("us-east-1", url, None, strategy, threads, endpoint=bucket.endpoint)
    dcp.save(saved, storage_writer=writer)
    names = [key.removeprefix(f"state-{threads}/") for key in bucket.objects if key.startswith(f"state-{threads}/")]
    assert sorted(names) == [".metadata", *(f"0000/epoch_3/__0_{number}.distcp" for number in range(threads))]
    found = {name: torch.zeros(1000) for name in saved}
    dcp.load(found, storage_reader=S3StorageReader("us-east-1", url, endpoint=bucket.endpoint))
    assert all(torch.equal(found[name], saved[name]) for name in saved)


def test_a_failure_of_an_extra_thread_fails_the_save(bucket, monkeypatch):
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    write = s3torch.S3Writer.write

    def failing(self, data):
        if self.key.endswith("__0_1.distcp"):
            raise s3torch.S3Exception("no room here")
        return write(self, data)

    monkeypatch.setattr(s3torch.S3Writer, "write", failing)
    writer = S3StorageWriter("us-east-1", "s3://bucket/failing", thread_count=2, endpoint=bucket.endpoint)
    with pytest.raises(CheckpointException, match="no room here"):
        dcp.save({"a": torch.ones(3), "b": torch.ones(3)}, storage_writer=writer)
    assert "failing/.metadata" not in bucket.objects


def test_errors_of_the_store_have_the_type_of_s3torchconnector(bucket, monkeypatch):
    bucket.objects["denied"] = b"text"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    files = S3FileSystem("us-east-1", endpoint=bucket.endpoint)

    def read():
        with files.create_stream("s3://bucket/denied", "rb") as stream:
            stream.seek(1)

    def write():
        with files.create_stream("s3://bucket/denied", "wb") as stream:
            stream.write(bytes(20 << 20))

    for operation in [
        read,
        write,
        lambda: files.exists("s3://bucket/denied"),
        lambda: files.rename("s3://bucket/denied", "s3://bucket/new"),
        lambda: files.rm_file("s3://bucket/denied"),
    ]:
        with pytest.raises(s3torch.S3Exception) as found:
            operation()
        # torch sends it to the remaining ranks.
        assert str(pickle.loads(pickle.dumps(found.value))) == str(found.value)
    assert bucket.objects["denied"] == b"text"


def test_a_file_system_has_the_operations_of_torch(bucket):
    files = S3FileSystem("us-east-1", endpoint=bucket.endpoint)
    path = files.concat_path(files.init_path("s3://bucket/files"), "a b")
    files.mkdir(path)
    with files.create_stream(path, "wb") as stream:
        stream.write(b"text")
    assert files.exists(path) and not files.exists(path + "c")
    files.rename(path, "s3://bucket/files/new")
    assert not files.exists(path)
    with files.create_stream("s3://bucket/files/new", "rb") as stream:
        assert stream.read() == b"text"
    files.rm_file("s3://bucket/files/new")
    assert not files.exists("s3://bucket/files/new")
    with pytest.raises(ValueError, match="a different bucket"):
        files.rename(path, "s3://other/new")
    with pytest.raises(ValueError, match="mode"), files.create_stream(path, "r"):
        pass
    assert files.validate_checkpoint_id("s3://bucket/a") and not files.validate_checkpoint_id("a")


def test_prefixes_have_reversed_digits():
    assert DefaultPrefixStrategy()(7) == "__7_"
    assert BinaryPrefixStrategy(2, 4, 8)(6) == "0110/epoch_2/__6_"
    assert BinaryPrefixStrategy(min_prefix_length=1, prefix_count=3)(1) == "10/__1_"
    assert HexPrefixStrategy(None, 2, 1000)(0x12 + 1000) == "210/__1018_"
    assert [RoundRobinPrefixStrategy(["a", "b"], 1)(rank) for rank in (0, 3)] == ["a/epoch_1/__0_", "b/epoch_1/__3_"]
    for wrong in ({"epoch_num": "1"}, {"min_prefix_length": 0}, {"prefix_count": 0}):
        with pytest.raises(ValueError):
            HexPrefixStrategy(**wrong)
    with pytest.raises(ValueError, match="empty"):
        RoundRobinPrefixStrategy([])
