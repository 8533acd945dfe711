"""Files that are replaced by files of the same length while a loader exists: an error, and never samples of two data sets."""

import io
import itertools
import os
import pathlib
import tarfile

import numpy as np
import pytest
from tf_examples import example, record

import forebay as fb

FILES, SAMPLES = 4, 8

TABLE = pathlib.Path(__file__).parents[3] / "tests/data/parquet/checksums.parquet"


def tar_file(number, value):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(SAMPLES):
            info = tarfile.TarInfo(f"{number}-{i}.txt")
            info.size = len(value) + 6
            tar.addfile(info, io.BytesIO(b"%s%06d" % (value, i)))
    return out.getvalue()


def record_file(number, value):
    def sample(i):
        return example({"txt": [b"%s%06d" % (value, i)], "number": [number]})

    return b"".join(record(sample(i)) for i in range(SAMPLES))


def table_file(_number, value):
    """A file of a thousand rows, with a different name of its writer."""
    data = TABLE.read_bytes()
    assert data.count(b"parquet-cpp-arrow") == 1
    return data.replace(b"parquet-cpp-arrow", b"parquet-cpp-arro" + value)


SOURCES = {
    "tars": (tar_file, "data-{}.tar", {"txt": fb.Text("txt")}, {}),
    "records": (record_file, "data-{}.tfrecord", {"txt": fb.Text("txt")}, {}),
    "tables": (table_file, "data-{}.parquet", {"id": fb.Scalar("id")}, {}),
    "files": (lambda number, value: b"%s%06d" % (value, number), "data-{}.txt", {"file": fb.Bytes("file")}, {"files": "each"}),
}

_runs = itertools.count()


@pytest.fixture(params=SOURCES)
def source(request):
    return SOURCES[request.param]


def names(source):
    return [source[1].format(number) for number in range(FILES)]


def contents(source, value):
    return {name: source[0](number, value) for number, name in enumerate(names(source))}


def opened(source, root, **arguments):
    stream = fb.Stream(remote=f"{root}/{source[1].format('*')}", **arguments, **source[3])
    return fb.Loader(streams=[stream], batch_size=2, fields=source[2], framework="numpy")


def replace(path, data):
    """Replaces a file with a different one."""
    path.with_name("new").write_bytes(data)
    os.replace(path.with_name("new"), path)


def rewrite(path, data):
    """Changes a file without a new inode."""
    before = path.stat().st_mtime_ns
    path.write_bytes(data)
    os.utime(path, ns=(before + 1, before + 1))


def write(folder, files):
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("change", [replace, rewrite])
def test_a_file_that_is_replaced_before_its_first_read_is_named(source, change, tmp_path):
    folder = tmp_path / "set"
    write(folder, contents(source, b"a"))
    with opened(source, folder) as loader:
        for name, data in contents(source, b"b").items():
            assert len(data) == (folder / name).stat().st_size
            change(folder / name, data)
        with pytest.raises(fb.StaleError, match="changed while the job was running.*data-"):
            list(loader)
    # A new loader takes the files as they are.
    with opened(source, folder) as loader:
        assert sum(1 for _ in loader) == len(loader)


@pytest.mark.parametrize("change", [replace, rewrite])
@pytest.mark.parametrize("source", ["tars", "records", "files"], indirect=False)
def test_a_file_that_is_read_without_a_copy_and_replaced_after_its_first_epoch_is_named(source, change, tmp_path):
    source, folder = SOURCES[source], tmp_path / "set"
    write(folder, contents(source, b"a"))
    with opened(source, folder) as loader:
        list(loader)
        for name, data in contents(source, b"b").items():
            change(folder / name, data)
        if change is rewrite or source is SOURCES["files"]:
            with pytest.raises(fb.StaleError, match="changed while the job was running.*data-"):
                list(loader)
        else:
            # The old files stay open.
            values = [text for batch in loader for text in np.ravel(next(iter(batch.values()))).tolist()]
            assert all("a" in str(value) for value in values)


def test_an_object_that_is_replaced_after_the_listing_is_named(source, bucket, bucket_environment, tmp_path):
    prefix = f"replaced-{next(_runs)}"
    for name, data in contents(source, b"a").items():
        bucket.objects[f"{prefix}/{name}"] = data
    with opened(source, f"s3://bucket/{prefix}", local=tmp_path / "cache") as loader:
        for name, data in contents(source, b"b").items():
            bucket.objects[f"{prefix}/{name}"] = data
        before = len(bucket.seen)
        with pytest.raises(fb.StaleError, match="changed while the job was running.*data-"):
            list(loader)
        assert len(bucket.seen) - before <= 2 * FILES, "no further attempts"
