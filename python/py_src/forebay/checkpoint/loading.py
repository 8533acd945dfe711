"""Checkpoints that are loaded."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

from .._arguments import whole
from ..errors import ConfigError
from ..files import StoreOptions
from . import commit, group
from .commit import CheckpointPart, Commit
from .direct import Opened
from .formats import FORMATS
from .parts import PartReader


class Checkpoint:
    """Checkpoint that is committed: by `latest`, `steps`, `save`, or `Checkpoint.open(url)`."""

    def __init__(self, url: str, commit: Commit, store: StoreOptions | None = None) -> None:
        self.url: str = url
        """URL or path of its folder."""
        self._store = store
        self.step: int | None = commit.step
        """Training step, as it was saved."""
        self.time: datetime.datetime = commit.time
        """Time of the commit, in UTC."""
        self.data: Any = commit.data
        """State of the loader for its `load_state_dict`, or a dict of states, as it was saved."""
        self.metadata: Any = commit.metadata
        """Metadata, as it was saved."""
        self.parts: Mapping[str, CheckpointPart] = commit.parts
        """Files of the checkpoint by their names."""

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, store: StoreOptions | None = None) -> Checkpoint:
        """Reads the commit of a checkpoint.

        Args:
            url: URL or path of its folder.
            store: Settings that differ from the environment's.

        Raises:
            NotFoundError: The folder is not a checkpoint.
            ChecksumError, FormatError: Its commit is damaged.
            UnsupportedError: A newer version has written it.
        """
        url = commit.folder_of("url", url)
        return cls(url, commit.read(url, store), store)

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.size for part in self.parts.values())

    def load(
        self, *, into: Any = None, map_location: Any = None, weights_only: bool = True, part: int | None = None
    ) -> Any:
        """Loads the object that was saved. Each block is compared with its digest before the object is returned.

        Args:
            into: Object of the same structure, with the tensors to fill: their bytes arrive in their memory. None in it
                takes whatever was saved there.
            map_location: As in `torch.load`.
            weights_only: As in `torch.load`: False also unpickles objects of any class, which may run code.
            part: Number of the part. By default the part of this rank, or the only one.

        Returns:
            The object; with `into`, it has the tensors of `into`, which is not changed otherwise.

        Raises:
            ConfigError: The number of ranks differs from the save's, or `into` does not match, before anything is
                written to it.
            NotFoundError, ChecksumError: A part is missing or damaged. The tensors of `into` are partly overwritten by then.
        """
        if into is not None and map_location is not None:
            raise ConfigError("into has tensors on their devices: pass into or map_location, not both")
        name = self._name(part)
        opened = Opened(self.url, self.parts[name], self._store)
        form = next(each for each in FORMATS.values() if name.endswith(each.ending))
        return form.read(opened, into, map_location, weights_only)

    def open_part(self, name: str) -> PartReader:
        """Opens a part, to be read as a binary file.

        Raises:
            ConfigError: There is no part of this name.
            NotFoundError, ChecksumError: The part is missing, or has a wrong size. Reads raise ChecksumError for damage.
        """
        if name not in self.parts:
            raise ConfigError(f"{self.url} has no part {name!r}: it has {', '.join(sorted(self.parts)[:8])}")
        return Opened(self.url, self.parts[name], self._store).whole()

    def _name(self, number: int | None) -> str:
        names = sorted(name for name in self.parts if name.rpartition("/")[2].startswith("rank-"))
        if not names:
            raise ConfigError(f"{self.url} was saved by torch.distributed.checkpoint: load it with its StorageReader")
        if number is None:
            # Without communication: a program may load on only one rank.
            rank, ranks = group.rank_and_ranks()
            if len(names) not in (1, ranks):
                raise ConfigError(
                    f"{self.url} has the parts of {len(names)} ranks, and there are {ranks} now: pass part, or save with "
                    "torch.distributed.checkpoint, which divides tensors among any number of ranks"
                )
            number = rank if len(names) > 1 else 0
        return names[whole("part", number, below=len(names))]

    def __repr__(self) -> str:
        return f"<Checkpoint {self.url}: step {self.step}, {len(self.parts)} parts, {self.size} bytes>"


def load(
    url: str | os.PathLike[str],
    *,
    into: Any = None,
    map_location: Any = None,
    weights_only: bool = True,
    store: StoreOptions | None = None,
) -> Any:
    """Loads the object of a checkpoint: `Checkpoint.open(url).load()`.

    Args:
        url: URL or path of the checkpoint's folder.
        into: Object of the same structure, with the tensors to fill.
        map_location: As in `torch.load`.
        weights_only: As in `torch.load`.
        store: Settings that differ from the environment's.

    Raises:
        NotFoundError: The folder is not a checkpoint, or a part is missing.
        ConfigError: `into` does not match.
        ChecksumError: A part is damaged. The tensors of `into` are partly overwritten by then.
    """
    return Checkpoint.open(url, store=store).load(into=into, map_location=map_location, weights_only=weights_only)
