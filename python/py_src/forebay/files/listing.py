"""Lists of files."""

from __future__ import annotations

import datetime
import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from .._arguments import flag, readable, several, text
from .._command import Results
from ..errors import ConfigError
from .stores import StoreOptions, opened, url_of

_LONG = 50_000
"""Files of a list that is long enough for its progress to be shown."""


@readable
class File(NamedTuple):
    """File of a store.

    Attributes:
        url: Its URL, or its path. The URL of a folder ends with a slash.
        size: Bytes; 0 for a folder, None if it is not known.
        etag: Entity tag, as the store has it in its lists.
        modified: Time of the last change, in UTC.
    """

    url: str
    size: int | None = None
    etag: str | None = None
    modified: datetime.datetime | None = None


class GrowingFiles(Sequence[File]):
    """Files that are found as they are needed."""

    def __init__(self) -> None:
        self._files: list[File] = []

    def _grow(self) -> bool:
        """Finds more files; returns false at the end. There may be no more files although it returns true."""
        raise NotImplementedError

    def __len__(self) -> int:
        while self._grow():
            pass
        return len(self._files)

    @overload
    def __getitem__(self, at: int) -> File: ...
    @overload
    def __getitem__(self, at: slice) -> list[File]: ...
    def __getitem__(self, at):
        if isinstance(at, int) and at >= 0:
            self.reaches(at)
        else:
            len(self)
        return self._files[at]

    def reaches(self, at: int) -> bool:
        """Returns true if there is a file number `at`."""
        while at >= len(self._files) and self._grow():
            pass
        return at < len(self._files)


class FileList(GrowingFiles):
    """Files with URLs that start with a prefix, in the store's order.

    Pages of the list are fetched as they are needed, one ahead. Iteration begins with the first page; `len` and negative
    indexes need all of them.
    """

    def __init__(self, prefix: str, masks: tuple[str, ...], recursive: bool, store: StoreOptions | None) -> None:
        super().__init__()
        self._prefix, self._masks, self._recursive, self._store = prefix, masks, recursive, store
        self._is_whole = False
        self._has_markers = False
        # Shows the progress of a long list.
        self._results = Results(False)
        self._begin()

    @property
    def prefix(self) -> str:
        """Start of the addresses."""
        return self._prefix

    def with_markers(self) -> FileList:
        """Returns a list with the empty objects by which some tools mark a folder, and their keys end with a slash."""
        found = FileList(self._prefix, self._masks, self._recursive, self._store)
        found._has_markers = True
        return found

    def _begin(self) -> None:
        """Starts the list in this process."""
        self._files, self._seen, self._pages, self._pid = [], 0, None, os.getpid()

    def _grow(self) -> bool:
        """Fetches the next page; returns false at the end."""
        if self._is_whole:
            return False
        if self._pid != os.getpid():
            # A forked process cannot continue the requests of its parent.
            self._begin()
        if self._pages is None:
            self._pages = opened(self._store).list(self._prefix, self._recursive, self._has_markers)
        page = self._pages.next()
        if page is None:
            self._pages = None
            if not self._seen:
                _check_wildcards(self._prefix)
            self._is_whole = True
            if self._seen >= _LONG:
                self._results.note(f"{self._prefix}: {len(self._files)} files")
            return False
        self._seen += len(page)
        for url, size, etag, modified in page:
            if self._masks and not any(_matches(url, mask) for mask in self._masks):
                continue
            time = None if modified is None else datetime.datetime.fromtimestamp(modified, datetime.timezone.utc)
            self._files.append(File(url, size, etag, time))
        if self._seen >= _LONG:
            self._results.progress(f"{self._prefix}: {len(self._files)} files of {self._seen} so far")
        return True

    def __iter__(self) -> Iterator[File]:
        at = 0
        while True:
            while at < len(self._files):
                yield self._files[at]
                at += 1
            if not self._grow():
                return

    def __bool__(self) -> bool:
        while not self._files and self._grow():
            pass
        return bool(self._files)

    def __repr__(self) -> str:
        count = len(self._files) if self._is_whole else f"{len(self._files)} or more"
        return f"<FileList of {self._prefix}: {count} files>"

    def __getstate__(self) -> dict[str, Any]:
        # A different process lists the rest itself, from the start unless this list is whole.
        return dict(self.__dict__, _pages=None, _pid=None, _files=self._files if self._is_whole else [])


def check_prefix(prefix: Any) -> Any:
    """Returns the prefix of a list of objects, which is a path only if its folder exists: a path without files is an empty list,
    and so would be an address without its scheme.

    Raises:
        ConfigError: It is neither.
    """
    start = url_of("prefix", prefix)
    if _SCHEME.match(start):
        return prefix
    folder, name = os.path.split(start)
    is_here = os.path.isdir(folder) if folder else any(entry.startswith(name) for entry in os.listdir("."))
    if not is_here:
        forgotten = f": for an object of S3, pass s3://{start.lstrip('/')}" if _BUCKET.match(start) else ""
        raise ConfigError(f"prefix is {start!r}, which has no scheme and is not the start of a path on this machine{forgotten}")
    return prefix


_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_BUCKET = re.compile(r"/?[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|$)")


def _check_wildcards(prefix: str) -> None:
    """Raises ConfigError for a prefix without files that looks like a pattern."""
    # Brackets are in the names of folders too, such as the folder of the first checkpoint of a run.
    if (wildcard := re.search("[*?]", prefix)) is None:
        return
    folder, slash, start = prefix[: wildcard.start()].rpartition("/")
    rest = prefix[len(folder) + len(slash) :]
    # A mask without a slash is for the last part of a URL.
    mask = prefix if "/" in rest else rest
    raise ConfigError(
        f"no file has an address that starts with {prefix}, and wildcards belong to masks: pass "
        f"list_files({folder + slash!r}, masks={mask!r})"
    )


def _matches(url: str, mask: str) -> bool:
    return fnmatch.fnmatchcase(url, mask) or fnmatch.fnmatchcase(url.rstrip("/").rpartition("/")[2], mask)


def list_files(
    prefix: str,
    *,
    masks: str | Iterable[str] | None = None,
    recursive: bool = True,
    store: StoreOptions | None = None,
) -> FileList:
    """Lists the files of a store with URLs that start with a prefix, as in `list_files("s3://bucket/texts/", masks="*.txt")`.

    Args:
        prefix: URL of a folder, which ends with a slash ("s3://bucket/train/"), or the start of URLs
            ("s3://bucket/train/shard-0"). A path lists the local file system. It has no wildcards: those are for `masks`.
        masks: Pattern, or several, with the wildcards `*`, `?` and `[...]`. A file is listed if its URL, or the last part
            of it, matches one of them.
        recursive: List the files in folders too. Without it, folders are entries of the list.
        store: Settings that differ from the environment's.

    Returns:
        A lazy sequence of `File`, with url, size, entity tag and time of the last change.

    Raises:
        ConfigError: An argument is wrong. The list raises the store's errors when it is used: AccessError, NotFoundError for a
            bucket that does not exist, NetworkError, UnsupportedError for web servers, which have no lists, and ConfigError for a
            prefix with wildcards that no file has.
    """
    prefix = url_of("prefix", prefix)
    masks = () if masks is None else (masks,) if isinstance(masks, str) else masks
    masks = tuple(text("masks", mask) for mask in several("masks", masks, "patterns"))
    return FileList(prefix, masks, flag("recursive", recursive), store)


class _Drawn(GrowingFiles):
    """URLs of an iterator."""

    def __init__(self, urls: Iterable[Any]) -> None:
        super().__init__()
        self._rest: Iterator[Any] | None = iter(urls)

    def _grow(self) -> bool:
        if self._rest is None:
            return False
        try:
            self._files.append(_file(next(self._rest)))
        except StopIteration:
            self._rest = None
        return self._rest is not None

    def __getstate__(self) -> dict[str, Any]:
        len(self)
        return self.__dict__


def _local_file(path: str) -> File:
    """Returns a file as a list has it."""
    found = os.stat(path)
    modified = datetime.datetime.fromtimestamp(found.st_mtime, datetime.timezone.utc)
    return File(os.path.abspath(path), found.st_size, None, modified)


def _file(url: Any) -> File:
    if isinstance(url, File):
        if url.url.endswith("/"):
            raise ConfigError(f"{url.url} is a folder: list files with recursive=True")
        return url
    return File(url_of("urls", url))


def files_of(urls: Any, store: StoreOptions | None) -> Sequence[File]:
    """Returns files in any form that users have: a folder or the prefix of a list, a list, one file, URLs."""
    if isinstance(urls, (str, bytes, os.PathLike)):
        # Neighbours of a local folder or file with names that begin with its own are separate data.
        local = url_of("urls", urls)
        if os.path.isfile(local):
            return [_local_file(local)]
        return list_files(f"{local}/" if os.path.isdir(local) and not local.endswith("/") else urls, store=store)
    if isinstance(urls, File):
        urls = [urls]
    if isinstance(urls, FileList):
        return urls
    if isinstance(urls, Sequence):
        return [_file(url) for url in urls]
    return _Drawn(several("urls", urls, "URLs"))
