"""Where samples come from and in which shares."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from .arguments import U32, by_name, flag, path, real, seconds, text, whole

__all__ = ["Stream"]


@by_name('local="folder" or remote="s3://bucket/set"')
@dataclass(frozen=True, kw_only=True)
class Stream:
    """One folder of shards, remote, local or both, and its weight in the mix.

    At most one of `proportion`, `repeat` and `choose` may be set, and either all streams of a loader have a proportion
    or none has. What is None is taken from the loader.
    """

    remote: str | os.PathLike[str] | None = None
    """URL (`s3://`, `http://`, `https://`, `file://`) or path of the shards. None: what is in `local` is all there is."""
    local: str | os.PathLike[str] | None = None
    """Folder that holds the shards, or will. None: a stable folder in the user's cache directory."""
    split: str | None = None
    """Sub-folder of both, such as "train"."""
    proportion: float | None = None
    """Share of an epoch, relative to the other streams' proportions."""
    repeat: float | None = None
    """How often an epoch sees each sample: 0.5 is every second one."""
    choose: int | None = None
    """How many samples of this stream an epoch has."""
    download_retry: int | None = None
    """Total attempts per download."""
    download_timeout: float | None = None
    """Seconds without a byte before an attempt fails."""
    validate_hash: str | None = None
    """Hash that must match when a shard is downloaded or unpacked, such as "xxh64"."""
    keep_zip: bool | None = None
    """Keep the compressed shard beside the unpacked one."""

    def _config(self, split: str | None) -> dict[str, Any]:
        """The engine's form; `split` is the loader's."""
        config = {name: value for name, value in asdict(self).items() if value is not None}
        if split is not None:
            config.setdefault("split", split)
        return {name: _CHECKS[name](name, value) for name, value in config.items()}


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "remote": partial(path, what="a URL or a path"),
    "local": path,
    "split": path,
    "proportion": partial(real, what="a number, at least 0", least=0),
    "repeat": partial(real, what="a number, at least 0", least=0),
    "choose": whole,
    "download_retry": partial(whole, least=1, below=U32),
    "download_timeout": seconds,
    "validate_hash": text,
    "keep_zip": flag,
}
