"""Parts that programs bring along: a different index file, readers, formats, ways to unpack. Each test runs with the
reference, too."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from unittest.mock import patch

import numpy as np
import pytest
from number_sets import numbers, of_loader, write
from torch.utils.data import DataLoader

from forebay.streaming.base import stream as streams
from forebay.streaming.base.shared.state import SharedState


def dataset_of(either, **arguments):
    return either("base.dataset").StreamingDataset(batch_size=4, num_canonical_nodes=1, **arguments)


@pytest.fixture
def renamed(either):
    """A class of streams that reads "numbers_index.json", in the form of a copy of the reference's `get_shards`."""
    of_format = either("base.format")

    class Renamed(either("base.stream").Stream):
        index_file = "numbers_index.json"

        def get_shards(self, world, allow_unsafe_types):
            path = os.path.join(self.local, self.split, self.index_file)
            if not os.path.exists(path):
                os.rename(self._download_file(self.index_file, self.index_file + ".tmp"), path)
            with open(path) as file:
                index = json.load(file)
            shards = [of_format.reader_from_json(self.local, self.split, entry) for entry in index["shards"]]
            for shard in shards:
                shard.validate(allow_unsafe_types)
            return shards

        def get_index_size(self):
            return os.stat(os.path.join(self.local, self.split, self.index_file)).st_size

    return Renamed


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"compression": "zstd", "hashes": ["sha1"]}], ids=["raw", "zstd"])
@pytest.mark.parametrize("cache_limit", [None, "1mb"])
def test_an_index_file_of_a_different_name_is_read_with_a_remote(either, renamed, tmp_path, workers, settings, cache_limit):
    remote = write(tmp_path / "remote", 100, **settings)
    os.rename(f"{remote}/index.json", f"{remote}/numbers_index.json")
    stream = renamed(remote=remote, local=str(tmp_path / "local"), validate_hash="sha1" if settings else None)
    dataset = dataset_of(either, streams=[stream], cache_limit=cache_limit)
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0)
    assert sorted(of_loader(loader)) == list(range(100))
    left = sorted(name for name in os.listdir(tmp_path / "local") if name.endswith(".mds"))
    assert left == [f"shard.{number:05}.mds" for number in range(dataset.num_shards)]
    assert "index.json" not in os.listdir(tmp_path / "local")


def test_a_damaged_file_of_a_different_index_is_an_error(either, renamed, tmp_path):
    remote = write(tmp_path / "remote", 100, hashes=["sha1"])
    os.rename(f"{remote}/index.json", f"{remote}/numbers_index.json")
    with open(f"{remote}/shard.00000.mds", "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    stream = renamed(remote=remote, local=str(tmp_path / "local"), validate_hash="sha1", download_retry=1)
    dataset = dataset_of(either, streams=[stream])
    with pytest.raises((ValueError, RuntimeError), match=r"[Cc]hecksum|sha1"):
        dataset[0]


class Doubling:
    """Reader that replaces a known one."""

    def __init__(self, reader):
        self.reader = reader

    def __getattr__(self, name):
        return getattr(self.reader, name)

    def __getitem__(self, index):
        return {"number": 2 * self.reader[index]["number"]}


def test_a_reader_that_is_assigned_reads_its_shard(either, tmp_path):
    remote = write(tmp_path / "remote", 100)
    dataset = dataset_of(either, remote=remote, local=str(tmp_path / "local"))
    bounds = [0, *np.cumsum(dataset.samples_per_shard)]
    expected = list(range(100))
    expected[bounds[1] : bounds[2]] = range(2 * bounds[1], 2 * bounds[2], 2)
    assert dataset[int(bounds[1])]["number"] == bounds[1]
    dataset.shards[1] = Doubling(dataset.shards[1])
    for _ in range(2):
        assert numbers(dataset) == expected
    assert numbers(dataset[[int(bounds[1]), 0]]) == [2 * bounds[1], 0]
    assert dataset.shards[1][0]["number"] == 2 * bounds[1]


def test_a_reader_that_is_assigned_reads_in_workers(either, tmp_path):
    dataset = dataset_of(either, remote=write(tmp_path / "remote", 100), local=str(tmp_path / "local"))
    end = int(dataset.samples_per_shard[0])
    dataset.shards[0] = Doubling(dataset.shards[0])
    loader = DataLoader(dataset, batch_size=4, num_workers=2, timeout=600)
    assert sorted(of_loader(loader)) == sorted([*range(0, 2 * end, 2), *range(end, 100)])


def test_a_list_of_readers_that_is_assigned_reads_all_shards(either, tmp_path):
    remote = write(tmp_path / "remote", 100)
    dataset = dataset_of(either, remote=remote, local=str(tmp_path / "local"))
    dataset.shards = [Doubling(shard) for shard in dataset.shards]
    assert numbers(dataset) == list(range(0, 200, 2))
    assert dataset[7]["number"] == 14 and len(dataset.shards) == dataset.num_shards


def test_the_first_shards_that_a_program_keeps_are_the_data_set(either, tmp_path):
    remote = write(tmp_path / "remote", 100)
    dataset = dataset_of(either, remote=remote, local=str(tmp_path / "local"))
    keep = 2
    dataset.shards = list(dataset.shards)[:keep]
    dataset.num_shards = keep
    dataset.samples_per_shard = dataset.samples_per_shard[:keep]
    dataset.stream_per_shard = dataset.stream_per_shard[:keep]
    dataset.sample_offset_per_shard = dataset.sample_offset_per_shard[:keep]
    dataset.shards_per_stream = np.array([keep])
    dataset.num_samples = int(dataset.samples_per_shard.sum())
    dataset.samples_per_stream = np.array([dataset.num_samples])
    dataset.epoch_size = dataset.num_samples
    dataset.streams[0].choose = dataset.num_samples
    dataset.spanner = either("base.spanner").Spanner(dataset.samples_per_shard)
    assert numbers(dataset) == list(range(dataset.num_samples))
    assert {name for name in os.listdir(tmp_path / "local") if name.endswith(".mds")} == {
        "shard.00000.mds",
        "shard.00001.mds",
    }


def test_readers_of_a_local_data_set_may_be_replaced(either, tmp_path):
    dataset = either("base.local").LocalDataset(write(tmp_path / "data", 100))
    assert dataset[1]["number"] == 1
    dataset.shards[0] = Doubling(dataset.shards[0])
    assert dataset[1]["number"] == 2 and dataset[99]["number"] == 99
    dataset.shards = [Doubling(shard) for shard in dataset.shards]
    assert dataset[99]["number"] == 198


def lines_reader(base):
    """Class of readers of a format of the program's: a number on each line."""

    class Lines(base.JointReader):
        format = "lines"

        @classmethod
        def from_json(cls, dirname, split, obj):
            files = [
                obj[name] and importlib.import_module(base.__name__).FileInfo(**obj[name])
                for name in ("raw_data", "zip_data")
            ]
            raw, packed = files
            return cls(dirname, split, obj["compression"], [], raw, obj["samples"], None, packed)

        def get_sample_data(self, idx):
            with open(os.path.join(self.dirname, self.split, self.raw_data.basename), "rb") as file:
                return file.read().split()[idx]

        def decode_sample(self, data):
            return {"number": int(data)}

    return Lines


@pytest.fixture
def lines(either, tmp_path):
    """A remote of 3 shards of that format, which is registered."""
    (tmp_path / "remote").mkdir()
    shards = []
    for number in range(3):
        text = "\n".join(str(10 * number + n) for n in range(1 + 9 * (number < 2))).encode()
        (tmp_path / "remote" / f"{number}.lines").write_bytes(text)
        raw = {"basename": f"{number}.lines", "bytes": len(text), "hashes": {}}
        shard = {"version": 2, "format": "lines", "samples": len(text.split()), "compression": None}
        shards.append({**shard, "raw_data": raw, "zip_data": None})
    (tmp_path / "remote" / "index.json").write_text(json.dumps({"version": 2, "shards": shards}))
    with patch.dict(either("base.format")._readers, lines=lines_reader(either("base.format.base.reader"))):
        yield str(tmp_path / "remote")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_format_that_a_program_registers_is_read(either, lines, tmp_path, workers):
    dataset = dataset_of(either, remote=lines, local=str(tmp_path / "local"))
    assert dataset.samples_per_shard.tolist() == [10, 10, 1]
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0)
    assert sorted(of_loader(loader)) == list(range(21))
    assert sorted(os.listdir(tmp_path / "local")) == ["0.lines", "1.lines", "2.lines", "index.json"]
    assert numbers(either("base.local").LocalDataset(lines)[[20, 3]]) == [20, 3]


def test_an_index_that_the_engine_rejects_is_fetched_in_python(either, lines, tmp_path, monkeypatch):
    def reject(*_):
        raise streams.UnsupportedError("the format lines is not one of mds, json, xsv, csv, tsv")

    monkeypatch.setattr(streams._forebay, "install_index", reject)
    dataset = dataset_of(either, remote=lines, local=str(tmp_path / "local"))
    assert numbers(dataset) == list(range(21))


def test_a_class_that_replaces_the_mds_reader_reads(either, tmp_path):
    remote = write(tmp_path / "remote", 100)
    base = either("base.format.mds").MDSReader

    class Negative(base):
        def decode_sample(self, data):
            return {"number": -super().decode_sample(data)["number"]}

    with patch.dict(either("base.format")._readers, mds=Negative):
        dataset = dataset_of(either, remote=remote, local=str(tmp_path / "local"))
        assert numbers(dataset) == [-number for number in range(100)]


@pytest.mark.parametrize("keep_zip", [False, True])
def test_an_override_that_unpacks_is_called(either, tmp_path, keep_zip):
    remote = write(tmp_path / "remote", 100, compression="zstd", hashes=["sha1"])
    unpacked = []

    class Unpacking(either("base.stream").Stream):
        def _decompress_shard_part(self, zip_info, zip_filename, raw_filename, compression):
            unpacked.append((zip_info.basename, os.path.basename(raw_filename), compression))
            super()._decompress_shard_part(zip_info, zip_filename, raw_filename, compression)

    stream = Unpacking(remote=remote, local=str(tmp_path / "local"), validate_hash="sha1", keep_zip=keep_zip)
    dataset = dataset_of(either, streams=[stream])
    assert numbers(dataset) == list(range(100))
    names = [f"shard.{number:05}.mds" for number in range(dataset.num_shards)]
    assert sorted(unpacked) == [(f"{name}.zstd", name, "zstd") for name in names]
    packed = [f"{name}.zstd" for name in names] if keep_zip else []
    assert sorted(os.listdir(tmp_path / "local")) == sorted(["index.json", *names, *packed])


def test_a_copy_of_the_reference_s_preparation_may_call_its_parts(either, tmp_path):
    remote = write(tmp_path / "remote", 100, compression="zstd")

    class Preparing(either("base.stream").Stream):
        def _prepare_shard_part(self, raw_info, zip_info=None, compression=None):
            raw, packed = (os.path.join(self.local, self.split, info.basename) for info in (raw_info, zip_info))
            if not os.path.isfile(raw):
                self._download_file(zip_info.basename)
                self._decompress_shard_part(zip_info, packed, raw, compression)
            return raw_info.bytes

    dataset = dataset_of(either, streams=[Preparing(remote=remote, local=str(tmp_path / "local"))])
    assert numbers(dataset) == list(range(100))


# Use of a data set, and whether a second one may have its folder then.
USES = {
    "nothing": (lambda dataset: None, False),
    "length": (len, False),
    "state": (lambda dataset: dataset.state_dict(0, True), False),
    "iterator": (iter, False),
    "sample": (lambda dataset: dataset[0], True),
    "shard": (lambda dataset: dataset.prepare_shard(0), True),
    "first": (lambda dataset: next(iter(dataset)), True),
    "epoch": (list, True),
    "workers": (lambda dataset: list(DataLoader(dataset, batch_size=4, num_workers=1, timeout=600)), True),
}


@pytest.fixture
def temporary(monkeypatch):
    """Folder for temporary files. Its path is short, because it is part of the addresses of sockets."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr("tempfile.tempdir", folder)
        yield


@pytest.mark.parametrize("use", USES)
def test_the_folder_of_a_data_set_that_has_been_read_may_be_used_again(either, tmp_path, temporary, use):
    # The reference records used folders by lock files, which are in the folder for temporary files.
    either("base.util").clean_stale_shared_memory()
    function, may_be = USES[use]
    arguments = {"remote": write(tmp_path / "remote", 100), "local": str(tmp_path / "local")}
    first = dataset_of(either, **arguments)
    used = function(first)
    if may_be:
        assert numbers(dataset_of(either, **arguments)) == list(range(100))
    else:
        with pytest.raises(ValueError, match="Reused local directory"):
            dataset_of(either, **arguments)
    del used


def test_the_folder_of_a_different_remote_is_not_read(ours, tmp_path):
    """The reference returns the samples of the first remote."""
    first = dataset_of(ours, remote=write(tmp_path / "one", 100), local=str(tmp_path / "local"))
    assert numbers(first) == list(range(100))
    other = {"remote": write(tmp_path / "second", 100, first=1000), "local": str(tmp_path / "local")}
    with pytest.raises(ValueError, match="Reused local directory: .*local has the shards of .*one, and not .*second"):
        dataset_of(ours, **other)
    shutil.rmtree(tmp_path / "local")
    assert numbers(dataset_of(ours, **other)) == list(range(1000, 1100))


def test_a_data_set_that_is_garbage_does_not_keep_its_folder(ours, tmp_path):
    arguments = {"remote": write(tmp_path / "remote", 100), "local": str(tmp_path / "local")}
    first = dataset_of(ours, **arguments)
    first.itself = first
    del first
    assert numbers(dataset_of(ours, **arguments)) == list(range(100))


def test_the_state_of_a_data_set_may_end_after_its_module():
    code = """
    import sys
    from forebay.streaming.base.shared import state as module
    kept = module.SharedState()
    # The interpreter's end does the same.
    for name in vars(module):
        if name != "__name__":
            vars(module)[name] = None
    del kept
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_state_that_ends_closes_its_descriptor():
    before = set(os.listdir("/proc/self/fd"))
    state = SharedState()
    assert len(set(os.listdir("/proc/self/fd")) - before) == 2
    del state
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("seed", range(20))
def test_spans_are_divided_like_the_reference_s(reference, ours, seed):
    rng = np.random.default_rng(seed)
    bounds = np.cumsum([0, *rng.integers(0, 9, rng.integers(1, 12))]).tolist()
    spans = list(zip(bounds, bounds[1:]))
    rng.shuffle(spans)
    spans = [tuple(map(int, span)) for span in spans]
    parts = int(rng.integers(1, 9))
    divided = [module("base.shuffle.py1s").divide_spans(list(spans), bounds[-1], parts) for module in (reference, ours)]
    assert divided[0] == divided[1]


def test_merging_by_its_private_name_is_the_same(either, tmp_path):
    for part in ("a", "b"):
        write(tmp_path / "parts" / part, 20)
    shutil.copytree(tmp_path / "parts", tmp_path / "whole")
    either("base.util")._merge_index_from_root(str(tmp_path / "parts"))
    either("base.util").merge_index(str(tmp_path / "whole"))
    assert (tmp_path / "parts" / "index.json").read_text() == (tmp_path / "whole" / "index.json").read_text()
