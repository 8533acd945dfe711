"""Files whose inodes change without a change of the files, behind FUSE."""

import contextlib
import os

import pytest
from fuse_folder import mounted
from tf_examples import example, record

import forebay as fb

COUNT = 60
NUMBER = {"n": fb.Scalar("n")}


def shards(folder):
    with fb.MDSWriter(out=str(folder / "shards"), columns={"n": "int"}, size_limit=300) as writer:
        for number in range(COUNT):
            writer.write({"n": number})


def records(folder):
    (folder / "records").mkdir()
    for part in range(3):
        body = b"".join(record(example({"n": [number]})) for number in range(20 * part, 20 * part + 20))
        (folder / f"records/{part}.tfrecord").write_bytes(body)


def files(folder):
    (folder / "files/a").mkdir(parents=True)
    for number in range(COUNT):
        (folder / f"files/a/{number:03}.bin").write_bytes(number.to_bytes(1, "little"))


@pytest.fixture
def behind_fuse(tmp_path):
    """Folder with data and its mount."""
    folder = tmp_path / "data"
    folder.mkdir()
    for write in (shards, records, files):
        write(folder)
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(mounted(folder, tmp_path / "mount"))
        except OSError as error:
            pytest.skip(f"FUSE cannot be mounted: {error}")
        first, second = (os.stat(place / "shards/index.json").st_ino for _ in range(2))
        assert first != second
        yield folder, place


def epochs(loader, name="n"):
    return [[int(value if name == "n" else value[0]) for batch in loader for value in batch[name]] for _ in range(2)]


@pytest.mark.parametrize("source", ["shards", "records/*.tfrecord"])
def test_files_are_read_without_a_copy_for_several_epochs(behind_fuse, tmp_path, source):
    _, place = behind_fuse
    with fb.Loader(remote=f"{place}/{source}", local=tmp_path / "local", fields=NUMBER, batch_size=7, framework="numpy") as loader:
        assert epochs(loader) == [list(range(COUNT))] * 2


def test_samples_that_are_files_are_read_without_a_copy(behind_fuse, tmp_path):
    _, place = behind_fuse
    stream = fb.Stream(remote=f"{place}/files", local=tmp_path / "local", files="each")
    with fb.Loader(streams=[stream], fields={"x": fb.Bytes("file")}, batch_size=7, framework="numpy") as loader:
        assert epochs(loader, "x") == [list(range(COUNT))] * 2


def test_compressed_shards_are_fetched(behind_fuse, tmp_path):
    folder, place = behind_fuse
    with fb.MDSWriter(out=str(folder / "packed"), columns={"n": "int"}, size_limit=300, compression="zstd") as writer:
        for number in range(COUNT):
            writer.write({"n": number})
    with fb.Loader(remote=place / "packed", local=tmp_path / "local", fields=NUMBER, batch_size=7, framework="numpy") as loader:
        assert epochs(loader) == [list(range(COUNT))] * 2


def test_a_file_that_was_replaced_is_still_noticed(behind_fuse, tmp_path):
    folder, place = behind_fuse
    with fb.Loader(remote=f"{place}/records/*.tfrecord", local=tmp_path / "local", fields=NUMBER, batch_size=7) as loader:
        file = folder / "records/0.tfrecord"
        content, found = file.read_bytes(), file.stat()
        os.remove(file)
        file.write_bytes(content)
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
        with pytest.raises(fb.StaleError, match=r"replaced or changed.*0\.tfrecord"):
            list(loader)
