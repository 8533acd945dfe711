"""Ranks from the launcher's environment, and the collective calls of `torch.distributed` that programs use.

Data sets of this package make no collective call, start no process group and touch no device.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from .._lazy import lazy

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "all_gather",
    "all_gather_object",
    "barrier",
    "broadcast",
    "get_local_rank",
    "get_local_world_size",
    "get_rank",
    "get_world_size",
    "maybe_init_dist",
]

__getattr__, __dir__ = lazy(__name__, {"_torch": ("Tensor", "dist")}, package=__package__)

TObj = TypeVar("TObj")


def get_rank() -> int:
    """This process among all, from 0: RANK."""
    return int(os.environ.get("RANK", 0))


def get_world_size() -> int:
    """All processes: WORLD_SIZE."""
    return int(os.environ.get("WORLD_SIZE", 1))


def get_local_rank() -> int:
    """This process among the processes of its node, from 0: LOCAL_RANK."""
    return int(os.environ.get("LOCAL_RANK", 0))


def get_local_world_size() -> int:
    """Processes of this node: LOCAL_WORLD_SIZE."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def _group() -> Any:
    """Returns `torch.distributed` if there is a process group. Without an import of torch there is none."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def barrier() -> None:
    """Waits for all ranks, if there is a process group."""
    if (group := _group()) is not None:
        group.barrier()


def broadcast(tensor: Tensor, src: int) -> None:
    """Copies `tensor` from rank `src` to all, if there is a process group."""
    if (group := _group()) is not None:
        group.broadcast(tensor, src)


def all_gather(tensor_list: list[Tensor], tensor: Tensor) -> None:
    """Collects every rank's `tensor` into `tensor_list`, if there is a process group."""
    if (group := _group()) is not None:
        group.all_gather(tensor_list, tensor)


def all_gather_object(obj: TObj) -> list[TObj]:
    """Returns every rank's `obj` in the order of ranks.

    Raises:
        RuntimeError: There are several ranks and no process group.
    """
    if (group := _group()) is not None:
        gathered: list[Any] = [None] * group.get_world_size()
        group.all_gather_object(gathered, obj)
        return gathered
    if get_world_size() > 1:
        raise RuntimeError(
            f"WORLD_SIZE is {get_world_size()}, but torch.distributed is not initialised: call init_process_group first"
        )
    return [obj]


def maybe_init_dist() -> bool:
    """Starts a process group if there are several ranks and no group. Returns true if it did: the caller ends it."""
    if get_world_size() == 1:
        return False
    import torch
    from torch import distributed

    if not distributed.is_available() or distributed.is_initialized():
        return False
    on_devices = torch.cuda.is_available() and distributed.is_nccl_available()
    distributed.init_process_group("nccl" if on_devices else "gloo", rank=get_rank(), world_size=get_world_size())
    return True
