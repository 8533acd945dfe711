"""The choice of a remote folder by the scheme of its address."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

from .. import _forebay
from ..errors import ConfigError
from . import filesystems
from .folder import RemoteFolder
from .service import Service

Opener = Callable[[str, float], RemoteFolder]
"""Function of a folder's address and a timeout in seconds, after which each wait for the server ends with an error."""

# Modules of this package, imported at first use, each with a function `open_folder`. fsspec's own class for SSH accepts every
# host key.
_BUILT_IN = {"sftp": "sftp", "ssh": "sftp"}

_SCHEME = re.compile(r"[a-z][a-z0-9-]+")

_registered: dict[str, Opener] = {}


def register(scheme: str, opener: Opener) -> None:
    """Makes `opener` open the remotes of `scheme`, in this process: `register("tape", Tape)`, a `RemoteFolder`. It replaces one of the package or of fsspec.

    Args:
        scheme: Part of an address before `://`. The engine's own schemes cannot be replaced.
        opener: Function that is called with the address of a folder and a timeout in seconds, on any thread, once for each
            connection. For `forebay.open` and the rest of the functions for files, the folder is the host's:
            `tape://archive/`.

    Raises:
        ConfigError: It is no scheme, or one of the engine's own.
    """
    if not _SCHEME.fullmatch(scheme) or not _forebay.needs_library(f"{scheme}://host/folder"):
        raise ConfigError(f"{scheme!r} is not a scheme, or it is one that forebay opens itself: choose a different name")
    _registered[scheme] = opener


def _opener(remote: str) -> Opener | None:
    """Returns the function that opens `remote`; None if its scheme is unknown. Imports its library.

    Raises:
        UnsupportedError: The library of the scheme is not installed; the message names it.
        ConfigError: The address is wrong.
    """
    scheme = remote.split("://", 1)[0]
    if scheme in _registered:
        return _registered[scheme]
    if scheme in _BUILT_IN:
        module = importlib.import_module(f".{_BUILT_IN[scheme]}", __package__)
        module.check(remote)
        return module.open_folder
    return filesystems.open_folder if filesystems.serves(scheme) else None


def serves(remote: str) -> bool:
    """Returns true if `open_folder` can open `remote`.

    Raises:
        UnsupportedError, ConfigError: As `open_folder`.
    """
    return _forebay.needs_library(remote) and _opener(remote) is not None


def open_folder(remote: str, timeout: float) -> RemoteFolder:
    """Opens a remote folder of a scheme that the engine has no transport for.

    Raises:
        UnsupportedError: A library that the scheme needs is not installed.
        ConfigError: The scheme is unknown, or the address is wrong.
        AccessError, NetworkError, StalledError: There is no connection; the message has the reason.
    """
    opener = _opener(remote)
    if opener is None:
        raise ConfigError(
            f"unknown scheme of {_forebay.redact(remote)}: use a scheme of the page Stores, or register your own with "
            "forebay.remotes.register"
        )
    return opener(remote, timeout)


def library_stores(*remotes: str | None) -> _forebay.LibraryStores | None:
    """Returns the stores that the engine needs for `remotes`, and starts the thread that serves them. None if the engine
    itself opens all of them, or rejects one.

    The thread ends when the last engine that has the stores is closed.

    Raises:
        UnsupportedError, ConfigError: As `open_folder`.
    """
    # All of them, so that a missing library is found before the first byte is fetched.
    if not any([serves(remote) for remote in remotes if remote is not None]):
        return None
    return served()


def served() -> _forebay.LibraryStores:
    """Returns the stores that the engine needs for every scheme, as `library_stores`. Errors of an address come with its use."""
    stores = _forebay.LibraryStores()
    Service(stores.exchanges(), open_folder)
    return stores
