"""Programs with a custom order: functions in the registries, or overrides of single methods."""

import numpy as np
import pytest
from number_sets import numbers, of_loader, write
from torch.utils.data import DataLoader


@pytest.fixture
def remote(tmp_path):
    return write(tmp_path / "remote")


def backwards(sizes, canonical_nodes, seed, epoch, block_size=1):
    """A shuffle: reversed, and different in each epoch."""
    return np.roll(np.arange(int(np.sum(sizes)))[::-1], epoch)


def in_turn(samples, canonical_nodes, nodes, ranks, workers, batch, drop_first=0, initial_nodes=None):
    """A partitioning: batches go to the ranks in turn, and samples that do not fill a batch on every rank are dropped."""
    ids = np.arange(drop_first, samples)
    ids = ids[: len(ids) // (nodes * ranks * workers * batch) * (nodes * ranks * workers * batch)]
    return ids.reshape(-1, workers, nodes, ranks, batch).transpose(2, 3, 1, 0, 4).copy()


def of_both(reference, ours, tmp_path, make):
    """Results of `make(module, local folder)` with the reference and with our package."""
    return [make(module, str(tmp_path / name)) for name, module in (("theirs", reference), ("ours", ours))]


def epochs(dataset, workers):
    """Two epochs without workers, one with workers, and the remainder of a resumed one."""
    found = [numbers(dataset), numbers(dataset), of_loader(DataLoader(dataset, batch_size=4, num_workers=workers))]
    dataset.load_state_dict(dataset.state_dict(40, True))
    return [*found, numbers(dataset)]


@pytest.mark.parametrize("arguments", [{"shuffle_algo": "backwards"}, {"partition_algo": "in turn"}])
def test_registered_order_functions_are_used(reference, ours, remote, tmp_path, monkeypatch, arguments):
    def make(module, local):
        monkeypatch.setitem(module("base.shuffle").algos, "backwards", backwards)
        monkeypatch.setitem(module("base.partition").algos, "in turn", in_turn)
        made = module("base.dataset").StreamingDataset(remote=remote, local=local, batch_size=4, shuffle=True, **arguments)
        return epochs(made, workers=0)

    theirs, mine = of_both(reference, ours, tmp_path, make)
    assert mine == theirs


def test_each_worker_gets_its_part_of_a_custom_order(ours, remote, tmp_path, monkeypatch):
    monkeypatch.setitem(ours("base.shuffle").algos, "backwards", backwards)
    dataset = ours("base.dataset").StreamingDataset(
        remote=remote, local=str(tmp_path / "local"), batch_size=4, shuffle=True, shuffle_algo="backwards"
    )
    assert of_loader(DataLoader(dataset, batch_size=4, num_workers=3))[:117] == list(range(116, -1, -1))
    assert of_loader(DataLoader(dataset, batch_size=4, num_workers=2))[:3] == [0, 116, 115]


def test_a_function_that_replaces_a_built_in_one_is_used(reference, ours, remote, tmp_path, monkeypatch):
    def make(module, local):
        monkeypatch.setitem(module("base.shuffle").algos, "py1e", backwards)
        made = module("base.dataset").StreamingDataset(remote=remote, local=local, batch_size=4, shuffle=True)
        return epochs(made, workers=0)

    theirs, mine = of_both(reference, ours, tmp_path, make)
    assert mine == theirs
    assert mine[0][:3] == [116, 115, 114]


def test_a_batching_method_that_replaces_a_built_in_one_is_used(ours, remote, tmp_path, monkeypatch):
    methods = ours("base.batching").batching_methods
    random = methods["random"]
    monkeypatch.setitem(methods, "random", lambda *arguments: random(*arguments)[..., ::-1])
    dataset = ours("base.dataset").StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4)
    assert numbers(dataset)[:8] == [3, 2, 1, 0, 7, 6, 5, 4]


def test_an_override_of_resampling_decides_the_samples_of_the_epoch(reference, ours, remote, tmp_path):
    def make(module, local):
        class Even(module("base.dataset").StreamingDataset):
            def resample_streams(self, epoch, stream_id=None):
                units, samples = super().resample_streams(epoch, stream_id)
                return units, samples & ~1

        return epochs(Even(remote=remote, local=local, batch_size=4, shuffle=True, epoch_size=80), workers=0)

    theirs, mine = of_both(reference, ours, tmp_path, make)
    assert mine == theirs


@pytest.mark.parametrize("method", ["per_stream", "device_per_stream", "stratified"])
def test_batching_methods_of_streams_reject_custom_order_functions(ours, remote, tmp_path, monkeypatch, method):
    monkeypatch.setitem(ours("base.shuffle").algos, "backwards", backwards)
    dataset = ours("base.dataset").StreamingDataset(
        remote=remote, local=str(tmp_path), batch_size=4, shuffle=True, shuffle_algo="backwards", batching_method=method
    )
    with pytest.raises(ValueError, match="use 'random', or add a custom batching method"):
        numbers(dataset)


def test_single_methods_of_an_iteration_can_be_overridden(reference, ours, remote, tmp_path):
    def make(module, local):
        base = module("base.dataset").StreamingDataset

        class Work(base):
            def _get_work(self, epoch, sample_in_epoch):
                return super()._get_work(epoch, sample_in_epoch)[::-1].copy()

        class Ids(base):
            def _each_sample_id(self, it):
                return (sample_id for sample_id in super()._each_sample_id(it) if sample_id % 3 == 0)

        class Prepare(base):
            prepared = 0

            def _prepare_thread(self, it):
                self.prepared += 1
                return super()._prepare_thread(it)

        made = [kind(remote=remote, local=f"{local}-{kind.__name__}", batch_size=4) for kind in (Work, Ids, Prepare)]
        return [numbers(dataset) for dataset in made], made[2].prepared

    theirs, mine = of_both(reference, ours, tmp_path, make)
    assert mine == theirs


def test_a_method_assigned_to_a_data_set_is_used(ours, remote, tmp_path, monkeypatch):
    dataset = ours("base.dataset").StreamingDataset(remote=remote, local=str(tmp_path / "local"), batch_size=4)
    monkeypatch.setattr(dataset, "_get_work", lambda epoch, sample_in_epoch: np.array([5, -1, 7]))
    assert numbers(dataset) == [5, 7]
