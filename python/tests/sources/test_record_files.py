"""Both containers of records, TFRecord and ArrayRecord: the same samples, and the values that TensorFlow reads."""

import shutil
import types

import pytest
from record_rows import FIELDS, SAMPLES, TFRECORDS, check_values, rows, unpack, write_set

import forebay as fb

PARTS = [f"set.tfrecord-{number:05}-of-00003" for number in range(3)]

VALUES = {
    "tfrecord": {
        "set.tfrecord-0000?-of-00003": PARTS,
        "packed.tfrecord.gz": ["packed.tfrecord.gz"],
        "zlib.tfrecord": ["zlib.tfrecord"],
    },
    "array_record": {
        "set.array_record-0000?-of-00003": PARTS,
        "default.array_record": PARTS[:1],
        "snappy.array_record": PARTS[:1],
    },
}
"""Files in `tests/data`, and files of the same records with recorded values of TensorFlow."""


@pytest.fixture(params=list(VALUES))
def container(request, tmp_path):
    """A container: its folder of files that are in `tests/data`, its folder of the samples in ten files, and their wildcard."""
    if request.param == "tfrecord":
        shutil.copytree(TFRECORDS, tmp_path / "made")
        write_set(tmp_path / "samples")
    else:
        unpack(tmp_path / "made", "*")
        unpack(tmp_path / "samples", "samples.*")
    samples = tmp_path / "samples"
    names = f"{samples}/{'x' if request.param == 'tfrecord' else 'samples'}.{request.param}-*"
    return types.SimpleNamespace(name=request.param, made=tmp_path / "made", samples=samples, names=names)


def samples_of(remote):
    with fb.Loader(remote=remote, batch_size=8, fields=FIELDS, framework="numpy") as loader:
        return sum(map(rows, loader), [])


def test_wildcards_braces_and_lists_name_the_same_files(container):
    files = sorted(map(str, container.samples.iterdir()))
    for names in (container.names, container.names.replace("*", "{00000..00009}-of-00010"), "::".join(files)):
        assert samples_of(names) == SAMPLES


def test_the_values_are_as_in_tensorflow(container):
    for names, files in VALUES[container.name].items():
        check_values(container.made / names, files)


def test_records_that_are_no_examples_are_bytes(container):
    records = [b"no example", *[b""] * (1 if container.name == "tfrecord" else 1000), b"\xff" * 300]
    with fb.Loader(remote=container.made / f"plain.{container.name}", batch_size=len(records)) as loader:
        assert list(map(bytes, next(iter(loader))["record"])) == records


def test_single_samples_are_read(container):
    reader = fb.ShardReader(container.names)
    assert len(reader) == 120
    assert [reader[number]["number"] for number in (119, 0, 64)] == [119, 0, 64]


def test_a_file_without_records_has_no_samples(container):
    empty = container.made / f"empty.{container.name}"
    with pytest.raises(fb.ConfigError, match="no samples"):
        fb.Loader(remote=empty, batch_size=1)
    first = min(container.samples.iterdir())
    shutil.copy(empty, first.with_name(first.name.replace("00000", "00010")))
    assert samples_of(container.names) == SAMPLES
