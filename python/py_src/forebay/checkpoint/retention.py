"""Checkpoints of a folder: found, listed, removed, with the temporary files that killed processes have left in local folders."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import logging
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from .._arguments import one_of, seconds, whole
from ..errors import ChecksumError, FormatError, NotFoundError, UnsupportedError
from ..files import File, StoreOptions, list_files, load_files, remove_files
from .._forebay import is_url
from . import commit
from .commit import COMMIT, Commit, folder_of
from .loading import Checkpoint
from .marks import BEGUN, is_mark

_log = logging.getLogger("forebay")

_PART = re.compile(
    r"([0-9a-f]{8}/)?(rank-\d{5,}\.(pt|safetensors)|\.metadata|[^/]*__\d+_\d+\.distcp)"
    r"|[0-9a-f]{8}/.*__\d+_\d+\.distcp"
)
"""Names that `save` and `StorageWriter` give to parts, without those that have a slash in a prefix of the user's. In a folder that
was in use before, they are in one that is named after the save."""


@dataclass
class Found:
    """Folder of a checkpoint, whole or not."""

    url: str
    files: list[File] = field(default_factory=list)
    has_commit: bool = False
    commit: Commit | None = None
    problem: str | None = None
    """Reason why it is not whole."""
    unsupported: UnsupportedError | None = None
    """Error of a commit that a newer version has written: the folder may be whole, and is not ours to judge."""
    parts: set[str] = field(default_factory=set)
    """Names of parts that commits have."""
    is_linked: bool = False
    """A link in the folder that was searched leads here, so it is not removed with that folder's checkpoints."""

    @property
    def own(self) -> list[File]:
        """Files that saves have written. Users may have put more into the folder."""
        return [file for file in self.files if self._is_own(file.url[len(self.url) + 1 :])]

    def _is_own(self, name: str) -> bool:
        return name == COMMIT or is_mark(name) or name in self.parts or _PART.fullmatch(name) is not None

    @property
    def changed(self) -> datetime.datetime | None:
        """Time of the last change of the files that saves have written; None in a store with lists without times."""
        return max((file.modified for file in self.own if file.modified is not None), default=None)

    @property
    def size(self) -> int:
        """Bytes of the files that saves have written."""
        return sum(file.size or 0 for file in self.own)

    @property
    def time(self) -> datetime.datetime:
        """Time of its commit, or of its newest file without one."""
        if self.commit is not None:
            return self.commit.time
        oldest = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
        return max((file.modified or oldest for file in self.files), default=oldest)


def survey(prefix: str, store: StoreOptions | None, *, reads: bool = True) -> list[Found]:
    """Returns the folders of checkpoints under a folder, oldest first, by one list and the commits.

    With `reads=False` the commits are not read, and none is known to be whole.
    """
    prefix = folder_of("prefix", prefix)
    files = list(list_files(f"{prefix}/", store=store))
    folders = [file.url.rpartition("/") for file in files]
    found = {folder: Found(folder) for folder, _, name in folders if name == COMMIT or is_mark(name)}
    for file, (folder, _, name) in zip(files, folders):
        # A file belongs to the nearest folder above it.
        while folder not in found and len(folder) > len(prefix):
            folder = folder.rpartition("/")[0]
        if folder in found:
            found[folder].files.append(file)
            found[folder].has_commit |= file.url == f"{folder}/{COMMIT}"
    if not is_url(prefix):
        found = {each.url: each for each in _without_copies(prefix, list(found.values()))}
    if reads:
        _read_commits(list(found.values()), store)
    return sorted(found.values(), key=lambda each: (each.time, -1 if each.commit is None else each.commit.step or -1))


def _without_copies(prefix: str, found: list[Found]) -> list[Found]:
    """Marks the local folders that a link leads to, and leaves out those that are in the list without it."""
    folders = {each.url: os.path.realpath(each.url) for each in found}
    start = os.path.realpath(prefix)
    for each in found:
        each.is_linked = folders[each.url] != start + each.url[len(prefix) :]
    kept: dict[str, Found] = {}
    for each in sorted(found, key=lambda each: each.is_linked):
        kept.setdefault(folders[each.url], each)
    return list(kept.values())


def find(url: str, store: StoreOptions | None) -> Found | None:
    """Returns the folder `url` if it is the folder of a checkpoint, whole or not. The commit is not read."""
    return next((found for found in survey(url, store, reads=False) if found.url == url), None)


def _read_commits(found: list[Found], store: StoreOptions | None) -> None:
    """Reads the commits, and compares them with the lists.

    Many are in flight, by `load_files` and not by a pool: Python starts no threads while a program that ends waits for its last save.
    """
    left = []
    for each in found:
        if each.has_commit:
            left.append(each)
        else:
            each.problem = "saving was not finished"
    while left:
        try:
            for url, text in load_files([f"{each.url}/{COMMIT}" for each in left], shard="none", store=store):
                _examine(left.pop(0), url, text)
        except NotFoundError:
            # It was removed after the list was made. The next turn reads those after it.
            gone = left.pop(0)
            gone.has_commit, gone.problem = False, f"{COMMIT} was removed"


def _examine(found: Found, url: str, text: bytes) -> None:
    """Compares the content of a commit with the list."""
    try:
        found.commit = commit.parse(url, text)
    except (ChecksumError, FormatError) as error:
        found.problem = str(error)
        return
    except UnsupportedError as error:
        found.problem, found.unsupported = str(error), error
        return
    found.parts.update(found.commit.parts)
    sizes = {file.url: file.size for file in found.files}
    for part in found.commit.parts.values():
        size = sizes.get(f"{found.url}/{part.name}", -1)
        if size == -1:
            found.problem = f"{part.name} is missing"
        elif size != part.size:
            found.problem = f"{part.name} has {size} bytes instead of {part.size}"
        if found.problem is not None:
            return


def steps(prefix: str | os.PathLike[str], *, store: StoreOptions | None = None) -> list[Checkpoint]:
    """Lists the checkpoints under a folder that are whole, oldest first.

    One list finds them, and their commits are read in parallel. The list has the size of each part too: a checkpoint that
    lacks one, or has one of a wrong size, is left out with a warning in the log.

    Args:
        prefix: URL or path of the folder.
        store: Settings that differ from the environment's.

    Raises:
        UnsupportedError: A newer version has written one of them.
        Error: The store fails; see `forebay.errors`.
    """
    return _whole_ones(survey(prefix, store), store)


def _whole_ones(all_found: Iterable[Found], store: StoreOptions | None) -> list[Checkpoint]:
    whole_ones = []
    for found in all_found:
        if found.unsupported is not None:
            # An older step instead would be a step back that nothing shows.
            raise found.unsupported
        if found.problem is None and found.commit is not None:
            whole_ones.append(Checkpoint(found.url, found.commit, store))
        elif found.has_commit:
            _log.warning("%s is left out, because it is not whole: %s", found.url, found.problem)
    return whole_ones


def latest(
    prefix: str | os.PathLike[str], *, damaged: Literal["raise", "skip"] = "raise", store: StoreOptions | None = None
) -> Checkpoint | None:
    """Returns the newest checkpoint under a folder that is whole, or None if no save was ever finished there.

        if (last := checkpoint.latest("s3://bucket/run")) is not None:
            loader.load_state_dict(last.data)

    A damaged one is left out with a warning in the log, as long as there is an older one that is whole.

    Args:
        prefix: URL or path of the folder.
        damaged: "raise" raises an error if all checkpoints are damaged: an unattended job would begin with the first step.
            "skip" returns None then.
        store: Settings that differ from the environment's.

    Raises:
        ChecksumError: There are checkpoints, and none of them is whole.
        UnsupportedError: A newer version has written one of them.
        Error: The store fails; see `forebay.errors`.
    """
    one_of("damaged", damaged, ("raise", "skip"))
    found = survey(prefix, store)
    whole_ones = _whole_ones(found, store)
    if not whole_ones and damaged == "raise" and (lost := [each for each in found if each.has_commit]):
        raise ChecksumError(
            f"none of the {len(lost)} checkpoints under {prefix} is whole, the newest one is {lost[-1].url}: {lost[-1].problem}. "
            'Restore one of them, or pass damaged="skip" to begin without a checkpoint'
        )
    return whole_ones[-1] if whole_ones else None


def retain(prefix: str | os.PathLike[str], keep: int, *, store: StoreOptions | None = None) -> list[str]:
    """Removes the oldest checkpoints in a folder: `retain("s3://bucket/run", keep=3)`. Files that no save has written stay.

    Only those that are whole are counted and removed, so the newest whole one always stays. One that a newer version of
    forebay has saved stays as well, with a warning in the log. Checkpoints in folders of the folder, which may belong to
    different runs, and behind links, are neither counted nor removed.

    Args:
        prefix: URL or path of the folder of one run.
        keep: Number of checkpoints that stay, at least 1.
        store: Settings that differ from the environment's.

    Returns:
        The URLs of the removed ones.

    Raises:
        AccessError: The store denies the removal.
    """
    keep = whole("keep", keep, least=1)
    return remove_oldest(inside(folder_of("prefix", prefix), survey(prefix, store)), keep, store)


def inside(folder: str, found: Iterable[Found]) -> list[Found]:
    """Returns the checkpoints of a folder that are not in folders of it, nor behind links: those may be of different runs."""
    return [each for each in found if each.url.rpartition("/")[0] == folder and not each.is_linked]


def remove_oldest(found: list[Found], keep: int, store: StoreOptions | None) -> list[str]:
    """Removes all but the last `keep` of the whole checkpoints in `found`, and returns their URLs."""
    for each in found:
        if each.unsupported is not None:
            _log.warning("%s is not counted and not removed: %s", each.url, each.unsupported)
    old = [each for each in found if each.problem is None]
    old = old[: max(len(old) - keep, 0)]
    for each in old:
        _remove(each, store)
    return [each.url for each in old]


def remove_incomplete(prefix: str | os.PathLike[str], *, age: float = 86400.0, store: StoreOptions | None = None) -> list[str]:
    """Removes the leftovers of unfinished saves under a folder.

    Args:
        prefix: URL or path of the folder.
        age: Seconds since the last change of a folder. A newer one may be from a save in progress, and its upload is
            not visible before its end. In a store with lists without times, only 0 removes anything: let no save run then.
        store: Settings that differ from the environment's.

    Returns:
        The URLs of the removed folders.

    Raises:
        AccessError: The store denies the removal.
    """
    age = 0.0 if age == 0 else seconds("age", age)
    before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=age)
    removed = []
    for found in survey(prefix, store, reads=False):
        if found.has_commit or found.is_linked:
            continue
        if age and found.changed is None:
            _log.warning("%s stays, because its store has no times: remove it with age=0 when no save runs", found.url)
        elif not age or found.changed is not None and found.changed <= before:
            _remove(found, store)
            removed.append(found.url)
    if not is_url(prefix := folder_of("prefix", prefix)):
        remove_leftovers(prefix, before.timestamp())
    return removed


def remove(url: str | os.PathLike[str], *, store: StoreOptions | None = None) -> None:
    """Removes the checkpoint of a URL. One that does not exist is no error. Files in its folder that no save has written stay.

    Args:
        url: URL or path of the checkpoint.
        store: Settings that differ from the environment's.

    Raises:
        AccessError: The store denies the removal.
    """
    found = find(folder_of("url", url), store)
    if found is not None:
        found.parts |= commit.parts_of(found.url, store)
        _remove(found, store)


def clear(found: Found, store: StoreOptions | None) -> None:
    """Removes the files of saves but the mark: the commit first, so that no commit names a part that is gone."""
    if found.has_commit:
        remove_files([f"{found.url}/{COMMIT}"], store=store)
    clear_all_but(found, {COMMIT, BEGUN}, store)


def clear_all_but(found: Found, names: set[str], store: StoreOptions | None) -> None:
    """Removes the files of saves in a folder with names that are not in `names`."""
    keep = {f"{found.url}/{name}" for name in names}
    removed = [file for file in found.own if file.url not in keep]
    remove_files(removed, store=store)
    if not is_url(found.url):
        # Only a file system has folders without files, and files that are not complete.
        folders = {folder for file in removed for folder in _between(found.url, file.url)}
        for folder in sorted(folders, key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        remove_leftovers(found.url)


def _between(folder: str, file: str) -> Iterator[str]:
    """Returns the folders of a file that are in `folder`."""
    while (file := file.rpartition("/")[0]) != folder:
        yield file


def _remove(found: Found, store: StoreOptions | None) -> None:
    clear(found, store)
    remove_files([f"{found.url}/{BEGUN}"], store=store)
    if not is_url(found.url):
        with contextlib.suppress(OSError):
            os.rmdir(found.url)


_TEMPORARY = re.compile(r"\.forebay-locked-[0-9a-f]{16}\.tmp")


def remove_leftovers(folder: str, before: float | None = None) -> None:
    """Removes the temporary files without a writer below a folder of this machine, and the folders that held nothing else.

    A file has a temporary name, which lists leave out, until it is complete. Its writer holds a lock of flock on it, which ends with
    the process. Writers that have no lock, such as over SFTP, use different names.

    Args:
        folder: Its path.
        before: Time in seconds since 1970; files that were changed later stay. None: none of them.
    """
    for base, _, names in os.walk(folder, topdown=False):
        if any([_remove_leftover(os.path.join(base, name), before) for name in names if _TEMPORARY.fullmatch(name)]) and base != folder:
            with contextlib.suppress(OSError):
                os.rmdir(base)


def _remove_leftover(file: str, before: float | None) -> bool:
    """Removes a file that is not in use, and returns true if it did."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Where a file system has no locks, all files stay.
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if before is not None and os.fstat(opened).st_mtime > before:
            return False
        os.remove(file)
        return True
    except OSError:
        return False
    finally:
        os.close(opened)
