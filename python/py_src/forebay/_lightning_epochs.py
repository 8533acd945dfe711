"""Epochs of Lightning's Trainer: epochs that resume with a different global batch, and epochs of `overfit_batches`.

Lightning keeps the position in an epoch as a number of batches, and ends the epoch where that number reaches the length of
the data loader. The position of a loader is a sample: with different batches it has a different number, and the epoch would end before
its last samples. So the number is corrected before the resumed epoch begins. Lightning has no interface for that: its loop
calls `set_epoch` at that time, and is found as the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any

from .adapter import Adapter, Rest

_FRAMES_MAX = 5
"""Frames from `set_epoch` to the method of the loop, at most: Lightning 2 has three or four."""


def loop_of(frame: FrameType | None) -> Any | None:
    """Returns the nearest loop of Lightning's Trainer among the callers of `frame`. None: there is none."""
    return _caller(frame, "_Loop", ".loops.loop")


def counts_iterations(frame: FrameType | None) -> bool:
    """Returns true if Fabric's wrapper of a data loader calls `frame`: its epochs are the iterations of this process."""
    return _caller(frame, "_FabricDataLoader", ".wrappers") is not None


def _caller(frame: FrameType | None, name: str, module: str) -> Any | None:
    """Returns the nearest object of a class among the callers of `frame`; `module` is the end of its name."""
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return None
        owner = frame.f_locals.get("self")
        if any(kind.__name__ == name and kind.__module__.endswith(module) for kind in type(owner).__mro__):
            return owner
        frame = frame.f_back
    return None


def repeats_batches(loop: Any) -> bool:
    """Returns true if each epoch of `loop` has to have the batches of the first one: Lightning turns the shuffle of torch's
    DataLoader off for that."""
    return loop is not None and getattr(loop.trainer, "overfit_batches", 0) > 0


def correct_batches(loop: Any) -> None:
    """Sets the number of the batch that an epoch is resumed at to the loaded position's.

    Args:
        loop: Loop that begins an epoch, or None. Others than that of `fit`, and epochs that are not resumed, stay.
    """
    epoch_loop = getattr(loop, "epoch_loop", None)
    if epoch_loop is None or not epoch_loop.restarting or not isinstance(loop.max_batches, int):
        return
    epoch = loop.epoch_progress.current.processed
    progress = epoch_loop.batch_progress
    # Lightning counts a batch as completed later if the checkpoint was saved at its end.
    waiting = int(getattr(epoch_loop, "restarted_on_train_batch_end", False))
    done = progress.current.completed + waiting
    rests = list(_rests(loop._combined_loader, epoch, done))
    if progress.is_last_batch:
        number = loop.max_batches
    else:
        mode = min if loop._combined_loader._mode == "min_size" else max
        number = loop.max_batches - max(mode(rest.left for rest in rests), 0)
    if number == done or number > done and any(rest.may_lack for rest in rests):
        return
    if number == loop.max_batches and not progress.is_last_batch:
        # The position is beyond a lower limit than the checkpoint's.
        for loader in loop._combined_loader.flattened:
            if (adapter := _adapter(loader)) is not None:
                adapter.end_trainer_epoch()
    for name in ("ready", "started", "processed", "completed"):
        setattr(progress.current, name, number)
    progress.current.completed -= waiting


def _adapter(loader: Any) -> Adapter | None:
    """Returns the adapter of a loader of this package, also of one in a torch `DataLoader`."""
    adapter = getattr(loader, "adapter", None)
    return adapter if isinstance(adapter, Adapter) else None


def _rests(combined: Any, epoch: int, done: int) -> Iterator[Rest]:
    """Yields the rest that each loader has of `epoch`, within the limit that the trainer sets."""
    for loader, limit in zip(combined.flattened, combined.limits):
        adapter = _adapter(loader)
        rest = None if adapter is None else adapter.rest_of_trainer_epoch(epoch)
        if rest is None:
            # A loader of a different library: Lightning's own count. One without a length ends at the trainer's limit.
            try:
                length = len(loader)
            except (TypeError, NotImplementedError):
                length = limit
            rest = Rest(length, max(length - done, 0), False)
        length = min(rest.length, limit)
        yield Rest(length, length - (rest.length - rest.left), rest.may_lack)
