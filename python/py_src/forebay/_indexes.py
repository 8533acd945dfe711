"""Lists of files that are samples, indexes of tables and tars, and lengths in tokens, for `forebay index` and for programs."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from . import _forebay, remotes
from ._arguments import address, path, shown, whole
from ._choices import Grouping
from .errors import AccessError, ConfigError, NotFoundError
from .fields import Chat, Tokenize, Tokens
from .fields.base import specs
from .files import StoreOptions, open as open_file
from .files.stores import settings_of
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


_AT_ONCE = 16
"""Tars that are read at the same time: enough to hide a store's latency."""


@dataclass
class TarReport:
    """Figures of an index of tars."""

    url: str
    """Address of the index."""
    tars: int = 0
    """Tars in the index."""
    samples: int = 0
    """Samples in all of them."""


def index_tars(
    tars: str,
    out: str | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    store: StoreOptions | None = None,
    progress: Callable[[TarReport, int], None] | None = None,
) -> TarReport:
    """Makes an index of WebDataset's tar files, with the number of samples of each.

    A loader of these tars then starts at once, on every machine; without an index it makes one in its cache, and reads all tars for
    it. Tars with numbers of samples in a file of wids, Energon, OpenCLIP, timm, DALI or img2dataset next to them are not read.
    A run that was stopped continues where it was when it is started again.

    Args:
        tars: Addresses: braces, wildcards and `::` as in WebDataset, such as "s3://bucket/train-{000..146}.tar", or a folder of tars.
        out: Folder for index.json. None: the folder that all tars have in common, where loaders look for it.
        overwrite: Replace an index that exists.
        threads: Tars that are read at the same time. None: 16.
        store: Options of the store.
        progress: Function that is called from time to time with the report so far and the number of tars.

    Returns:
        The figures of the index.

    Raises:
        ConfigError: `tars` is no list of tars and no folder of them, or there is an index already.
        FormatError: A tar is damaged.
        Error: One of the store.
    """
    if threads is not None:
        whole("threads", threads, least=1)
    tar_set = _forebay.TarSet(address("tars", tars), settings_of(store), remotes.served())
    # Before the pass, since an index that cannot be written would be noticed at its end.
    url = index_url(tar_set.root if out is None else os.fspath(out), overwrite, store)

    def show(tars: int, samples: int) -> None:
        if progress is not None:
            progress(TarReport(url, tars, samples), len(tar_set))

    document, samples = tar_set.index(threads or _AT_ONCE, show)
    with open_file(url, "wb", store=store) as file:
        file.write(document.encode())
    tar_set.end()
    return TarReport(url, len(tar_set), samples)


@dataclass
class LengthReport:
    """Lengths in tokens of a data set."""

    samples: int
    """Samples."""
    tokens: int
    """Tokens of all samples."""
    longest: int
    """Tokens of the longest sample."""
    lengths: memoryview = field(repr=False)
    """Tokens of each sample, in the order of their numbers: unsigned integers of 32 bits, for `numpy.asarray`."""


def index_lengths(
    source: str | os.PathLike[str] | Stream,
    tokens: Chat | Tokenize | Tokens,
    *,
    cache_limit: int | str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> LengthReport:
    """Counts the tokens of each sample once, and keeps the numbers in the cache of this machine, where loaders that pack find them.

    Nothing is read of Megatron's files but their index, and of token ids in MDS shards, in columns of fixed size or of `bytes`, but the
    offsets of the samples. Of Parquet and Arrow files only the column is read. Texts are read and encoded, in one process of the
    machine, with all of its CPUs; a run that was stopped continues where it was when it is started again. The numbers are made again when
    the tokenizer, an argument of the field on which they depend, the encoder's version or a file changes.

    Args:
        source: Data set, as `remote` of a Loader, or a Stream. A Stream with `select` has the lengths of the samples that it keeps.
        tokens: Field that makes the tokens, as the loader has it. The length and the type of its rows do not count.
        cache_limit: Bytes of shards on local disk, as in a Loader: shards that are fetched for their texts stay there for its epochs.
        progress: Function that is called from time to time with the shards that were read and all shards.

    Returns:
        The lengths, and their sum.

    Raises:
        ConfigError: The column or the tokenizer does not suit the field.
        DecodeError: No tokens can be made of a sample, such as one that is not UTF-8.
        Error: One of the data set or its store.
    """
    if not isinstance(tokens, (Chat, Tokenize, Tokens)):
        raise ConfigError(f"tokens is a Tokenize, Tokens or Chat field, but it is {shown(tokens)}")
    if tokens.length is None and tokens.pad is None:
        # No row is made, but the field's arguments have to be complete.
        tokens = replace(tokens, pad=0)
    stream = source if isinstance(source, Stream) else Stream(remote=source)
    config = config_of(stream)
    given: dict[str, object] = {"streams": [config], "batch_size": 1, "fields": specs({"tokens": tokens})}
    if cache_limit is not None:
        given["cache_limit"] = cache_limit
    index = _forebay.LengthIndex(json.dumps(given), library_stores(config.get("remote")))
    lengths, tokens_of_all, longest = index.make(progress)
    view = memoryview(lengths).cast("I")
    return LengthReport(len(view), tokens_of_all, longest, view)
