"""Node, rank and worker of this process."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

from ... import _world as world
from ...errors import ConfigError
from . import distributed as dist
from ._originals import Originals

__all__ = ["World", "found_world"]

_RANKS = ("get_rank", "get_world_size", "get_local_rank", "get_local_world_size")

_FROM_ENVIRONMENT = {name: Originals(dist, name) for name in _RANKS}
"""Functions that read variables. A program may replace any of them with its own, as for the ranks of data parallelism."""


class World:
    """Nodes, ranks and workers of a job, and the position of this process.

    All nodes have the same number of ranks and all ranks the same number of workers. A rank without worker processes
    counts as its own only worker. Counts are for the whole job unless the name contains a different scope:

    * `node` of `num_nodes`; `is_multinode`
    * `rank` of `num_ranks`; `rank_of_node` of `ranks_per_node`
    * `worker` of `num_workers`; `worker_of_node` of `workers_per_node`; `worker_of_rank` of `workers_per_rank`
    * `is_leader` of the job; `is_local_leader` of the node

    Args:
        num_nodes: Nodes.
        ranks_per_node: Ranks of each node.
        workers_per_rank: Workers of each rank.
        worker: This worker, among all.
    """

    def __init__(self, num_nodes: int, ranks_per_node: int, workers_per_rank: int, worker: int) -> None:
        workers_per_node = ranks_per_node * workers_per_rank
        rank = worker // workers_per_rank

        self.node = worker // workers_per_node
        self.num_nodes = num_nodes
        self.is_multinode = num_nodes > 1

        self.rank = rank
        self.num_ranks = num_nodes * ranks_per_node
        self.rank_of_node = rank % ranks_per_node
        self.ranks_per_node = ranks_per_node

        self.worker = worker
        self.num_workers = num_nodes * workers_per_node
        self.worker_of_node = worker % workers_per_node
        self.workers_per_node = workers_per_node
        self.worker_of_rank = worker % workers_per_rank
        self.workers_per_rank = workers_per_rank
        self.is_leader = worker == 0
        self.is_local_leader = self.worker_of_node == 0

    def to_json(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return dict(vars(self))

    @classmethod
    def detect(
        cls,
        rank: int | None = None,
        world_size: int | None = None,
        local_rank: int | None = None,
        local_world_size: int | None = None,
    ) -> World:
        """Detects the rank: from the arguments, else functions of `streaming.base.distributed` that the program has
        replaced, else RANK and WORLD_SIZE, else `torch.distributed`, else the variables of further launchers, else a single
        process.

        RANK and WORLD_SIZE precede `torch.distributed`, because the reference reads only them: programs with tensor or
        pipeline parallelism set them to the data-parallel rank. Without LOCAL_WORLD_SIZE each process is a node, as in
        the reference. With WORLD_SIZE alone the rank is 0, as in the reference; `forebay.Loader` rejects that.

        Args:
            rank: This process among all. Like the next three, it overrides the detected number, and the reference does
                not have it.
            world_size: Number of all ranks.
            local_rank: This process among the processes of its node.
            local_world_size: Number of ranks of this node.

        Raises:
            ConfigError: The numbers are incomplete or contradictory.
            ValueError: A variable is not a number.
        """
        return cls._of(found_world(rank, world_size, local_rank, local_world_size))

    @classmethod
    def _of(cls, found: world.World) -> World:
        nodes = found.world_size // found.local_world_size
        return cls._of_rank(nodes, found.local_world_size, found.rank)

    @classmethod
    def _of_rank(cls, num_nodes: int, ranks_per_node: int, rank: int) -> World:
        """Returns the world of `rank` for this process, which may be a worker."""
        worker_of_rank, workers_per_rank = cls._get_worker_info()
        return cls(num_nodes, ranks_per_node, workers_per_rank, rank * workers_per_rank + worker_of_rank)

    def copy(self) -> World:
        """Returns a copy."""
        return World(self.num_nodes, self.ranks_per_node, self.workers_per_rank, self.worker)

    def replicate(self, replication: int) -> World:
        """Returns the world in which `replication` consecutive ranks, which see the same samples, count as one.

        If the groups do not divide the nodes evenly, they count as ranks of a single node.

        Raises:
            ValueError: `replication` is not positive or does not divide the ranks.
        """
        if replication <= 0:
            raise ValueError("Replication factor must be positive.")
        if self.num_ranks % replication:
            raise ValueError("World size must be divisible by your replication factor.")
        num_ranks = self.num_ranks // replication
        num_nodes = 1 if num_ranks % self.ranks_per_node else num_ranks // self.ranks_per_node
        worker = self.rank // replication * self.workers_per_rank + self.worker_of_rank
        return World(num_nodes, num_ranks // num_nodes, self.workers_per_rank, worker)

    def detect_workers(self) -> World:
        """Returns the same ranks with the workers of the calling process."""
        return self._of_rank(self.num_nodes, self.ranks_per_node, self.rank)

    @classmethod
    def _get_worker_info(cls) -> tuple[int, int]:
        """Returns number and count of DataLoader workers; 0 of 1 outside a worker."""
        # Workers have imported torch already.
        data = sys.modules.get("torch.utils.data")
        info = data.get_worker_info() if data is not None else None
        return (info.id, info.num_workers) if info is not None else (0, 1)


def found_world(
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    local_world_size: int | None = None,
) -> world.World:
    """Returns the rank of this process, as `World.detect` does, with the source of the numbers."""
    if rank is None and world_size is None and any(_is_replaced(name) for name in _RANKS):
        return _world_of_functions(local_rank, local_world_size)
    if rank is None and world_size is None and (size := os.environ.get("WORLD_SIZE")):
        is_whole = bool(os.environ.get("RANK"))
        if is_whole or world.surroundings(os.environ) is None:
            ranks = dist.get_world_size()
            node = int(os.environ.get("LOCAL_WORLD_SIZE") or 1) if local_world_size is None else local_world_size
            place = dist.get_rank() % node if local_rank is None else local_rank
            found = world.detect(dist.get_rank(), ranks, place, node)
            # With RANK the program or the launcher has given them, and the ranks of data parallelism may differ from the
            # process group's.
            return found if is_whole else replace(found, source=f"WORLD_SIZE is {size}, and RANK is not set")
    return world.detect(rank, world_size, local_rank, local_world_size)


def _is_replaced(name: str) -> bool:
    return _FROM_ENVIRONMENT[name].are_replaced(dist)


def _world_of_functions(local_rank: int | None, local_world_size: int | None) -> world.World:
    """Returns the rank of this process as the functions of `distributed` give it. The program has replaced at
    least one of them. The remaining functions read their variables, as in the reference."""
    rank, ranks = int(dist.get_rank()), int(dist.get_world_size())
    if local_world_size is None:
        local_world_size = int(dist.get_local_world_size())
    if local_rank is None:
        local_rank = int(dist.get_local_rank()) if _is_replaced("get_local_rank") else rank % max(local_world_size, 1)
    if not (0 <= rank < ranks and 0 <= local_rank < local_world_size <= ranks):
        # LOCAL_WORLD_SIZE counts processes. The program's ranks may be a part of them.
        raise ConfigError(
            f"functions of streaming.base.distributed that the program has replaced give rank {rank} of {ranks}, and "
            f"{local_rank} of {local_world_size} on this node, but a rank is below the number of ranks and a node has no more "
            f"than all: replace {', '.join(_RANKS)} together"
        )
    return world.detect(rank, ranks, local_rank, local_world_size)
