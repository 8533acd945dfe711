"""Facts about this machine that matter to a loader."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import resource
from collections.abc import Iterator, Sequence

from . import _forebay

_LIBRARIES = (("torch",), ("jax",), ("tensorflow", "tensorflow-cpu"), ("numpy",), ("pillow",))
"""Packages with versions that matter, each with its further names: types of batches, arrays and raw pixels."""


def facts() -> Iterator[tuple[str, str]]:
    """Yields name and value of each fact."""
    machine = json.loads(_forebay.describe_machine())
    quota = f", by the CPU quota of the container ({machine['quota_cpus']:g})" if machine["quota_cpus"] else ""
    yield "CPUs", f"{machine['cpus']} for this process{quota}"
    yield "NUMA nodes", "; ".join(f"{node['number']}: CPUs {node['cpus']}" for node in machine["numa_nodes"])
    yield "memory", f"{_gib(machine['memory_bytes'])} for this process"
    yield "vectors", machine["vectors"]
    yield "io_uring", machine["io_uring"] or "yes"
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    locked = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,} bytes; `ulimit -l` raises it"
    yield "locked memory", locked
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield "open files", f"{soft:,}; each resident shard takes up to two"
    yield "CUDA", machine["cuda"]
    yield "libraries", ", ".join(map(_version, _LIBRARIES))
    endpoint = next(filter(None, map(os.environ.get, ("S3_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))), None)
    s3 = "s3:// at the endpoint of the environment" if endpoint else "s3://"
    yield "stores", f"folders, file://, http://, https://, {s3}, gs://, azure://, azure-dl://, hf://, oci://, dbfs:/Volumes"
    yield "", "sftp:// with paramiko, and the file systems of fsspec"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _version(names: Sequence[str]) -> str:
    """Returns name and version of a package that has one of `names`, without importing it."""
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return f"{name} {importlib.metadata.version(name)}"
    return f"no {names[0]}"
