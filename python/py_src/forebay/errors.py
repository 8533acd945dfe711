"""Exceptions, one class per kind of remedy.

Every exception of this package is an `Error`. Each class also derives from the matching builtin, so
`except FileNotFoundError` catches a missing shard. The message has the facts (shard, key, attempt ...); `context` has
the same facts.
"""

from __future__ import annotations

from . import _forebay

__all__ = [
    "AccessError",
    "ChecksumError",
    "ClosedError",
    "ConfigError",
    "DecodeError",
    "Error",
    "FormatError",
    "FullError",
    "InternalError",
    "IoError",
    "MapError",
    "NetworkError",
    "NotFoundError",
    "SampleIndexError",
    "StaleError",
    "StalledError",
    "StateError",
    "UnsupportedError",
]


_BY_KIND: dict[str, type[Error]] = {}
"""Classes by the name of the kind, without those that a program derives."""


class Error(Exception):
    """Base class of the exceptions of this package.

    The message names the file, sample or argument, and the change that helps. `context` has the same facts by name, and `kind` is a
    word for logs. An error of a different library is the `__cause__`.
    """

    kind: str = "error"
    """Name of the kind, the same in messages, logs and the C interface."""

    context: dict[str, str] = {}
    """Facts about the failure: `{"shard": "shard.00003.mds", "sample": "17"}`."""

    def __init_subclass__(cls, kind: str | None = None) -> None:
        if kind is not None:
            cls.kind = kind
            _BY_KIND[kind] = cls


class ConfigError(Error, ValueError, kind="config"):
    """An argument or a combination of arguments is wrong. The message names it and the values that are right."""


class NotFoundError(Error, FileNotFoundError, kind="not found"):
    """A file, object or sample does not exist: check the address, and whether the data set is complete there."""


class SampleIndexError(NotFoundError, IndexError):
    """A sample number is not below the number of samples."""


class AccessError(Error, PermissionError, kind="permission"):
    """The store or the file system refuses access: check credentials and modes."""


class NetworkError(Error, ConnectionError, kind="network"):
    """The network failed in all attempts, `Fetch(retry=)`: try again later, with more attempts, or check the store's address."""


class StalledError(Error, TimeoutError, kind="timeout"):
    """No progress within `Engine(stall_timeout=)` or `Fetch(timeout=)`: the message names the stage or the request that waits."""


class ChecksumError(Error, OSError, ValueError, kind="checksum"):
    """Bytes do not match their recorded size or hash: the file is damaged, or a different one has its name. Fetch or write it again."""


class FormatError(Error, ValueError, kind="format"):
    """An index, a shard or a compressed stream does not conform to its format: the file is damaged, or of a different kind."""


class DecodeError(Error, ValueError, kind="decode"):
    """A sample cannot be decoded into the requested fields. `Skip(errors=100)` leaves up to 100 of them out."""


class UnsupportedError(Error, RuntimeError, kind="unsupported"):
    """The data needs a feature, a package or a driver that this build or this machine does not have."""


class FullError(Error, OSError, kind="full"):
    """No room on disk, in `cache_limit` or `memory`, or a limit of the system: raise the one that the message names."""


class StateError(Error, ValueError, kind="state"):
    """A checkpoint does not belong to this loader's plan, or its folder to this save: the message names the options that differ."""


class StaleError(Error, RuntimeError, kind="stale"):
    """The remote index or file has changed since it was read: use a different local folder, or list the files again."""


class IoError(Error, OSError, kind="io"):
    """A system call failed for a reason without a more specific class: check the disk or the device that the message names."""


class ClosedError(Error, RuntimeError, kind="closed"):
    """The loader was closed, or is used where it cannot work, such as a forked child."""


class MapError(Error, RuntimeError, kind="map"):
    """The function of a `Map` failed for a sample, which `context` names, or a process that ran it has died.

    The error of the function is the `__cause__`.
    """


class InternalError(Error, RuntimeError, kind="internal"):
    """A bug in the engine: please report it."""


def from_engine(kind: str, message: str, context: list[tuple[str, str]]) -> Error:
    """Returns the exception for an error of the engine; an unknown kind gives the base class."""
    error = _BY_KIND.get(kind, Error)(message)
    error.context = dict(context)
    return error


def of_system(error: OSError, message: str, **context: str) -> Error:
    """Returns the exception for an error of the system about the file in `context`."""
    typed: Error = _forebay.system_error(error.errno or 0, message, list(context.items()))
    return typed
