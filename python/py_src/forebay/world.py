"""Which process of how many this is.

Asked in this order: the loader's arguments, `torch.distributed` where it is initialised, the launcher's environment
(torchrun, SLURM, Open MPI, MPICH and Intel MPI, MVAPICH), else one process. A launcher that says half of it is an error
and not a guess: with a wrong world every rank would read the wrong samples, silently.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from .arguments import U32, whole
from .errors import ConfigError

__all__ = ["World", "detect"]


@dataclass(frozen=True)
class World:
    """Where this process stands; every rank has one device."""

    rank: int
    """Among all processes, from 0."""
    world_size: int
    """All processes."""
    local_rank: int
    """Among the processes of this node, from 0."""
    local_world_size: int
    """The processes of this node."""
    source: str
    """Who said so, for messages."""


# Rank, world size, local rank, local world size of the launchers whose variables say it plainly.
_LAUNCHERS = (
    ("torchrun", ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")),
    (
        "Open MPI",
        (
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ),
    ),
    (
        "MVAPICH",
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ),
    ("MPICH", ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")),
)


def detect(
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> World:
    """This process's place in the world.

    Args:
        rank: Overrides what is found, like the three after it.
        world_size: All processes.
        local_rank: Among the processes of this node.
        local_world_size: The processes of this node.
        environ: Read in place of `os.environ`.

    Raises:
        ConfigError: Only a part of it is known, or the parts contradict each other.
    """
    environ = os.environ if environ is None else environ
    arguments = {"rank": rank, "world_size": world_size, "local_rank": local_rank, "local_world_size": local_world_size}
    rank, world_size, local_rank, local_world_size = (
        value if value is None else whole(name, value, least=int("size" in name), below=U32)
        for name, value in arguments.items()
    )
    given = (rank, world_size, local_rank, local_world_size)
    if all(value is not None for value in given):
        return _checked(given, "the call")
    if (rank is None) != (world_size is None):
        raise ConfigError("rank and world_size belong together: pass both, or neither")
    if rank is not None:
        found, source = (rank, world_size, None, None), "the call"
    else:
        found, source = _torch() or _launcher(environ) or ((0, 1, 0, 1), "a single process")
    merged = [mine if mine is not None else theirs for mine, theirs in zip(given, found)]
    if None not in merged[:2] and not 0 <= merged[0] < merged[1]:
        raise ConfigError(
            f"rank is {merged[0]} and world_size {merged[1]}, says {source}: a rank counts from 0 and is below its world size"
        )
    if merged[1] == 1:
        # One process is alone on its node as well.
        merged[2:] = [value if value is not None else alone for value, alone in zip(merged[2:], (0, 1))]
    if None in merged[2:]:
        # Who starts the processes often says this in the environment and nowhere else.
        local, _ = _launcher(environ) or ((None,) * 4, "")
        merged[2:] = [mine if mine is not None else theirs for mine, theirs in zip(merged[2:], local[2:])]
    if None in merged[2:]:
        raise ConfigError(
            f"{source} says that this is rank {merged[0]} of {merged[1]}, but not which of this node's processes it is: "
            "pass local_rank and local_world_size, or set LOCAL_RANK and LOCAL_WORLD_SIZE"
        )
    return _checked(tuple(merged), source)


def _torch():
    """From `torch.distributed`, without importing torch: a process group is only there if somebody else did."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return (distributed.get_rank(), distributed.get_world_size(), None, None), "torch.distributed"


def _launcher(environ: Mapping[str, str]):
    """From the environment, or None where no launcher speaks."""
    for source, names in _LAUNCHERS:
        set_, empty = [name for name in names[:2] if environ.get(name)], [name for name in names[:2] if environ.get(name) == ""]
        if set_ and empty:
            raise ConfigError(f"{source}'s {empty[0]} is empty, but {set_[0]} is {environ[set_[0]]}: set both, or neither")
        if len(set_) == 2:
            return tuple(_number(environ, name, source) for name in names), source
    # In a batch script SLURM counts the tasks of the whole job although this is one plain process: only a step counts.
    if "SLURM_STEP_ID" in environ and "SLURM_PROCID" in environ:
        return _slurm(environ), "SLURM"
    return None


def _slurm(environ: Mapping[str, str]):
    tasks = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM")
    if tasks is None:
        tasks = _number(environ, "SLURM_NTASKS", "SLURM")
    rank = _number(environ, "SLURM_PROCID", "SLURM")
    if tasks is None:
        raise ConfigError("SLURM_PROCID is set but neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS: pass world_size")
    listed = environ.get("SLURM_STEP_TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE") or ""
    per_node: list[int] = []
    for part in filter(None, listed.split(",")):
        # "4(x2),3" is 4, 4, 3.
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
        raise ConfigError(f"{source}'s {name} is {text!r}, which is no number") from None


def _checked(values, source: str) -> World:
    rank, world_size, local_rank, local_world_size = map(int, values)
    if not (0 <= rank < world_size and 0 <= local_rank < local_world_size <= world_size):
        raise ConfigError(
            f"rank {rank} of {world_size}, and {local_rank} of {local_world_size} on this node, says {source}: "
            "a rank counts from 0 and is below its world size"
        )
    return World(rank, world_size, local_rank, local_world_size, source)
