"""Functions that a program replaces in the package's own classes, as it would in the reference's. Each test runs with the
reference, too."""

import numpy as np
import pytest
from number_sets import numbers, of_loader, write
from torch.utils.data import DataLoader


def dataset_of(either, tmp_path, samples=100):
    remote = write(tmp_path / "remote", samples)
    return either("base.dataset").StreamingDataset(
        remote=remote, local=str(tmp_path / "local"), batch_size=4, num_canonical_nodes=1
    )


@pytest.fixture
def mirrored(either, monkeypatch):
    """Every sample is looked up as its mirror."""
    spanner = either("base.spanner").Spanner
    lookup = spanner.__getitem__
    monkeypatch.setattr(spanner, "__getitem__", lambda self, index: lookup(self, 99 - index))


def test_a_replaced_lookup_of_samples_is_followed(either, mirrored, tmp_path):
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == list(range(99, -1, -1))
    assert dataset[0]["number"] == 99 and numbers(dataset[[3, -1]]) == [96, 0]


def test_a_lookup_that_is_replaced_between_two_epochs_is_followed(either, monkeypatch, tmp_path):
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == list(range(100)) and dataset[0]["number"] == 0
    spanner = either("base.spanner").Spanner
    lookup = spanner.__getitem__
    monkeypatch.setattr(spanner, "__getitem__", lambda self, index: lookup(self, 99 - index))
    assert numbers(dataset) == list(range(99, -1, -1)) and dataset[0]["number"] == 99


def test_a_replaced_lookup_is_followed_in_workers(either, mirrored, tmp_path):
    loader = DataLoader(dataset_of(either, tmp_path), batch_size=4, num_workers=2, timeout=600)
    delivered = of_loader(loader)
    assert sorted(delivered) == list(range(100)) and delivered[:4] == [99, 98, 97, 96]


def test_a_replaced_lookup_is_followed_in_a_local_data_set(either, mirrored, tmp_path):
    dataset = either("base.local").LocalDataset(write(tmp_path / "data", 100))
    assert dataset[0]["number"] == 99 and dataset[99]["number"] == 0


def test_a_class_that_replaces_the_lookup_is_followed(either, monkeypatch, tmp_path):
    spanner = either("base.spanner").Spanner

    class Mirror(spanner):
        def __getitem__(self, index):
            return super().__getitem__(99 - index)

    monkeypatch.setattr(either("base.dataset"), "Spanner", Mirror)
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == list(range(99, -1, -1)) and dataset[0]["number"] == 99


def test_a_get_item_that_is_replaced_in_the_class_delivers(either, monkeypatch, tmp_path):
    cls = either("base.dataset").StreamingDataset
    read = cls.get_item
    monkeypatch.setattr(cls, "get_item", lambda self, sample_id, retry=7: {"number": -read(self, sample_id, retry)["number"]})
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == [-number for number in range(100)] and dataset[5]["number"] == -5


def test_a_get_item_that_is_set_on_one_data_set_delivers(either, tmp_path):
    dataset = dataset_of(either, tmp_path)
    dataset.get_item = lambda sample_id: {"number": 1000 + sample_id}
    assert numbers(dataset) == list(range(1000, 1100))


def test_a_replaced_indexing_of_all_arrays_delivers(either, monkeypatch, tmp_path):
    array = either("base.array").Array
    index = array.__getitem__

    def indexed(self, at):
        sample = index(self, at)
        return {**sample, "at": at} if isinstance(sample, dict) else sample

    monkeypatch.setattr(array, "__getitem__", indexed)
    assert [sample["at"] for sample in dataset_of(either, tmp_path)] == list(range(100))


@pytest.mark.parametrize("name", ["decode_sample", "get_item"])
def test_a_function_that_is_replaced_in_a_reader_decodes(either, monkeypatch, tmp_path, name):
    cls = either("base.format.mds.reader").MDSReader
    decode = getattr(cls, name)
    monkeypatch.setattr(cls, name, lambda self, data: {"number": 2 * decode(self, data)["number"]})
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == list(range(0, 200, 2)) and dataset[5]["number"] == 10
    local = either("base.local").LocalDataset(str(tmp_path / "remote"))
    assert local[5]["number"] == 10


@pytest.mark.parametrize("name", ["prepare_shard", "_download_file"])
def test_a_function_that_is_replaced_in_the_class_of_streams_fetches(either, monkeypatch, tmp_path, name):
    cls = either("base.stream").Stream
    fetch, calls = getattr(cls, name), []

    def fetched(self, *arguments):
        calls.append(arguments)
        return fetch(self, *arguments)

    monkeypatch.setattr(cls, name, fetched)
    dataset = dataset_of(either, tmp_path)
    assert numbers(dataset) == list(range(100))
    assert len(calls) >= dataset.num_shards


def test_work_that_a_replaced_function_of_the_class_returns_is_delivered(either, monkeypatch, tmp_path):
    cls = either("base.dataset").StreamingDataset
    monkeypatch.setattr(cls, "_get_work", lambda self, *_: np.arange(8))
    assert numbers(dataset_of(either, tmp_path)) == list(range(8))
