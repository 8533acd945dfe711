"""Lists of files that are samples, and indexes of tables, for `forebay index` and for programs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from . import _forebay
from ._arguments import path
from ._choices import Grouping
from .errors import AccessError, ConfigError, NotFoundError
from .files import StoreOptions
from .files import open as open_file
from .remotes import library_stores
from ._streams import Stream, config_of


@dataclass
class FileReport:
    """Figures of a list of files."""

    url: str
    """Address of the list."""
    samples: int
    """Samples in it."""


def index_files(
    files: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    kind: Grouping | Mapping[str, str] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    store: StoreOptions | None = None,
) -> FileReport:
    """Writes the list of the files of a data set next to them, as index.json.

    A loader of their folder then lists nothing, on every machine, and a copy of the folder on a web server can be read. It has the
    files of the list, whatever is added or removed later: make the list again with `overwrite`.

    Parquet and Arrow files have their index in themselves, and a loader reads it from each of them. Here it is collected in one file,
    `_forebay_tables.json`, which loaders of the same folder or list read instead. Files that were added or written again later are
    read as without it.

    Args:
        files: Folder of pictures or tables, or a pattern, as `remote` of a Loader.
        out: Folder for the list. None: the folder that all files have in common, where loaders look for it.
        kind: "each", "stem", or the folder or pattern of each column, as `files` of a Stream.
        manifest: As in Stream.
        overwrite: Replace a list that exists.
        store: Options of the store that the list is written to.

    Returns:
        The figures of the list.

    Raises:
        ConfigError: There is an index already, or an argument is wrong.
        UnsupportedError: The files are not samples, such as tars.
        NotFoundError: There are no such files.
        Error: One of the store.
    """
    remote = path("files", files)
    with tempfile.TemporaryDirectory(prefix="forebay-index-") as local:
        stream = Stream(remote=remote, local=local, files=kind, manifest=manifest)
        config = {"streams": [config_of(stream)], "batch_size": 1}
        root, name, document, samples = _forebay.list_of_files(json.dumps(config), library_stores(remote))
    url = index_url(root if out is None else os.fspath(out), overwrite, store, name)
    with open_file(url, "wb", store=store) as file:
        file.write(document)
    return FileReport(_forebay.redact(url), samples)


def index_url(folder: str, overwrite: bool, store: StoreOptions | None, name: str = "index.json") -> str:
    """Returns the address of the index `name` in `folder`, to which it can be written.

    Raises:
        ConfigError: It exists, and is not to be overwritten, or it is on a web server.
    """
    url = f"{folder.rstrip('/')}/{name}"
    if not overwrite and _exists(url, store):
        raise ConfigError(f"{url} exists: pass overwrite=True (--overwrite) to replace it, or a different folder")
    if url.startswith(("http://", "https://")):
        message = f"{url} cannot be written, since web servers have no common way for it: pass a folder or a bucket as `out`"
        raise ConfigError(message)
    return url


def _exists(url: str, store: StoreOptions | None) -> bool:
    try:
        with open_file(url, "rb", store=store) as file:
            file.read(1)
    except (AccessError, NotFoundError):
        # Some stores answer a request for an absent object with an error of permission. If it is one, writing fails, too.
        return False
    return True
