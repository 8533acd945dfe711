"""The world: arguments, torch.distributed, launchers."""

import logging
import sys
import types

import pytest
import rank_processes
from loaders import ordered
from picture_set import SAMPLES

import forebay as fb
from forebay import _world as world
from forebay._world import World, check_group, detect


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


def test_open_mpi_mpich_and_horovod_are_detected():
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    environ = {f"OMPI_COMM_WORLD_{name}": str(value) for name, value in zip(names, (3, 4, 1, 2))}
    assert place(environ=environ) == (3, 4, 1, 2, "Open MPI")
    environ = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"}
    assert place(environ=environ) == (1, 2, 0, 1, "MPICH")
    environ = {f"HOROVOD_{name}": str(value) for name, value in zip(names, (3, 4, 1, 2))}
    assert place(environ=environ) == (3, 4, 1, 2, "Horovod")


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


TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "8",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2)",
}
# A step that mpiexec starts by srun: one task for each node.
SLURM_NODES = SLURM | {
    "SLURM_NTASKS": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
}
SLURM_BATCH = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_LOCALID": "0"}
PMI = {"PMI_RANK": "5", "PMI_SIZE": "8", "PMI_FD": "7"}
HYDRA = PMI | {"MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
CRAY = PMI | {"PMI_LOCAL_RANK": "1", "PMI_LOCAL_SIZE": "4", "PALS_RANKID": "5"}
PMIX = {"PMIX_RANK": "5", "PMIX_NAMESPACE": "slurm.pmix.1.0"}
OPEN_MPI = dict(zip((f"OMPI_COMM_WORLD_{n}" for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")), "5814"))
MVAPICH = dict(zip((f"MV2_COMM_WORLD_{n}" for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")), "5814"))
HOROVOD = dict(zip((f"HOROVOD_{n}" for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")), "5814"))
JSRUN = dict(zip((f"JSM_NAMESPACE_{n}" for n in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")), "5814"))
FLUX = {"FLUX_TASK_RANK": "5", "FLUX_JOB_SIZE": "8", "FLUX_TASK_LOCAL_ID": "1", "FLUX_JOB_NNODES": "2"}
POD = {"MASTER_ADDR": "job-master-0", "WORLD_SIZE": "2", "RANK": "1", "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "m"}
SAGEMAKER = {"SM_HOSTS": '["algo-1", "algo-2"]', "SM_CURRENT_HOST": "algo-2", "SM_NUM_GPUS": "4"}
DEEPSPEED = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4", "CROSS_RANK": "1"}
SET_BY_HAND = {"MASTER_ADDR": "node-0", "RANK": "5", "WORLD_SIZE": "8"}
RANK_5 = (5, 8, 1, 4)

LAUNCHED = {
    "torchrun": (TORCHRUN, RANK_5, "torchrun"),
    "torchrun in a step of SLURM": (TORCHRUN | SLURM_NODES, RANK_5, "torchrun"),
    "torchrun in a step of SLURM with pmi2": (TORCHRUN | SLURM_NODES | {"PMI_RANK": "1", "PMI_SIZE": "2"}, RANK_5, "torchrun"),
    "torchrun in mpirun": (TORCHRUN | OPEN_MPI | {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, RANK_5, "torchrun"),
    "torchrun in Kubeflow": (POD | TORCHRUN, RANK_5, "torchrun"),
    "torchrun of SageMaker": (SAGEMAKER | TORCHRUN, RANK_5, "torchrun"),
    "Ray Train": ({"RAY_ADDRESS": "auto", "NODE_RANK": "1"} | TORCHRUN, RANK_5, "torchrun"),
    "DeepSpeed": (DEEPSPEED, RANK_5, "DeepSpeed"),
    "srun": (SLURM, RANK_5, "SLURM"),
    "srun --mpi=pmi2": (SLURM | PMI, RANK_5, "SLURM"),
    "srun --mpi=pmix": (SLURM | PMIX, RANK_5, "SLURM"),
    "srun --mpi=cray_shasta": (SLURM | CRAY, RANK_5, "Cray MPICH"),
    "srun with RANK and WORLD_SIZE set by hand": (SLURM | SET_BY_HAND, RANK_5, "SLURM"),
    "srun with LOCAL_RANK set by hand": (SLURM | SET_BY_HAND | {"LOCAL_RANK": "1"}, RANK_5, "SLURM"),
    "srun with a world size set by hand": (SLURM | {"WORLD_SIZE": "8"}, RANK_5, "SLURM"),
    "a batch script of SLURM": (SLURM_BATCH, (0, 1, 0, 1), "a single process"),
    "mpirun in a batch script of SLURM": (SLURM_BATCH | OPEN_MPI, RANK_5, "Open MPI"),
    "mpirun of Open MPI in SLURM": (SLURM_NODES | OPEN_MPI | PMIX, RANK_5, "Open MPI"),
    "mpiexec of MPICH in SLURM": (SLURM_NODES | HYDRA, RANK_5, "MPICH"),
    "MPICH": (HYDRA, RANK_5, "MPICH"),
    "MVAPICH in SLURM": (SLURM_NODES | MVAPICH, RANK_5, "MVAPICH"),
    "mpirun of SageMaker": (SAGEMAKER | OPEN_MPI, RANK_5, "Open MPI"),
    "a host of SageMaker": (SAGEMAKER, (0, 1, 0, 1), "a single process"),
    "MPIJob of Kubeflow": ({"K_MPI_JOB_ROLE": "worker"} | OPEN_MPI, RANK_5, "Open MPI"),
    "PyTorchJob of Kubeflow without torchrun": (POD, (1, 2, 0, 1), "Kubeflow"),
    "mpirun in a PyTorchJob": (POD | OPEN_MPI, RANK_5, "Open MPI"),
    "Horovod": (HOROVOD, RANK_5, "Horovod"),
    "horovodrun with MPI": (HOROVOD | OPEN_MPI, RANK_5, "Open MPI"),
    "jsrun of LSF": ({"LSB_JOBID": "1"} | JSRUN | PMIX, RANK_5, "LSF's jsrun"),
    "jsrun of LSF with Spectrum MPI": ({"LSB_JOBID": "1"} | JSRUN | OPEN_MPI | PMIX, RANK_5, "Open MPI"),
    "Flux": (FLUX, RANK_5, "Flux"),
    "Flux with its PMI": (FLUX | PMI, RANK_5, "Flux"),
    "Flux on one node": (FLUX | {"FLUX_JOB_NNODES": "1", "FLUX_TASK_LOCAL_ID": "5"}, (5, 8, 5, 8), "Flux"),
    "a worker of Ray": ({"RAY_ADDRESS": "auto"}, (0, 1, 0, 1), "a single process"),
}


@pytest.mark.parametrize("name", LAUNCHED)
def test_the_innermost_launcher_with_all_numbers_counts(name):
    environ, numbers, source = LAUNCHED[name]
    assert place(environ=environ) == (*numbers, source)


def test_numbers_that_are_contradictory_are_an_error_with_both_launchers():
    # mpiexec of an old MPICH, which srun has started once for each node.
    with pytest.raises(fb.ConfigError, match="MPICH has rank 5 of 8 .* but no local rank, and SLURM has rank 1 of 2"):
        detect(environ=SLURM_NODES | PMI)
    with pytest.raises(fb.ConfigError, match="torchrun has rank 5 of 8 .* and Open MPI has rank 1 of 8"):
        detect(environ=SET_BY_HAND | OPEN_MPI | {"OMPI_COMM_WORLD_RANK": "1"})
    # Flux has no variable with the tasks of a node.
    with pytest.raises(fb.ConfigError, match="Flux has rank 5 of 8 for this process, but not its local rank"):
        detect(environ=FLUX | {"FLUX_JOB_NNODES": "3"})
    with pytest.raises(fb.ConfigError, match="but not its local rank: pass world=World"):
        detect(environ=PMI)


def test_a_group_gets_its_local_rank_from_the_launcher_of_the_same_process(monkeypatch):
    monkeypatch.setattr(world, "_group", lambda: ((5, 8, None, None), "torch.distributed"))
    for environ in (TORCHRUN, SLURM, SLURM | PMI, FLUX | PMI, SLURM_NODES | HYDRA, SLURM | {"RANK": "1", "WORLD_SIZE": "2"}):
        assert place(environ=environ) == (*RANK_5, "torch.distributed")


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
    with pytest.raises(fb.ConfigError, match="is not a number"):
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


def test_a_world_size_without_a_rank_is_an_error():
    with pytest.raises(fb.ConfigError, match="WORLD_SIZE is 2, but RANK is not set, .*set RANK, make the loader after torch.dist"):
        detect(environ={"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"})
    with pytest.raises(fb.ConfigError, match="RANK is 1, but WORLD_SIZE is not set"):
        detect(environ={"RANK": "1"})
    with pytest.raises(fb.ConfigError, match="OMPI_COMM_WORLD_SIZE is 4, but OMPI_COMM_WORLD_RANK is not set"):
        detect(environ={"OMPI_COMM_WORLD_SIZE": "4"})
    assert place(environ={"WORLD_SIZE": "1"}) == place(environ={"RANK": "0"}) == (0, 1, 0, 1, "a single process")
    # A batch script may set it for the processes of its step, which have a rank from elsewhere.
    assert place(environ={"WORLD_SIZE": "2", "PMI_RANK": "1", "PMI_SIZE": "2"} | _LOCAL)[:2] == (1, 2)
    assert place(rank=1, world_size=2, local_rank=0, local_world_size=1, environ={"WORLD_SIZE": "2"})[:2] == (1, 2)


def test_a_group_that_met_on_this_node_has_its_local_ranks(monkeypatch):
    monkeypatch.setattr(world, "_group", lambda: ((1, 4, None, None), "torch.distributed"))
    for address in ("localhost", "127.0.0.1", "::1"):
        assert place(environ={"MASTER_ADDR": address}) == (1, 4, 1, 4, "torch.distributed")
    # As Lightning's own launcher sets them.
    assert place(environ={"MASTER_ADDR": "127.0.0.1", "LOCAL_RANK": "1", "WORLD_SIZE": "4"})[:4] == (1, 4, 1, 4)
    with pytest.raises(fb.ConfigError, match="but not its local rank"):
        detect(environ={"MASTER_ADDR": "10.0.0.1"})


def test_jax_distributed_is_asked_without_opening_its_devices(monkeypatch):
    state = types.SimpleNamespace(client=None, process_id=1, num_processes=4)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", types.SimpleNamespace(global_state=state))
    assert place(environ={}) == (0, 1, 0, 1, "a single process")
    alone = detect(environ={})
    check_group(alone)
    state.client = object()
    assert place(local_rank=0, local_world_size=1, environ={}) == (1, 4, 0, 1, "jax.distributed")
    with pytest.raises(fb.ConfigError, match=r"was made as rank 0 of 1 \(a single process\), but jax.distributed has rank 1 of 4"):
        check_group(alone)
    check_group(World(0, 2, 0, 1, "the call"))
    for address in ("localhost:1234", "127.0.0.1:1234", "[::1]:1234"):
        state.coordinator_address = address
        assert place(environ={}) == (1, 4, 1, 4, "jax.distributed")
    state.coordinator_address = "10.0.0.1:1234"
    with pytest.raises(fb.ConfigError, match="but not its local rank"):
        detect(environ={})


def test_repr_and_a_log_line_name_the_rank_and_its_source(pictures, caplog):
    caplog.set_level(logging.INFO, "forebay")
    with ordered(pictures, world=fb.World(rank=1, world_size=2, local_rank=1, local_world_size=2)) as loader:
        assert repr(loader) == "<forebay.Loader, epoch 0, 7 batches, rank 1 of 2 (the call)>"
        loader.load_state_dict({**loader.state_dict(), "sample_in_epoch": 4 * loader.batch_size})
        assert repr(loader) == "<forebay.Loader, epoch 0 from batch 2, 7 batches, rank 1 of 2 (the call)>"
        loader.set_epoch(3)
        assert repr(loader) == "<forebay.Loader, epoch 3, 7 batches, rank 1 of 2 (the call)>"
    assert "loader of rank 1 of 2 (the call), local rank 1 of 2" in caplog.messages


EARLY = """
import os
import forebay as fb


def loader(**world):
    return fb.Loader(local=folder, batch_size=16, shuffle=True, fields={"n": fb.Scalar("number")}, **world)


def same_node():
    os.environ["MASTER_ADDR"] = "localhost"
    return repr(loader())


def failure(call):
    try:
        return call()
    except fb.ConfigError as error:
        return str(error)


os.environ["WORLD_SIZE"] = "2"
half = failure(loader)
del os.environ["WORLD_SIZE"]
before = loader()
init_group()
place = fb.World(rank=None, world_size=None, local_rank=rank, local_world_size=2)
found |= {
    "half": half,
    "before": [failure(lambda: iter(before)), failure(lambda: len(before)), failure(before.state_dict)],
    "repr before": repr(before),
    "after": [n for batch in loader(world=place) for n in batch["n"].tolist()],
    "on this node": same_node(),
    "given": sum(len(batch["n"]) for batch in loader(world=fb.World(rank=0, world_size=1))),
    "repr": repr(loader(world=place)),
}
"""


def test_a_loader_that_is_older_than_its_process_group_is_an_error(pictures, tmp_path):
    pytest.importorskip("torch")
    ranks = rank_processes.run(EARLY, tmp_path, 2, is_grouped=False, folder=pictures)
    assert sorted(ranks[0]["after"] + ranks[1]["after"]) == list(range(SAMPLES))
    for rank, found in enumerate(ranks):
        assert "WORLD_SIZE is 2, but RANK is not set" in found["half"]
        assert (
            f"was made as rank 0 of 1 (a single process), but torch.distributed has rank {rank} of 2 now, so ranks would get the wrong "
            "samples: make the loader after the process group is initialised, or pass rank and world_size"
        ) == found["before"][0].removeprefix("the loader ")
        assert found["before"] == found["before"][:1] * 3
        assert "rank 0 of 1 (a single process)" in found["repr before"]
        assert found["given"] == SAMPLES
        assert f"rank {rank} of 2 (torch.distributed)" in found["repr"]
        assert found["on this node"] == found["repr"]
