"""Checkpoints that are saved, at once or behind training."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union, overload

from .._arguments import flag, one_of
from ..errors import ConfigError
from ..files import StoreOptions
from . import group
from .commit import CheckpointPart
from .folder import Folder
from .formats import FORMATS, Format
from .loading import Checkpoint
from .parts import PartWriter
from .memory import snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack

_log = logging.getLogger("forebay")


class Saving:
    """Save that runs behind training: by `save(..., wait=False)`.

    A program that ends waits for it. Its error is logged, and raised by `wait`, or else by the next save.
    """

    def __init__(self, action: Any) -> None:
        self._action, self._checkpoint, self._error = action, None, None
        self._pid, self._ended = os.getpid(), threading.Event()
        # Not a daemon: the interpreter waits for it.
        threading.Thread(target=self._run, name="forebay-checkpoint").start()

    def _run(self) -> None:
        try:
            self._checkpoint = self._action()
        except BaseException as error:
            self._error = error
            # The program may end before anything raises it.
            _log.error("a checkpoint that was saved behind training has failed: %s", error)
        # The copy of the state is free from here on.
        self._action = None
        self._ended.set()

    @property
    def is_done(self) -> bool:
        """True after the commit, and after a failure."""
        return self._ended.is_set() or self._pid != os.getpid()

    def join(self) -> None:
        """Waits for the end. A forked process does not have the thread, and returns at once."""
        # Not by Thread.join: after an interrupt in it, Python 3.12 and older take the thread for one that has ended, and end
        # around it.
        if not self.is_done:
            self._ended.wait()

    def wait(self) -> Checkpoint:
        """Waits for the commit.

        Returns:
            The checkpoint.

        Raises:
            Error: The save has failed, on this rank or on a different one; there is no checkpoint.
        """
        self.join()
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._checkpoint is None:
            raise ConfigError("this save has failed, and its error was raised before")
        return self._checkpoint


_behind: Saving | None = None
"""The last save behind training."""


def wait_for_last() -> None:
    """Waits for the save behind training, if there is one, and raises its error unless that was raised before."""
    global _behind
    if _behind is not None:
        _behind.join()
        # Not before: after an interrupt, the next save waits again.
        last, _behind = _behind, None
        if last._error is not None:
            last.wait()


_Options = TypedDict(
    "_Options",
    {"step": Union[int, None], "data": Any, "metadata": Any, "overwrite": bool, "keep": Union[int, None], "per_rank": bool,
     "format": Literal["torch", "safetensors"], "store": Union[StoreOptions, None]}, total=False,
)


@overload
def save(obj: Any, url: str | os.PathLike[str], *, wait: Literal[True] = ..., **options: Unpack[_Options]) -> Checkpoint: ...
@overload
def save(obj: Any, url: str | os.PathLike[str], *, wait: Literal[False], **options: Unpack[_Options]) -> Saving: ...
def save(
    obj: Any,
    url: str | os.PathLike[str],
    *,
    step: int | None = None,
    data: Any = None,
    metadata: Any = None,
    overwrite: bool = False,
    keep: int | None = None,
    per_rank: bool = False,
    format: Literal["torch", "safetensors"] = "torch",
    wait: bool = True,
    store: StoreOptions | None = None,
) -> Checkpoint | Saving:
    """Saves a checkpoint: it exists as a whole, or not at all.

        checkpoint.save({"model": model.state_dict()}, "s3://bucket/run/step-1000", step=1000, data=loader, keep=3)

    All ranks of a process group call it. The commit is written when every part is in the store. If a rank fails, all ranks
    raise and there is no checkpoint; whatever a killed job has left is no checkpoint either.

    One save runs at a time: a save waits for the one before it, and raises the error of that one if nothing has raised it.

    Args:
        obj: Object for `torch.save`, such as a dict of states. For the format "safetensors" a dict of tensors by name.
        url: URL or path of the checkpoint's folder, such as "s3://bucket/run/step-1000".
        step: Training step.
        data: The loader, or a dict of several loaders, or their states. The state is taken now, on rank 0, so with several
            ranks it may not be a position within an epoch of `load_files(ordered=False)`, `load_lines` or `load_tars`.
        metadata: Facts to find again, as JSON.
        overwrite: Replace a checkpoint of this URL, which stays whole until the commit.
        keep: Checkpoints in the folder above that stay after the commit; older ones are removed. None: all.
        per_rank: Save the object of each rank. Without it, the object of rank 0: the rest may pass None.
        format: "torch", or "safetensors".
        wait: Wait for the commit. Without it, return as soon as the object is copied to host memory, and save behind
            training.
        store: Settings of the store that differ from the environment's.

    Returns:
        The `Checkpoint`; with `wait=False` a `Saving`, and its `wait` returns it.

    Raises:
        ConfigError: An argument is wrong, or the folder is a checkpoint and `overwrite` is not set.
        StateError: A second save to the folder has begun since, or the folder was removed.
        AccessError, NetworkError, FullError: The store does not take it.
    """
    global _behind
    ranks = group.current()

    def prepare() -> Writer:
        if isinstance(obj, (str, os.PathLike)) and not isinstance(url, (str, os.PathLike)):
            raise ConfigError("the object comes before its address: save(obj, url)")
        prepared = Folder(url, step=step, data=data, metadata=metadata, overwrite=overwrite, keep=keep, store=store)
        prepared.check_ranks(ranks.ranks)
        is_ours = flag("per_rank", per_rank) or ranks.rank == 0
        form = FORMATS[one_of("format", format, tuple(FORMATS))]
        if is_ours:
            form.check(obj)
        value = snapshot(obj) if is_ours and not flag("wait", wait) else obj
        return Writer(prepared, ranks, value, is_ours, form)

    made: list[Writer] = []

    def begin() -> str:
        # On all ranks, so that a failure of the last save ends this one on all of them. Ranks exchange only the outcome.
        wait_for_last()
        made.append(prepare())
        return made[0].folder.url

    if len(urls := set(ranks.run(begin))) > 1:
        raise ConfigError(f"the ranks save to different folders: {', '.join(sorted(urls))}")
    run = made[0].run
    if wait:
        return run()
    _behind = Saving(run)
    return _behind


class Writer:
    """Save of one rank; its object is written if `is_ours`."""

    def __init__(self, folder: Folder, ranks: group.Alone, obj: Any, is_ours: bool, format: Format) -> None:
        self.folder: Folder = folder
        self._ranks, self._obj, self._is_ours, self._format = ranks, obj, is_ours, format

    def run(self) -> Checkpoint:
        folder, ranks = self.folder, self._ranks
        start = ranks.first(folder.begin)
        parts = [part for part in ranks.run(lambda: self._write(start)) if part is not None]
        done = ranks.first(lambda: folder.commit(parts))
        return Checkpoint(folder.url, done, folder.store)

    def _write(self, start: str) -> CheckpointPart | None:
        if not self._is_ours:
            return None
        obj, self._obj = self._obj, None
        name = f"{start}rank-{self._ranks.rank:05}{self._format.ending}"
        with PartWriter(self.folder.url, name, self.folder.store, self._format.size(obj)) as file:
            self._format.write(obj, file)
        assert file.part is not None, "a part that was closed has a description"
        return file.part
