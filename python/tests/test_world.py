"""The world: arguments, torch.distributed, launchers."""

import pytest

import forebay as fb
from forebay.world import detect


_LOCAL = {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}


def place(**kwargs):
    world = detect(**kwargs)
    return (world.rank, world.world_size, world.local_rank, world.local_world_size, world.source)


def test_without_a_launcher_it_is_one_process():
    assert place(environ={}) == (0, 1, 0, 1, "a single process")


def test_an_empty_variable_is_ignored():
    assert place(environ={"RANK": "", "WORLD_SIZE": ""})[:2] == (0, 1)
    assert place(environ={"RANK": "", "WORLD_SIZE": "", "PMI_RANK": "1", "PMI_SIZE": "2"} | _LOCAL)[:2] == (1, 2)


def test_torchrun_is_detected():
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert place(environ=environ) == (5, 8, 1, 4, "torchrun")


def test_open_mpi_and_mpich_are_detected():
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    environ = {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in zip(names, (3, 4, 1, 2))}
    assert place(environ=environ) == (3, 4, 1, 2, "Open MPI")
    environ = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
    assert place(environ=environ) == (1, 2, 0, 1, "MPICH")


def test_slurm_counts_the_tasks_of_this_node():
    environ = {
        "SLURM_STEP_ID": "0",
        "SLURM_PROCID": "9",
        "SLURM_STEP_NUM_TASKS": "11",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "2",
        "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
    }
    assert place(environ=environ) == (9, 11, 1, 3, "SLURM")


def test_a_plain_process_in_a_slurm_batch_script_is_alone():
    assert place(environ={"SLURM_PROCID": "0", "SLURM_NTASKS": "16"})[:2] == (0, 1)


def test_arguments_override_the_environment():
    environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert place(rank=0, world_size=2, local_rank=0, local_world_size=1, environ=environ)[:4] == (0, 2, 0, 1)
    assert place(rank=0, world_size=8, environ=environ)[:4] == (0, 8, 1, 4)


def test_an_incomplete_world_is_an_error():
    with pytest.raises(fb.ConfigError, match="belong together"):
        detect(rank=1, environ={})
    with pytest.raises(fb.ConfigError, match="LOCAL_RANK"):
        detect(environ={"RANK": "1", "WORLD_SIZE": "2"})
    with pytest.raises(fb.ConfigError, match="no number"):
        detect(environ={"RANK": "one", "WORLD_SIZE": "2"})
    with pytest.raises(fb.ConfigError, match="RANK is empty, but WORLD_SIZE is 2: set both, or neither"):
        detect(environ={"RANK": "", "WORLD_SIZE": "2"})
    with pytest.raises(ValueError, match="below its world size"):
        detect(rank=2, world_size=2, local_rank=0, local_world_size=1, environ={})


def test_a_rank_that_is_too_large_is_an_error_first():
    with pytest.raises(fb.ConfigError, match="rank is 3 and world_size 2 according to the call, but a rank counts from 0"):
        detect(rank=3, world_size=2, environ={})
    for wrong in ({"rank": 1.5, "world_size": 2}, {"rank": "0", "world_size": 2}, {"rank": -1, "world_size": 2}):
        with pytest.raises(fb.ConfigError, match="rank is a whole number, at least 0"):
            detect(**wrong, environ={})
    with pytest.raises(fb.ConfigError, match="world_size is a whole number, at least 1"):
        detect(rank=0, world_size=0, environ={})


def test_torch_distributed_overrides_the_environment(tmp_path):
    torch = pytest.importorskip("torch")
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        environ = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
        assert place(environ=environ) == (0, 1, 0, 1, "torch.distributed")
    finally:
        torch.distributed.destroy_process_group()
