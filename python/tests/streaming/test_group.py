"""Data sets that are made before their process group: an error, where the reference gives all ranks the same samples."""

import rank_processes
from number_sets import write

EARLY = """
import os
from forebay.streaming import StreamingDataLoader, StreamingDataset


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


early = dataset()
early.state_dict(0, True)
assert len(early) == 24, "without a group there is nothing to compare"
half = dataset({"WORLD_SIZE": "2"})
whole = dataset({"WORLD_SIZE": "3", "RANK": "2"})
given = dataset(rank=0, world_size=1)
own = dataset()
own._unique_rank_world = own._parallel_rank_world = type(own._unique_rank_world)(1, 4, 1, 3)
init_group()
late = dataset(local_rank=rank, local_world_size=2)
found |= {
    "iter": result(lambda: next(iter(early))),
    "len": result(lambda: len(early)),
    "state": result(lambda: early.state_dict(0, True)),
    "workers": result(lambda: numbers(StreamingDataLoader(early, 4, num_workers=1, multiprocessing_context="fork"))),
    "half": result(lambda: numbers(StreamingDataLoader(half, 4))),
    "counts": [len(late), len(whole), len(given), len(numbers(StreamingDataLoader(own, 4)))],
    "late": numbers(StreamingDataLoader(late, 4)),
}
"""


def test_a_data_set_that_is_older_than_its_process_group_is_an_error(tmp_path):
    folder = write(tmp_path / "set", 24)
    ranks = rank_processes.run(EARLY, tmp_path / "results", 2, is_grouped=False, folder=str(folder))
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
