"""Data sets that are made before their process group: an error, where the reference gives all ranks the same samples."""

import json
import os
import subprocess
import sys

import pytest
from number_sets import write

TRAIN = """
import json
import os
import sys

import torch
import torch.distributed as dist
from forebay.streaming import StreamingDataLoader, StreamingDataset

folder, results = sys.argv[1:]


def dataset(environ=(), **world):
    names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(environ)
    try:
        return StreamingDataset(local=folder, batch_size=4, **world)
    finally:
        for name in names:
            os.environ.pop(name, None)


def result(call):
    try:
        return call()
    except ValueError as error:
        return str(error)


def numbers(samples):
    return sorted(int(number) for batch in samples for number in batch["number"])


def train(rank, folder_, results_):
    global folder
    folder = folder_
    early = dataset()
    early.state_dict(0, True)
    assert len(early) == 24, "without a group there is nothing to compare"
    half = dataset({"WORLD_SIZE": "2"})
    whole = dataset({"WORLD_SIZE": "3", "RANK": "2"})
    given = dataset(rank=0, world_size=1)
    own = dataset()
    own._unique_rank_world = own._parallel_rank_world = type(own._unique_rank_world)(1, 4, 1, 3)
    store = dist.FileStore(os.path.join(results_, "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    late = dataset(local_rank=rank, local_world_size=2)
    found = {
        "iter": result(lambda: next(iter(early))),
        "len": result(lambda: len(early)),
        "state": result(lambda: early.state_dict(0, True)),
        "workers": result(lambda: numbers(StreamingDataLoader(early, 4, num_workers=1, multiprocessing_context="fork"))),
        "half": result(lambda: numbers(StreamingDataLoader(half, 4))),
        "counts": [len(late), len(whole), len(given), len(numbers(StreamingDataLoader(own, 4)))],
        "late": numbers(StreamingDataLoader(late, 4)),
    }
    with open(os.path.join(results_, f"{rank}.json"), "w") as file:
        json.dump(found, file)
    # Without the end of the group gloo's threads may abort the process while it ends.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, sys.argv[1:], nprocs=2)
"""


def test_a_data_set_that_is_older_than_its_process_group_is_an_error(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    folder = write(tmp_path / "set", 24)
    launchers = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    env = {name: value for name, value in os.environ.items() if name not in launchers}
    subprocess.run([sys.executable, script, folder, tmp_path], check=True, env=env, timeout=300)
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert sorted(ranks[0]["late"] + ranks[1]["late"]) == list(range(24))
    for rank, found in enumerate(ranks):
        message = (
            f"the data set was made as rank 0 of 1 (a single process), but torch.distributed has rank {rank} of 2 now, so "
            "ranks would get the wrong samples: make the data set after the process group is initialised, or pass rank and "
            "world_size"
        )
        assert [found[name] for name in ("iter", "len", "state")] == [message] * 3
        assert message in found["workers"]
        assert found["counts"] == [12, 8, 24, 6]
    assert len(ranks[0]["half"]) == 12
    assert "rank 0 of 2 (WORLD_SIZE is 2, and RANK is not set), but torch.distributed has rank 1 of 2" in ranks[1]["half"]
