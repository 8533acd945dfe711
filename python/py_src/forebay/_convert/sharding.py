"""Global arrays of JAX: each process loads its rows, and the arrays span the devices of all processes.

A sharding splits the rows (dimension 0) into parts, one or more for each process. Processes with the same rows, such as
the processes of one model-parallel group, load the same samples: their number is the loader's `replication`.

    4 processes, a mesh of 2 x 2 ("data", "model") with a process in each cell, P("data")

        rows  0..B   processes 0 and 1: samples of part 0
        rows  B..2B  processes 2 and 3: samples of part 1       replication=2, global arrays of 2 B rows
"""

from __future__ import annotations

import bisect
from typing import Any

import jax
import numpy
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from ..errors import ConfigError, InternalError
from .._world import World
from .batch import Batch


class Sharded:
    """Function that makes global arrays of this process's rows."""

    def __init__(self, batch: Batch) -> None:
        batch.require_host("batches for a sharding", '"jax" without sharding')
        self._sharding = _checked(batch.sharding)
        self._rows = batch.rows
        if not batch.is_full and "repeat" not in batch.marks:
            raise ConfigError(
                'batches for a sharding are full: pass drop_last=True (and no Skip(errors=...)), or extra=["repeat"], which fills '
                "a short batch with repeats and marks them"
            )
        parts = _Parts(self._sharding)
        if batch.rows % len(parts.mine):
            raise ConfigError(
                f"batch_size is {batch.rows}, but the sharding splits the rows of this process over {len(parts.mine)} devices: "
                "pass a multiple"
            )
        self._part_rows = batch.rows // len(parts.mine)
        self._parts = parts
        # By number of dimensions.
        self._shardings: dict[int, Sharding] = {}

    def fill(self, values: dict[str, Any]) -> None:
        """Fills the outputs of a short batch with its last row, and marks the rows."""
        short = self._rows - len(next(iter(values.values())))
        if not short:
            return
        if "repeat" not in values:
            raise InternalError(f"a batch without {short} rows, although all are full")
        for name, value in values.items():
            last = True if name == "repeat" else value[-1]
            if isinstance(value, list):
                values[name] = value + [last] * short
            else:
                values[name] = numpy.concatenate([value, numpy.broadcast_to(last, (short, *value.shape[1:]))], dtype=value.dtype)

    def __call__(self, arrays: dict[str, numpy.ndarray]) -> dict[str, jax.Array]:
        shardings = {name: self._of(array.ndim) for name, array in arrays.items()}
        if self._parts.is_local:
            return jax.device_put(arrays, shardings)
        return {name: self._global(array, shardings[name]) for name, array in arrays.items()}

    def _of(self, dimensions: int) -> Sharding:
        """Returns the sharding of an output."""
        if dimensions not in self._shardings:
            self._shardings[dimensions] = _shortened(self._sharding, dimensions)
        return self._shardings[dimensions]

    def _global(self, array: numpy.ndarray, sharding: Sharding) -> jax.Array:
        def of(index: tuple[slice, ...]) -> numpy.ndarray:
            rows, *others = index
            start = self._parts.place(rows.indices(total)[0] // self._part_rows) * self._part_rows
            stop = start + len(range(*rows.indices(total)))
            return array[(slice(start, stop), *others)]

        total = self._part_rows * self._parts.count
        return jax.make_array_from_callback((total, *array.shape[1:]), sharding, of)


class _Parts:
    """Equal parts that a sharding splits the rows into. Each device has one; devices may have the same one."""

    def __init__(self, sharding: Sharding) -> None:
        first = _shortened(sharding, 1)
        devices = len(first.device_set)
        # Of as many rows as there are devices, each device has one or more.
        starts = {device: rows.indices(devices)[0] for device, (rows,) in first.devices_indices_map((devices,)).items()}
        numbers = {start: number for number, start in enumerate(sorted(set(starts.values())))}
        of_process: dict[int, set[int]] = {}
        for device, start in starts.items():
            of_process.setdefault(device.process_index, set()).add(numbers[start])
        self.process = jax.process_index()
        if self.process not in of_process:
            raise ConfigError(f"the sharding has no device of this process, which is number {self.process} of JAX")
        self.of_process = {process: sorted(parts) for process, parts in sorted(of_process.items())}
        self.mine = self.of_process[self.process]
        self.count = len(numbers)

    @property
    def is_local(self) -> bool:
        """True if all devices are in this process."""
        return len(self.of_process) == 1

    def place(self, part: int) -> int:
        """Index of a part among the parts of this process."""
        return bisect.bisect_left(self.mine, part)


def replicas(sharding: Any, world: World, given: int | None) -> int | None:
    """Returns the number of consecutive ranks with the same rows, or `given` for a sharding within this process.

    Raises:
        ConfigError: The ranks are not JAX's processes, the groups with the same rows are not consecutive ranks, or
            `given` is a different number.
    """
    parts = _Parts(_checked(sharding))
    if parts.is_local:
        return given
    if (world.rank, world.world_size) != (parts.process, len(parts.of_process)):
        raise ConfigError(
            f"the sharding has devices of {len(parts.of_process)} processes, and this is JAX's process {parts.process}, but the "
            f"loader is {world}: use the devices of all processes, and make the loader after jax.distributed.initialize"
        )
    groups: dict[tuple[int, ...], list[int]] = {}
    for process, rows in parts.of_process.items():
        groups.setdefault(tuple(rows), []).append(process)
    size = len(parts.of_process) // len(groups)
    is_even = all(len(rows) * len(groups) == parts.count for rows in groups)
    if not is_even or any(group != [*range(group[0], group[0] + size)] for group in groups.values()):
        raise ConfigError(
            "the sharding gives processes different numbers of rows, overlapping rows, or the same rows to processes that are not "
            f"consecutive: let the first axis of the mesh follow the processes (parts of the rows by process: {parts.of_process})"
        )
    if given not in (None, size):
        raise ConfigError(f"replication is {given}, but the sharding gives {size} processes the same rows: leave it out")
    return size


def _checked(sharding: Any) -> Sharding:
    if not isinstance(sharding, Sharding):
        raise ConfigError(
            f"sharding is a jax.sharding.Sharding, such as NamedSharding(mesh, PartitionSpec('data')), but it is {sharding!r}"
        )
    return sharding


def _shortened(sharding: Sharding, dimensions: int) -> Sharding:
    """Returns the sharding for outputs with fewer dimensions than a specification has entries: its first entries."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > dimensions:
        return NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:dimensions]), memory_kind=sharding.memory_kind)
    return sharding
