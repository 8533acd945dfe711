"""Format of `commit.json`.

The values of its state and metadata are JSON, with notes of the values that JSON does not have: tuples, and numbers that are not
finite. Readers without the notes get lists instead of tuples, and null instead of such a number.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._arguments import shown
from ..errors import AccessError, ChecksumError, ConfigError, Error, FormatError, NotFoundError, UnsupportedError
from ..files import StoreOptions, open as open_file
from ..files.stores import opened, url_of
from .._forebay import hex_digest, is_url

COMMIT = "commit.json"
"""Name of the file that makes a folder a checkpoint."""

BLOCK = 8 << 20
"""Bytes of a block, which has its own digest. It is also one request, so that a range is verified as it arrives."""

HASH = "xxh3_128"
"""Hash of a block: it detects damage at the speed of memory, and is no protection against an attacker."""

FORMAT, VERSION = "forebay checkpoint", 1
"""Format that the files of a checkpoint state, and its version."""


_newest: dict[str, datetime.datetime] = {}
"""Newest time of the commits in a folder that this process has read or written, the last one that has changed at the end."""

_NEWEST_MAX = 256
"""Folders with a known newest time."""


@dataclass(frozen=True)
class CheckpointPart:
    """File of a checkpoint."""

    name: str
    """Its path in the folder."""
    size: int
    """Bytes."""
    digests: tuple[str, ...]
    """Digest of each block, in order."""
    block_bytes: int
    """Bytes of a block; the last one may have fewer."""


@dataclass(frozen=True)
class Commit:
    """Content of `commit.json`."""

    step: int | None
    time: datetime.datetime
    """Time of the commit, by the clock of the process that wrote it."""
    parts: Mapping[str, CheckpointPart]
    data: Any = None
    """State of the loader, or of several by their names."""
    metadata: Any = None


def folder_of(name: str, url: Any) -> str:
    """Returns the URL of a folder as lists have it: without a slash at the end, local paths from the root.

    Raises:
        ConfigError: It is empty, such as the text of a variable without a value, a scheme alone or the root of the file system.
    """
    given, url = url, url_of(name, url).removeprefix("file://").rstrip("/")
    if not url or url.endswith(":"):
        raise ConfigError(f"{name} has to be the path of a folder, but it is {shown(given)}")
    return url if is_url(url) else os.path.abspath(url)


def text_of(commit: Commit) -> bytes:
    """Returns the content of the file."""
    data, of_data = packed(commit.data)
    metadata, of_metadata = packed(commit.metadata)
    body = {
        "format": FORMAT,
        "version": VERSION,
        "step": commit.step,
        "time": commit.time.isoformat(),
        "hash": HASH,
        "block_bytes": BLOCK,
        "parts": [
            {"name": part.name, "size": part.size, "digests": list(part.digests)} for part in commit.parts.values()
        ],
        "data": data,
        "metadata": metadata,
    }
    if of_data or of_metadata:
        # Earlier releases ignore it.
        body["notes"] = {"data": of_data, "metadata": of_metadata}
    return json.dumps(body | {"digest": _digest(body)}, indent=1).encode()


def later(folder: str, time: datetime.datetime) -> datetime.datetime:
    """Returns `time`, or one after all commits in a folder that this process has read or written.

    A job reads the checkpoint that it continues from, so its own checkpoints are newer, whatever the clocks of the machines
    are. Nothing is listed: next to a checkpoint there may be a whole bucket.
    """
    last = _newest.get(folder)
    time = time if last is None else max(time, last + datetime.timedelta(microseconds=1))
    _see(f"{folder}/", time)
    return time


def _see(url: str, time: datetime.datetime) -> None:
    """Records the time of the commit of the checkpoint `url`."""
    folder = url.rpartition("/")[0]
    last = _newest.pop(folder, time)
    _newest[folder] = max(last, time)
    for oldest in list(_newest)[: max(len(_newest) - _NEWEST_MAX, 0)]:
        _newest.pop(oldest, None)


def version_of(url: str, store: StoreOptions | None) -> str | None:
    """Returns the version of the commit of the folder `url`; None if there is none."""
    return opened(store).version(f"{url}/{COMMIT}")


def replace(url: str, text: bytes, store: StoreOptions | None) -> None:
    """Makes the folder `url` a checkpoint, whatever its commit is."""
    with open_file(f"{url}/{COMMIT}", "wb", store=store) as file:
        file.write(text)


def write(url: str, text: bytes, version: str | None, store: StoreOptions | None) -> bool:
    """Makes the folder `url` a checkpoint if its commit has this version, or if there is none for None.

    Returns:
        False if the commit has a different version; it stays. Stores without conditional writes replace any.
    """
    file = f"{url}/{COMMIT}"
    if opened(store).put_if(file, text, version):
        return True
    # The response to an earlier attempt may have been lost.
    with contextlib.suppress(AccessError, NotFoundError), open_file(file, "rb", store=store) as written:
        return written.read() == text
    return False


def read(url: str, store: StoreOptions | None) -> Commit:
    """Reads the commit of the folder `url`.

    Raises:
        NotFoundError: There is none: the folder is not a checkpoint.
        ChecksumError, FormatError: It is damaged.
        UnsupportedError: A newer version has written it.
    """
    file = f"{url}/{COMMIT}"
    try:
        with open_file(file, "rb", store=store) as opened:
            text = opened.read()
    except NotFoundError as error:
        raise NotFoundError(
            f"{url} is not a checkpoint: it has no {COMMIT}, so there is none, or saving it was not finished "
            "(forebay.checkpoint.latest finds the newest one that is whole)"
        ) from error
    return parse(file, text)


def parts_of(url: str, store: StoreOptions | None) -> set[str]:
    """Returns the names of the parts of the commit of the folder `url`; none if there is none, or it cannot be read."""
    try:
        return set(read(url, store).parts)
    except Error:
        return set()


def parse(file: str, text: bytes) -> Commit:
    """Returns the commit that is the content of `file`. It raises the errors of `read`."""
    try:
        body = json.loads(text)
        if body["format"] != FORMAT:
            raise ValueError(f"the format is {body['format']!r}")
        if body["version"] != VERSION:
            raise UnsupportedError(
                f"{file} has version {body['version']} of the format, and this release reads version {VERSION}: use the "
                "release that saved it, or a newer one"
            )
        recorded = body.pop("digest")
        if (computed := _digest(body)) != recorded:
            raise ChecksumError(f"{file} is damaged: its digest is {computed} instead of {recorded}")
        parts = [_part(part, int(body["block_bytes"])) for part in body["parts"]]
        time, step = datetime.datetime.fromisoformat(body["time"]), body["step"]
        if time.tzinfo is None or not (step is None or isinstance(step, int)):
            raise ValueError(f"the time is {body['time']!r} and the step {step!r}")
        _see(file.rpartition("/")[0], time)
        notes = body.get("notes", {})
        data, metadata = (unpacked(body[name], notes.get(name, [])) for name in ("data", "metadata"))
        return Commit(step, time, {part.name: part for part in parts}, data, metadata)
    except (ChecksumError, UnsupportedError):
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FormatError(f"{file} is not a commit of a checkpoint: {error!r}") from None


def _part(entry: dict[str, Any], block_bytes: int) -> CheckpointPart:
    part = CheckpointPart(str(entry["name"]), int(entry["size"]), tuple(entry["digests"]), block_bytes)
    if ".." in part.name.split("/") or part.name.startswith("/"):
        raise ValueError(f"the part {part.name} is outside of the folder")
    if len(part.digests) != -(-part.size // block_bytes):
        raise ValueError(f"the part {part.name} of {part.size} bytes has {len(part.digests)} digests")
    return part


def _digest(body: dict[str, Any]) -> str:
    return hex_digest(HASH, json.dumps(body, sort_keys=True).encode())


Notes = list[list[Any]]
"""Pairs of a path, which is a list of keys and indexes, and the kind of the value there: "tuple", "nan", "inf" or "-inf"."""

_DEPTH_MAX = 100
"""Levels of a value. Deeper ones are most likely a cycle, and parsers in all languages have limits."""


def plain(path: str, value: Any, depth: int = 0) -> Any:
    """Returns a copy of `value` with plain numbers; `path` is its name, and `depth` its level in that.

    Raises:
        ConfigError: It is not made of lists, tuples, dicts with text as keys, text, numbers, bools and None.
    """
    if depth > _DEPTH_MAX:
        raise ConfigError(f"{path.partition('[')[0]} has to be JSON of at most {_DEPTH_MAX} levels: save deeper objects in obj")
    if value is None or isinstance(value, (bool, str)):
        return value
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (list, tuple)):
        items = [plain(f"{path}[{at}]", item, depth + 1) for at, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ConfigError(f"{path} has to be JSON, where keys are text, and it has the key {key!r}: save it in obj")
        return {key: plain(f"{path}[{key!r}]", item, depth + 1) for key, item in value.items()}
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        # Numbers of numpy and torch.
        return plain(path, value.item(), depth + 1)
    raise ConfigError(f"{path} has to be JSON, and {type(value).__name__} is not: save such objects in obj")


def packed(value: Any) -> tuple[Any, Notes]:
    """Returns a plain value as JSON has it, and the notes of the values that it does not have."""
    notes: Notes = []
    return _packed(value, [], notes), notes


def _packed(value: Any, path: list[Any], notes: Notes) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        notes.append([path, "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"])
        return None
    if isinstance(value, dict):
        return {key: _packed(item, [*path, key], notes) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [_packed(item, [*path, at], notes) for at, item in enumerate(value)]
        if isinstance(value, tuple):
            # After the notes of its items, which are set before the list becomes a tuple.
            notes.append([path, "tuple"])
        return items
    return value


def unpacked(value: Any, notes: Notes) -> Any:
    """Returns the plain value from which `packed` made these two."""
    root = [value]
    for path, kind in notes:
        *before, last = [0, *path]
        home: Any = root
        for key in before:
            home = home[key]
        home[last] = tuple(home[last]) if kind == "tuple" else float(kind)
    return root[0]
