"""Positions of load_files: among ranks and workers, out of order, and in torch's DataLoader."""

import json
import os
import subprocess
import sys

import pytest
import rank_processes

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint.folder import Folder
from forebay.files.order import is_of_one_rank

torch = pytest.importorskip("torch")

FILES = 24


@pytest.fixture
def prefix(tmp_path):
    """Folder with small files."""
    for number in range(FILES):
        (tmp_path / f"{number:02}").write_bytes(b"x" * number)
    return f"{tmp_path}/"


def take(loader, count):
    return [os.path.basename(url) for _, (url, _) in zip(range(count), loader)]


def rest(loader):
    return [os.path.basename(url) for url, _ in loader]


def every():
    return [f"{number:02}" for number in range(FILES)]


def test_the_order_of_a_seed_and_an_epoch_and_a_saved_position_stay_as_they_are(tmp_path):
    for number in range(8):
        (tmp_path / str(number)).write_bytes(b"x")
    for seed, epoch, order in [(0, 0, "06431725"), (0, 1, "06734152"), (7, 0, "15473206")]:
        assert "".join(rest(fb.load_files(f"{tmp_path}/", shuffle=True, seed=seed, epoch=epoch, shard="none"))) == order
    loader = fb.load_files(f"{tmp_path}/", shuffle=True, seed=7, shard="none")
    position = {"epoch": 0, "seed": 7, "shuffle": True, "start": 0, "taken": 3, "ahead": [], "share": 0, "shares": 1, "workers": 0}
    loader.load_state_dict(position | {"ended": False, "ordered": True, "files": 8})
    assert "".join(rest(loader)) == "73206"


def test_workers_that_have_returned_different_numbers_continue_as_the_same_workers_alone(prefix, process):
    seen, states = [], []
    for worker, count in ((0, 5), (1, 3)):
        process(0, 1, worker, 2)
        loader = fb.load_files(prefix)
        seen += take(loader, count)
        states.append(json.loads(json.dumps(loader.state_dict())))
    for others in [(0, 1, 1, 2), (0, 2, 0, 2), (0, 1, 0, 3), (0, 2), (0, 1)]:
        process(*others)
        with pytest.raises(fb.StateError, match="worker 0 of 2 on 1 ranks.*resume with the same number of ranks and workers"):
            fb.load_files(prefix).load_state_dict(states[0])
    found = list(seen)
    for worker in range(2):
        process(0, 1, worker, 2)
        loader = fb.load_files(prefix)
        loader.load_state_dict(states[worker])
        found += rest(loader)
    assert sorted(found) == every()


def test_the_shares_of_six_workers_differ_from_the_shares_of_a_different_six(prefix, process):
    process(0, 2, 1, 3)
    loader = fb.load_files(prefix)
    take(loader, 1)
    state = loader.state_dict()
    # The same worker of rank 1 has returned as many.
    process(1, 2, 1, 3)
    other = fb.load_files(prefix)
    other.load_state_dict(state)
    assert rest(other) == every()[3::6][1:]
    process(0, 3, 1, 2)
    with pytest.raises(fb.StateError, match="worker 1 of 3 on 2 ranks"):
        fb.load_files(prefix).load_state_dict(state)


def test_the_beginning_of_an_epoch_is_for_any_number_of_workers(prefix, process):
    process(1, 2, 1, 2)
    loader = fb.load_files(prefix, ordered=False)
    rest(loader)
    state = loader.state_dict()
    process(0, 1)
    loader = fb.load_files(prefix)
    loader.load_state_dict(state)
    assert loader.epoch == 1 and rest(loader) == every()


def test_a_position_of_ranks_is_divided_among_workers(prefix, process):
    process(0, 2)
    loader = fb.load_files(prefix)
    take(loader, 4)
    # By its state, and by the loader itself, which a worker has a copy of.
    by_state = fb.load_files(prefix)
    by_state.load_state_dict(loader.state_dict())
    for each in (loader, by_state):
        found = []
        for rank, worker in ((rank, worker) for rank in range(2) for worker in range(3)):
            process(rank, 2, worker, 3)
            copied = fb.load_files(prefix)
            copied.__dict__.update(each.__getstate__())
            found += rest(copied)
        assert sorted(found) == every()[8:]


def test_a_position_out_of_order_belongs_to_one_rank(prefix, process):
    process(0, 2)
    loader = fb.load_files(prefix, ordered=False)
    beginning = loader.state_dict()
    take(loader, 3)
    state = loader.state_dict()
    same = fb.load_files(prefix, ordered=False)
    same.load_state_dict(state)
    assert len(rest(same)) == FILES // 2 - 3
    process(1, 2)
    for ordered in (True, False):
        other = fb.load_files(prefix, ordered=ordered)
        with pytest.raises(fb.StateError, match="out of order by share 0 of 2, and this is share 1 of 2"):
            other.load_state_dict(state)
        other.load_state_dict(beginning)
    assert is_of_one_rank({"train": {"workers": [state]}}) and not is_of_one_rank({"train": {"workers": [beginning]}})


def test_a_checkpoint_of_several_ranks_refuses_a_position_out_of_order(prefix, tmp_path):
    loader = fb.load_files(prefix, ordered=False)
    take(loader, 3)
    folder = Folder(tmp_path / "checkpoint", data={"train": loader})
    folder.check_ranks(1)
    with pytest.raises(fb.ConfigError, match="ordered=False.*different ranks cannot continue"):
        folder.check_ranks(2)
    Folder(tmp_path / "checkpoint", data=fb.load_files(prefix, ordered=False)).check_ranks(2)
    saved = checkpoint.save({}, tmp_path / "checkpoint", data=loader)
    assert saved.data["ordered"] is False


RANKS = """
import forebay as fb
from forebay import checkpoint
from forebay.checkpoint.distributed import StorageWriter

loader = fb.load_files(prefix, ordered=False)
next(iter(loader))
try:
    checkpoint.save({}, f"{place}/1", data=loader)
except fb.ConfigError as error:
    found["save"] = str(error)
try:
    torch.distributed.checkpoint.save({"a": torch.zeros(1)}, storage_writer=StorageWriter(f"{place}/2", data=loader))
except torch.distributed.checkpoint.CheckpointException as error:
    found["dcp"] = str(error)
found["steps"] = len(checkpoint.steps(place))
"""


def test_all_ranks_refuse_a_position_out_of_order(prefix, tmp_path):
    for found in rank_processes.run(RANKS, tmp_path / "results", 2, prefix=prefix, place=str(tmp_path / "place")):
        assert all("different ranks cannot continue" in found[name] for name in ("save", "dcp")) and found["steps"] == 0


LATE_TORCH = """
import os, sys
import forebay as fb

loader = fb.load_files(sys.argv[1])
assert "torch" not in sys.modules and len(loader) == 12
import torch.utils.data as data
for workers in (0, 2):
    context = "fork" if workers else None
    loaded = data.DataLoader(loader, batch_size=None, num_workers=workers, multiprocessing_context=context)
    assert isinstance(loader, data.IterableDataset) and loaded._dataset_kind == 1
    assert sorted(os.path.basename(url) for url, _ in loaded) == [f"{number:02}" for number in range(1, 24, 2)]
assert type(loader) is loader.__class__ is fb.files.FileLoader
"""


def test_a_loader_that_is_older_than_the_import_of_torch_is_iterated(prefix):
    ranks = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    subprocess.run([sys.executable, "-c", LATE_TORCH, prefix], check=True, env={**os.environ, **ranks})


def test_each_loop_of_persistent_workers_is_the_next_epoch(prefix):
    loader = torch.utils.data.DataLoader(
        fb.load_files(prefix, shuffle=True), batch_size=2, num_workers=2, collate_fn=list, persistent_workers=True
    )
    for epoch in range(4):
        found = []
        for batch in loader:
            found += [os.path.basename(url) for url, _ in batch]
            # Each worker is at a different position then, and has files in flight.
            if epoch == 1 and len(found) > 6:
                break
        if epoch != 1:
            assert sorted(found) == every()
        order = rest(fb.load_files(prefix, shuffle=True, epoch=epoch))
        # The first two of one of two workers.
        assert found[:2] == [order[0], order[2]]


def test_a_file_of_a_list_is_opened_loaded_and_removed(prefix):
    file = fb.list_files(prefix)[3]
    assert fb.open(file).read() == b"xxx" and [bytes(data) for _, data in fb.load_files(file)] == [b"xxx"]
    with pytest.raises(fb.ConfigError, match="must be a sequence of URLs"):
        fb.remove_files(file)
