"""Folder that a checkpoint is saved to."""

from __future__ import annotations

import datetime
import logging
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from ..arguments import flag, whole
from ..errors import ChecksumError, ConfigError, Error, FormatError, NotFoundError
from ..files import StoreOptions
from . import commit, retention
from .commit import Commit, Part

__all__ = ["Folder", "state_of"]

_log = logging.getLogger("forebay")


class Folder:
    """Folder of a checkpoint, and what its commit will have. `begin` and `commit` are for one rank.

    Args:
        url: URL or path.
        step: Training step.
        data: Loader, or a dict of several, or their states. The state is taken now.
        metadata: Facts to find again, as JSON.
        overwrite: Replace a checkpoint of this URL.
        keep: Checkpoints of the parent folder that stay after the commit. None: all.
        store: Settings that differ from the environment's.
    """

    def __init__(
        self,
        url: Any,
        *,
        step: int | None = None,
        data: Any = None,
        metadata: Any = None,
        overwrite: bool = False,
        keep: int | None = None,
        store: StoreOptions | None = None,
    ) -> None:
        self.url = commit.folder_of("url", url)
        self.parent = self.url.rpartition("/")[0]
        self.step = None if step is None else whole("step", step)
        self.data = plain_state(data)
        self.metadata = commit.plain("metadata", metadata)
        self.overwrite, self.store = flag("overwrite", overwrite), store
        self.keep = None if keep is None else whole("keep", keep, least=1)
        self._replaces = False
        if self.keep is not None and (not self.parent or self.parent.endswith(":/")):
            raise ConfigError(f"keep removes older checkpoints next to {self.url}: save to a folder inside of another one")

    def begin(self) -> str:
        """Prepares the folder for its parts.

        Returns:
            Start of their names. A checkpoint that is replaced stays whole until the commit, so new parts have other names.

        Raises:
            ConfigError: It is a checkpoint, and `overwrite` is not set.
        """
        self._replaces = False
        found = retention.find(self.url, self.store)
        if found is not None:
            if found.has_commit and not self.overwrite:
                raise ConfigError(f"{self.url} is a checkpoint already: save to another URL, or pass overwrite=True")
            if found.has_commit and (old := self._committed()) is not None:
                retention.clear_all_but(found, {commit.COMMIT, commit.BEGUN, *old.parts}, self.store)
                self._replaces = True
                return f"{secrets.token_hex(4)}/"
            retention.clear(found, self.store)
        commit.begin(self.url, self.store)
        return ""

    def _committed(self) -> Commit | None:
        """Returns the commit of the checkpoint that is replaced; None if it is damaged."""
        try:
            return commit.read(self.url, self.store)
        except (ChecksumError, FormatError, NotFoundError):
            return None

    def _others(self) -> list[retention.Found]:
        """Returns the checkpoints next to this one; none if they cannot be read, since all parts are in the store by now."""
        try:
            found = retention.survey(self.parent, self.store)
        except Error as error:
            _log.warning("older checkpoints of %s are not removed, since they cannot be read: %s", self.parent, error)
            return []
        return [each for each in retention.inside(self.parent, found) if each.url != self.url]

    def commit(self, parts: Iterable[Part]) -> Commit:
        """Makes the folder a checkpoint, and removes what it replaces and those that `keep` leaves no room for."""
        named = {part.name: part for part in parts}
        others = [] if self.keep is None else self._others()
        time = datetime.datetime.now(datetime.timezone.utc)
        if whole_ones := [found.time for found in others if found.problem is None]:
            # It is the newest one also where the clock of another machine was ahead.
            time = max(time, max(whole_ones) + datetime.timedelta(microseconds=1))
        done = Commit(self.step, time, named, self.data, self.metadata)
        commit.write(self.url, done, self.store)
        try:
            if self._replaces and (found := retention.find(self.url, self.store)) is not None:
                retention.clear_all_but(found, {commit.COMMIT, commit.BEGUN, *named}, self.store)
            if self.keep is not None:
                retention.remove_oldest(others, self.keep - 1, self.store)
        except Error as error:
            # The checkpoint is whole, so training continues.
            _log.warning("what %s replaces cannot be removed: %s", self.url, error)
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
    return commit.plain("data", state_of(data))
