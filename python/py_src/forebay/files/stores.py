"""Connections of this process to stores."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from .. import _forebay, remotes
from .._arguments import byte_size, flag, none_or, path, seconds, several, text, whole
from ..errors import ConfigError

_lock = threading.Lock()
_opened: dict[tuple[Any, ...], _forebay.ObjectStores] = {}
"""By process, settings and environment, the last used at the end. Connections of a parent process stay in it for a while, unused:
their threads do not exist here."""

_OPENED_MAX = 16
"""Connections that are kept. Each has its own threads."""

_VARIABLES = re.compile(
    "HOME|IDENTITY_(ENDPOINT|HEADER)|MSI_.*|NO_GCE_CHECK|STORAGE_EMULATOR_HOST|TRANSFORMERS_OFFLINE"
    "|(AWS|AZURE|CLOUDSDK|COMPOSER_SFTP|DATABRICKS|GCE|GCS|GOOGLE|HF|HUGGING_FACE|MOSAICML_STREAMING|OCI|S3|SSL)_.*"
    "|(ALL|HTTP|HTTPS|NO)_PROXY|(all|http|https|no)_proxy"
)
"""Variables that connections may be made from. A connection too many costs little, and one to the wrong server's address costs
much, so whole families are included."""


@dataclass(frozen=True)
class StoreOptions:
    """Settings of stores that differ from the environment's, as in `StoreOptions(endpoint="http://127.0.0.1:9000", retry=10)`.

    Credentials, regions and endpoints come from the same variables and files as for the clouds' own tools; the page
    "Environment" lists them.

    Args:
        endpoint: Server of `s3://` URLs instead of AWS, such as "http://127.0.0.1:9000".
        region: Region of `s3://` buckets.
        profile: Profile of the AWS files.
        unsigned: Do not sign requests of `s3://`, for public buckets.
        requester_pays: Pay for the requests of `s3://`.
        part_size: Bytes of one ranged request, and of one part of an upload: a number, or a size such as "16mb". By
            default 8 MiB and 16 MiB. S3 accepts no smaller parts than 5 MiB.
        retry: Attempts of each request, including the first one, also as long as a server accepts no connection. The pauses between
            5 attempts are about 11 s, between 20 about 6 minutes.
        timeout: Seconds without progress after which an attempt fails.
        requests: Most requests in flight per network thread. By default up to 128, as many as the network needs.

    Raises:
        ConfigError: An argument is wrong.
    """

    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    unsigned: bool = False
    requester_pays: bool = False
    part_size: int | str | None = None
    retry: int = 5
    timeout: float = 60.0
    requests: int | None = None

    _first_contact: ClassVar[int | None] = None
    """Most attempts as long as a server has accepted no connection, if they are fewer."""

    def __post_init__(self) -> None:
        self._settings()

    def _settings(self) -> str:
        settings: dict[str, Any] = {
            **{name: none_or(text, name, getattr(self, name)) for name in ("endpoint", "region", "profile")},
            "part_bytes": byte_size("part_size", self.part_size),
            "requests": none_or(partial(whole, least=1, below=1025), "requests", self.requests),
            "first_contact_attempts": self._first_contact,
            "unsigned": flag("unsigned", self.unsigned),
            "requester_pays": flag("requester_pays", self.requester_pays),
            "attempts": whole("retry", self.retry, least=1, below=1 << 32),
            "timeout_seconds": seconds("timeout", self.timeout),
        }
        if self.unsigned and self.requester_pays:
            raise ConfigError("unsigned requests cannot be paid for: set unsigned or requester_pays, not both")
        return json.dumps({name: value for name, value in settings.items() if value is not None})


def settings_of(options: StoreOptions | None) -> str:
    """Returns the engine's settings."""
    return (options or StoreOptions())._settings()


def opened(options: StoreOptions | None) -> _forebay.ObjectStores:
    """Returns this process's connections with `options` and the environment of this call, which are made at the first one."""
    if options is not None and not isinstance(options, StoreOptions):
        raise ConfigError(f"store must be a forebay.StoreOptions, not {type(options).__name__}")
    settings = settings_of(options)
    variables = frozenset(item for item in os.environ.items() if _VARIABLES.fullmatch(item[0]))
    key = (os.getpid(), settings, variables)
    with _lock:
        found = _opened.pop(key, None)
        _opened[key] = found = found or _forebay.ObjectStores(settings, remotes.served())
        # Work in progress holds its connections. They are dropped after the lock is released.
        excess = [_opened.pop(oldest) for oldest in list(_opened)[: max(len(_opened) - _OPENED_MAX, 0)]]
    del excess
    return found


def _reset_lock() -> None:
    # A thread of the parent may have held it.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_reset_lock)


def url_of(name: str, url: Any) -> str:
    """Returns a URL or path as text, with the home directory instead of `~`. A file of a list has one."""
    return path(name, getattr(url, "url", url), "a URL or a path")


def remove_files(urls: Iterable[Any], *, store: StoreOptions | None = None) -> None:
    """Removes files of stores, in parallel: `remove_files(["s3://bucket/a"])`. One that does not exist is no error.

    Args:
        urls: URLs, or the files of a list.
        store: Settings that differ from the environment's.

    Raises:
        AccessError: The store denies the removal. Some of the files may be gone.
    """
    if isinstance(getattr(urls, "url", urls), (str, bytes)):
        raise ConfigError('urls must be a sequence of URLs: pass ["s3://bucket/file"] for one')
    opened(store).remove([url_of("urls", getattr(url, "url", url)) for url in several("urls", urls, "URLs")])
