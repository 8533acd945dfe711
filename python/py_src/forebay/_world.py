"""Detection of this process's rank.

Sources in this order: the loader's arguments, `torch.distributed` or `jax.distributed` if it is initialised, the
launcher's environment, else a single process. Launchers are nested, as mpirun in SLURM and torchrun in Kubeflow, so that a
process has the variables of several: the innermost one with all four numbers counts. With a wrong world every rank would
silently read the wrong samples. So an incomplete environment is an error, and `check_group` compares a loader with a
process group that was initialised after the loader was made.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._arguments import U32, by_name, shown, whole
from .errors import ConfigError

_THE_CALL, _TORCH, _JAX = "the call", "torch.distributed", "jax.distributed"
"""Sources that get special treatment."""

_THIS_NODE = ("localhost", "127.0.0.1", "::1")
"""Addresses that mean the node itself."""


@by_name(num_replicas="world_size", size="world_size")
@dataclass(frozen=True)
class World:
    """Rank of this process; every rank has one device, as in `World(rank=3, world_size=16, local_rank=3, local_world_size=8)`.

    Args:
        rank: This process among all, from 0. None, here and in the next three: from the process group, then the launcher.
        world_size: Number of all processes.
        local_rank: This process among the processes of its node, from 0.
        local_world_size: Number of processes of this node.
        source: Source of these numbers, for messages.
    """

    rank: int | None
    world_size: int | None
    local_rank: int | None = None
    local_world_size: int | None = None
    source: str = "the call"

    def __str__(self) -> str:
        return f"rank {self.rank} of {self.world_size} ({self.source})"


# Launchers with plain variables: rank, world size, local rank, local world size. One that starts processes inside the
# processes of a second one comes before it, and so does the set with more numbers of two with the same rank.
_LAUNCHERS = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")),
    ("DeepSpeed", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    ("Open MPI", ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE")),
    ("MVAPICH", ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE")),
    ("MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
    ("Cray MPICH", ("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE")),
    ("Horovod", ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE")),
    ("LSF's jsrun", ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE")),
)


def detect(
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> World:
    """Detects the rank of this process by `environ`, or `os.environ`. The numbers that are passed, as of a `World`, stay.

    Raises:
        ConfigError: The numbers are incomplete, or contradictory.
    """
    environ = os.environ if environ is None else environ
    arguments = {"rank": rank, "world_size": world_size, "local_rank": local_rank, "local_world_size": local_world_size}
    rank, world_size, local_rank, local_world_size = (
        value if value is None else whole(name, value, least=int("size" in name), below=U32)
        for name, value in arguments.items()
    )
    given = (rank, world_size, local_rank, local_world_size)
    if all(value is not None for value in given):
        return _checked(given, _THE_CALL)
    if (rank is None) != (world_size is None):
        raise ConfigError("rank and world_size belong together: pass both, or neither")
    if rank is not None:
        found, source = (rank, world_size, None, None), _THE_CALL
    else:
        found, source = surroundings(environ) or _alone(environ)
    merged = [mine if mine is not None else theirs for mine, theirs in zip(given, found)]
    if None not in merged[:2] and not 0 <= merged[0] < merged[1]:
        raise ConfigError(
            f"rank is {merged[0]} and world_size {merged[1]} according to {source}, but a rank counts from 0 and is below its "
            "world size"
        )
    if merged[1] == 1:
        # A single process is also alone on its node.
        merged[2:] = [value if value is not None else alone for value, alone in zip(merged[2:], (0, 1))]
    if None in merged[2:]:
        # Launchers often set the local rank only in the environment.
        merged[2:] = _local(environ, merged)
    if None in merged[2:] and _is_one_node(source, environ):
        # All processes have met on this node.
        merged[2:] = [mine if mine is not None else all_ for mine, all_ in zip(merged[2:], merged[:2])]
    if None in merged[2:]:
        raise ConfigError(
            f"{source} has rank {merged[0]} of {merged[1]} for this process, but not its local rank: "
            "pass world=World(...) with local_rank and local_world_size, or set LOCAL_RANK and LOCAL_WORLD_SIZE"
        )
    return _checked(tuple(merged), source)


def of_argument(world: World | None) -> World:
    """Detects the rank of this process, except for the numbers that the caller has given."""
    if world is None:
        return detect()
    if not isinstance(world, World):
        raise ConfigError(f"world is a World, such as World(rank=0, world_size=8), but it is {shown(world)}")
    return detect(world.rank, world.world_size, world.local_rank, world.local_world_size)


def check_group(made: World, name: str = "loader") -> None:
    """Compares the world that a loader was made with with the process group that is initialised now, if there is one.

    Numbers that the program has given are not compared: the ranks of data parallelism may differ from the group's. `name` is the noun
    for the object, for the message.

    Raises:
        ConfigError: They differ, so a rank would get samples of a different rank.
    """
    found = _group()
    if found is None or made.source == _THE_CALL:
        return
    (rank, world_size, *_), source = found
    if (rank, world_size) != (made.rank, made.world_size):
        raise ConfigError(
            f"the {name} was made as {made}, but {source} has rank {rank} of "
            f"{world_size} now, so ranks would get the wrong samples: make the {name} after the process group is initialised"
            f"{_in_lightning()}, or pass rank and world_size"
        )


def _in_lightning() -> str:
    """Returns where to make a loader if the program uses Lightning's Trainer, which starts processes after the program has."""
    if "lightning.pytorch" in sys.modules or "pytorch_lightning" in sys.modules:
        return ", in Lightning in train_dataloader() of the module or data module"
    return ""


def surroundings(environ: Mapping[str, str]):
    """Returns rank, world size, local rank and local world size, and their source; None for a single process."""
    return _group() or _launcher(environ)


def torch_distributed() -> Any:
    """Returns `torch.distributed` if there is a default process group. Imports nothing: without an import there is no group."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    return distributed if distributed is not None and distributed.is_available() and distributed.is_initialized() else None


def _group():
    """Reads `torch.distributed`, or `jax.distributed`."""
    if (distributed := torch_distributed()) is not None:
        return (distributed.get_rank(), distributed.get_world_size(), None, None), _TORCH
    # `jax.process_index` would open the devices, so JAX's private state is read.
    state = _jax_state()
    if getattr(state, "client", None) is None:
        return None
    return (state.process_id, state.num_processes, None, None), _JAX


def _jax_state():
    return getattr(sys.modules.get("jax._src.distributed"), "global_state", None)


def _is_one_node(source: str, environ: Mapping[str, str]) -> bool:
    """Returns true if the processes met at an address that means the node itself."""
    if source == _TORCH:
        return environ.get("MASTER_ADDR") in _THIS_NODE
    address = getattr(_jax_state(), "coordinator_address", None) if source == _JAX else None
    return isinstance(address, str) and address.rpartition(":")[0].strip("[]") in _THIS_NODE


def _alone(environ: Mapping[str, str]):
    """Returns the world of a single process, unless a launcher has set a part of its variables."""
    for source, (rank, size, *_) in _LAUNCHERS:
        for name, missing, most in ((size, rank, 1), (rank, size, 0)):
            number = _number(environ, name, source)
            if number is not None and number > most:
                raise ConfigError(
                    f"{name} is {number}, but {missing} is not set, and there is no process group yet, so the rank of this process "
                    f"is unknown: set {missing}, make the loader after torch.distributed.init_process_group{_in_lightning()}, or pass "
                    f"world=World(rank, world_size) (for one process: unset {name})"
                )
    return (0, 1, 0, 1), "a single process"


def _launcher(environ: Mapping[str, str]):
    """Reads the environment; None if no launcher has set it."""
    found = _sets(environ)
    if not found:
        _check_halves(environ)
        return None
    first, source = found[0]
    complete = next(((numbers, name) for numbers, name in found if None not in numbers), None)
    if complete is None:
        return (*first[:2], *_local(environ, first)), source
    (rank, size, *_), name = complete
    if (rank, size) != first[:2]:
        raise ConfigError(
            f"{source} has rank {first[0]} of {first[1]} for this process, but no local rank, and {name} has rank {rank} of {size}, "
            f"so the rank is unknown: unset the variables of {source}, set its local rank, or pass world=World(rank, world_size)"
        )
    return complete


def _sets(environ: Mapping[str, str]):
    """Returns the numbers that each launcher has set, the innermost one first: at least rank and world size."""
    found = []
    for source, names in _LAUNCHERS:
        numbers = tuple(_number(environ, name, source) for name in names)
        if None not in numbers[:2] and not (names[0] == "RANK" and _is_pod(environ, numbers)):
            found.append((numbers, source))
    found += [numbers for numbers in (_kubeflow(environ), _flux(environ)) if numbers is not None]
    # In a batch script SLURM sets the tasks of the whole job, although this is a single process: only a step counts.
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        try:
            found.append((_slurm(environ), "SLURM"))
        except ConfigError:
            # A different launcher may have all that is needed.
            if not any(None not in numbers for numbers, _ in found):
                raise
    return found


def _local(environ: Mapping[str, str], known):
    """Returns local rank and local world size of the process `known`, as far as they are known or a launcher has set them."""
    found = [numbers for numbers, _ in _sets(environ)]
    same = [numbers for numbers in found if numbers[:2] == tuple(known[:2])]
    local = known[2:]
    for numbers in same or found[:1]:
        local = [mine if mine is not None else theirs for mine, theirs in zip(local, numbers[2:])]
    return local


def _check_halves(environ: Mapping[str, str]) -> None:
    """Rejects an empty rank with a world size, or a rank with an empty world size."""
    for source, names in _LAUNCHERS:
        set_, empty = [name for name in names[:2] if environ.get(name)], [name for name in names[:2] if environ.get(name) == ""]
        if set_ and empty:
            raise ConfigError(f"{source}'s {empty[0]} is empty, but {set_[0]} is {environ[set_[0]]}: set both, or neither")


def _kubeflow(environ: Mapping[str, str]):
    """Reads the variables of a pod of a PyTorchJob with a program that is started without torchrun: one process for each pod."""
    numbers = tuple(_number(environ, name, "Kubeflow") for name in ("RANK", "WORLD_SIZE"))
    return ((*numbers, 0, 1), "Kubeflow") if _is_pod(environ, (*numbers, _number(environ, "LOCAL_RANK", "Kubeflow"))) else None


def _is_pod(environ: Mapping[str, str], numbers) -> bool:
    """Returns true if `RANK` and `WORLD_SIZE` count pods, as Kubeflow sets them for torchrun, which has not been started."""
    rank, size, local_rank, *_ = numbers
    pods = (environ.get("PET_NODE_RANK"), environ.get("PET_NNODES"))
    return None not in (rank, size) and local_rank is None and pods == (str(rank), str(size))


def _flux(environ: Mapping[str, str]):
    names = ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_NNODES")
    rank, size, local_rank, nodes = (_number(environ, name, "Flux") for name in names)
    if rank is None or size is None:
        return None
    # Flux spreads tasks evenly, so the number is known unless a node has one more than the rest.
    local_size = size // nodes if nodes and size % nodes == 0 else None
    return (rank, size, local_rank, local_size), "Flux"


def _slurm(environ: Mapping[str, str]):
    tasks = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM")
    if tasks is None:
        tasks = _number(environ, "SLURM_NTASKS", "SLURM")
    rank = _number(environ, "SLURM_PROCID", "SLURM")
    if tasks is None:
        raise ConfigError("SLURM_PROCID is set but neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS: pass world=World(rank, world_size)")
    listed = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE") or ""
    per_node: list[int] = []
    for part in filter(None, listed.split(",")):
        # "4(x2),3" means 4, 4, 3.
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise ConfigError(f"SLURM_TASKS_PER_NODE is {listed!r}, which is not of the form 4(x2),3")
        per_node += [int(match[1])] * min(int(match[2] or 1), 1 << 20)
    node = _number(environ, "SLURM_NODEID", "SLURM")
    local_size = per_node[node] if node is not None and node < len(per_node) else None
    return rank, tasks, _number(environ, "SLURM_LOCALID", "SLURM"), local_size


def _number(environ: Mapping[str, str], name: str, source: str) -> int | None:
    text = environ.get(name)
    if text is None or text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{source}'s {name} is {text!r}, which is not a number") from None


def _checked(values, source: str) -> World:
    rank, world_size, local_rank, local_world_size = map(int, values)
    if not (0 <= rank < world_size and 0 <= local_rank < local_world_size <= world_size):
        raise ConfigError(
            f"rank {rank} of {world_size}, and {local_rank} of {local_world_size} on this node, according to {source}: "
            "a rank counts from 0 and is below its world size"
        )
    return World(rank, world_size, local_rank, local_world_size, source)


def names_of(devices: list[Any]) -> list[str]:
    """Returns the names of devices, which may be torch.device objects."""
    for device in devices:
        if device is None or isinstance(device, (bool, int, float, bytes)):
            raise ConfigError(f'device is a name such as "cpu" or "cuda:0", or a list of names, but it is {device!r}')
    names = ["cpu" if str(device) == "cpu:0" else str(device) for device in devices]
    if not names:
        raise ConfigError("device is an empty list: name at least one device")
    if "cuda" in names and len(names) > 1:
        raise ConfigError(f'"cuda" is one device: in a list name each by its number, such as "cuda:0", but it is {names}')
    torch = sys.modules.get("torch")
    if names == ["cuda"] and torch is not None and torch.cuda.is_initialized():
        return [f"cuda:{torch.cuda.current_device()}"]
    return names


def world_of(world: World, number: int, devices: int) -> dict[str, int]:
    """Returns the ranks of device `number` of a process with `devices`."""
    return {
        "rank": world.rank * devices + number,
        "world_size": world.world_size * devices,
        "local_rank": world.local_rank * devices + number,
        "local_world_size": world.local_world_size * devices,
    }
