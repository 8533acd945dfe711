"""Version, the means of this machine for a loader, and the package's commands."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import resource
import sys
from collections.abc import Iterator, Sequence

from . import __version__, _forebay, _which as which
from .errors import Error

_COMMANDS = (
    ("python -m forebay convert SOURCE OUT", "writes any data set that a Loader opens as MDS"),
    ("python -m forebay.index SOURCE OUT", "copies a data set and adds row indexes of its JPEGs"),
    ("python -m forebay.verify PLACE", "compares a data set with its index, and repairs a folder from its remote"),
    ("python -m forebay.checkpoint PREFIX", "lists the checkpoints of a run, and removes the rest of unfinished saves"),
    ("python -m forebay which RUN.json --step N", "names the samples of a step of a run"),
    ("python -m forebay.streaming.alias SCRIPT", "runs a script whose `import streaming` means forebay.streaming"),
)

_LIBRARIES = (("torch",), ("jax",), ("tensorflow", "tensorflow-cpu"), ("numpy",), ("pillow",))
"""Packages with versions that matter, each with its further names: types of batches, arrays and raw pixels."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0 on success."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["convert"]:
        from .to_mds import main as convert

        return convert(given[1:])
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["which"]:
        return which.main(arguments[1:])
    commands = "\n".join(f"  {command:<42} {effect}" for command, effect in _COMMANDS)
    parser = argparse.ArgumentParser(
        prog="python -m forebay",
        description=__doc__,
        epilog=f"commands, each with its own --help:\n{commands}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version alone")
    if parser.parse_args(given).version:
        print(__version__)
        return 0
    try:
        facts = list(_facts())
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"forebay {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}")
    for name, fact in facts:
        print(f"{name:<15} {fact}")
    print("\nCommands:")
    for command, effect in _COMMANDS:
        print(f"  {command:<42} {effect}")
    return 0


def _facts() -> Iterator[tuple[str, str]]:
    """Yields name and value of the facts that matter to a loader on this machine."""
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


if __name__ == "__main__":
    sys.exit(main())
