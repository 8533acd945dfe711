"""Folder that a checkpoint is saved to."""

from __future__ import annotations

import datetime
import logging
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from .._forebay import is_root, is_url
from .._arguments import flag, none_or, whole
from ..errors import AccessError, ConfigError, Error, StateError
from ..files import StoreOptions
from ..files.order import is_of_one_rank
from . import commit, marks, retention
from .commit import CheckpointPart, Commit, plain

_log = logging.getLogger("forebay")

_ATTEMPTS = 8
"""Conditional writes of a commit. Each save that began earlier can spoil one."""


@dataclass(eq=False, repr=False)
class Folder:
    """Folder of a checkpoint, and the contents of its commit. `begin` and `commit` are for one rank."""

    url: Any
    """Its URL or path, and then its URL."""
    _: KW_ONLY
    step: int | None = None
    data: Any = None
    """Loader, or a dict of several, or their states, and then the states as JSON."""
    metadata: Any = None
    overwrite: bool = False
    """Replace a checkpoint of this URL."""
    keep: int | None = None
    """Checkpoints of the parent folder that stay after the commit. None: all."""
    store: StoreOptions | None = None

    def __post_init__(self) -> None:
        self.url = commit.folder_of("url", self.url)
        self.parent: str = self.url.rpartition("/")[0]
        self.step = none_or(whole, "step", self.step)
        self.data = plain_state(self.data)
        self.metadata = plain("metadata", self.metadata)
        self.overwrite = flag("overwrite", self.overwrite)
        self.keep = none_or(partial(whole, least=1), "keep", self.keep)
        self._is_first, self._token = False, ""
        if is_url(self.url) and is_root(self.url):
            raise ConfigError(f"{self.url} is a whole bucket or server: save to a folder in it")
        if self.keep is not None and (not self.parent or self.parent.endswith(":/")):
            raise ConfigError(f"keep removes older checkpoints next to {self.url}: save to a folder inside of a folder")

    def check_ranks(self, count: int) -> None:
        """Raises ConfigError for a state of only one rank if there are several: a checkpoint has the state of rank 0."""
        if count > 1 and is_of_one_rank(self.data):
            raise ConfigError(
                "data has a position of load_files(ordered=False), load_lines or load_tars within an epoch, which different ranks cannot "
                "continue: save the state of each rank in obj with per_rank=True, or make the loader of files with ordered=True"
            )

    def begin(self) -> str:
        """Prepares the folder for its parts.

        Returns:
            Start of their names, which is empty in a new folder. In an existing one it differs for each save: a checkpoint that is
            replaced stays whole until the commit, and an unfinished save may be from a job that still runs.

        Raises:
            ConfigError: It is a checkpoint, and `overwrite` is not set.
            StateError: A second save has begun at the same time.
        """
        token = self._token = secrets.token_hex(16)
        marks.announce(self.url, token, self.store)
        try:
            found = self._find()
            files = [file.url.rpartition("/") for file in (found.files if found is not None else [])]
            names = {name for folder, _, name in files if folder == self.url and (name == commit.COMMIT or marks.is_mark(name))}
            self._is_first = names == {marks.name_of(token)}
            marks.begin(self.url, token, self.store)
        finally:
            marks.withdraw(self.url, token, self.store)
        if not is_url(self.url):
            retention.remove_leftovers(self.url)
        if self._is_first:
            return ""
        # Nothing is removed that a later save has written: it is not in this list, or the token has changed.
        found = self._find()
        self._check_is_last()
        # In a checkpoint, an earlier save may be about to write a commit that replaces it, and needs its parts then.
        if found is not None and not found.has_commit:
            retention.clear(found, self.store)
        return f"{token[:8]}/"

    def _find(self) -> retention.Found | None:
        """Lists the folder. It raises ConfigError for a checkpoint that may not be replaced."""
        found = retention.find(self.url, self.store)
        if found is not None and found.has_commit and not self.overwrite:
            raise ConfigError(f"{self.url} is a checkpoint already: save to a different URL, or pass overwrite=True")
        return found

    def _check_is_last(self) -> None:
        """Raises StateError if this save is not the one that began last."""
        try:
            last = marks.token_of(self.url, self.store)
        except AccessError:
            # A job may be allowed only to write, and its parts are in the store by now.
            return
        if last != self._token:
            raise StateError(
                f"a second save to {self.url} has begun, or the folder was removed: let one save at a time use a folder, and "
                "remove no unfinished saves of jobs that run"
            )

    def _write(self, done: Commit) -> None:
        """Writes the commit, if no second save has begun, or has committed since this was compared."""
        text = commit.text_of(done)
        refused: list[str | None] = []
        for _ in range(_ATTEMPTS):
            version = commit.version_of(self.url, self.store)
            self._check_is_last()
            if version in refused:
                # The server refuses its own version, such as behind a proxy that changes entity tags.
                return commit.replace(self.url, text, self.store)
            if commit.write(self.url, text, version, self.store):
                return
            refused.append(version)
        raise StateError(f"several programs write {commit.COMMIT} of {self.url} all the time: let one save at a time use a folder")

    def _earlier_saves(self) -> list[retention.Found]:
        """Returns the checkpoints next to this one; none if they cannot be read, since all parts are in the store by now."""
        try:
            found = retention.survey(self.parent, self.store)
        except Error as error:
            _log.warning("older checkpoints of %s are not removed, since they cannot be read: %s", self.parent, error)
            return []
        return [each for each in retention.inside(self.parent, found) if each.url != self.url]

    def commit(self, parts: Iterable[CheckpointPart]) -> Commit:
        """Makes the folder a checkpoint, and removes the one that it replaces and the ones beyond `keep`.

        Raises:
            StateError: A second save has begun, or the folder was removed. The parts are gone, or will be.
        """
        named = {part.name: part for part in parts}
        others = [] if self.keep is None else self._earlier_saves()
        time = datetime.datetime.now(datetime.timezone.utc)
        if whole_ones := [found.time for found in others if found.problem is None]:
            time = max(time, max(whole_ones) + datetime.timedelta(microseconds=1))
        # It is the newest one also where the clock of an earlier machine was ahead.
        time = commit.later(self.parent, time)
        done = Commit(self.step, time, named, self.data, self.metadata)
        replaced = set() if self._is_first else commit.parts_of(self.url, self.store)
        self._write(done)
        try:
            found = None if self._is_first else retention.find(self.url, self.store)
            # After the list, so that it has no parts of a later save.
            self._check_is_last()
            if found is not None:
                found.parts |= replaced
                retention.clear_all_but(found, {commit.COMMIT, marks.BEGUN, *named}, self.store)
            if self.keep is not None:
                retention.remove_oldest(others, self.keep - 1, self.store)
        except StateError:
            raise
        except Error as error:
            # The checkpoint is whole, so training continues.
            _log.warning("the files that %s replaces cannot be removed: %s", self.url, error)
        return done


def state_of(data: Any) -> Any:
    """Returns the states of loaders: of one, or of those in a dict."""
    if hasattr(data, "state_dict"):
        return data.state_dict()
    if isinstance(data, Mapping):
        return {name: state_of(value) for name, value in data.items()}
    return data


def plain_state(data: Any) -> Any:
    """Returns the states of loaders as JSON."""
    return plain("data", state_of(data))
