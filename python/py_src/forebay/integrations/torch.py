"""`torch.utils.data.DataLoader` of a loader, for libraries that check the type.

The sampler has numbers instead of indexes: batch 3 of a rank has the numbers from 3 * batch size on. The data set returns
the loader's next batch for them, so a library's use of samplers, such as skipping the first batches, works without
reading them. The sampler is a `DistributedSampler`, so libraries know that the data is sharded by rank, and can
set the epoch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch.utils.data
from torch.utils.data.distributed import DistributedSampler

from ..adapter import Adapter
from ..errors import ClosedError, ConfigError
from .._position import counts_iterations, loop_of
from .._loader import Loader
from ._checks import one_device, refuse

__all__ = ["DataLoader"]


class DataLoader(torch.utils.data.DataLoader):
    """A loader as a `torch.utils.data.DataLoader`: the same batches, made by the loader's threads.

        train = DataLoader(forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True))

    Its length is the length of a whole epoch, also where it resumes within one. Its data set has `state_dict` and
    `load_state_dict` too, for Composer.

    Args:
        loader: Loader with a single device.
        **others: Nothing. Batch size, threads and the like are the loader's.

    Raises:
        ConfigError: This is no loader, or one with several devices, so that a step has several batches; or there are more
            arguments.
    """

    def __init__(self, loader: Loader, **others: Any) -> None:
        one_device("DataLoader", loader)
        refuse("DataLoader", others)
        batches = self._batches_of(loader)
        # Each batch has `batch_size` numbers, so that DataLoader leaves none out, and no library removes repeats again.
        super().__init__(batches, loader.batch_size, sampler=_Numbers(batches), collate_fn=_same, drop_last=True)

    def _batches_of(self, loader: Loader) -> Batches:
        return Batches(loader)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dataset.loader!r})"

    def __iter__(self) -> Iterator[Any]:
        # A library that skips batches itself iterates the sampler alone, which then begins at the start of the epoch.
        self.sampler.resumes = True
        return super().__iter__()

    @property
    def epoch(self) -> int:
        """Epoch that the next `iter` runs, from 0."""
        return self.dataset.loader.epoch

    @property
    def first_batch(self) -> int:
        """Number of the batch that the next `iter` starts with, for `enumerate` and progress bars."""
        return self.dataset.loader.first_batch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next `iter` run `epoch`: from a loaded state of that epoch, else from its start."""
        self.dataset.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Returns the loader's state."""
        return self.dataset.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Makes the next `iter` resume the position of a loader's state, on any legal number of ranks."""
        self.dataset.load_state_dict(state_dict)

    @property
    def adapter(self) -> Adapter:
        """The loader's facts and calls for adapters."""
        return self.dataset.loader.adapter


class Batches(torch.utils.data.Dataset):
    """Batches of a loader, in the order of their numbers.

    A pass is an iteration over the sampler; the sampler's generator begins and ends it.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.number_of_pass: int = 0
        self.begin_pass()

    def begin_pass(self) -> int:
        """Begins a pass: the next batch is the first one of an iterator. Returns the number of the pass."""
        self._batches: Iterator[Any] | None = None
        self._next = 0
        self._has_failed = self._is_over = False
        self.number_of_pass += 1
        return self.number_of_pass

    def __len__(self) -> int:
        """Samples of an epoch on all ranks together, as of a DataLoader's data set: also those that `drop_last` leaves out."""
        return self.loader.adapter.epoch_samples

    def __getitems__(self, numbers: Sequence[int]) -> Any:
        number = numbers[0] // self.loader.batch_size
        if self._is_over:
            raise StopIteration  # Skipped samples have emptied the last batches.
        if self._has_failed:
            raise ClosedError("this pass over the DataLoader has ended with an error: start a new one with iter")
        if self._batches is None:
            first, adapter = self.loader.first_batch, self.loader.adapter
            is_placed = adapter.is_resumed
            # A library counts the batches that it got, the loader also those that skipped samples have emptied.
            is_ahead = first > number and adapter.may_lack_batches
            if number and is_placed and number != first and not is_ahead:
                raise ConfigError(
                    f"the library resumes at batch {number} of the epoch, but the loaded state is at batch {first}: resume with the "
                    "global batch size and the Skip of the checkpoint"
                )
            if number and not is_placed:
                adapter.seek(number)
            self._batches, self._next = iter(self.loader), number
        if number != self._next:
            raise ConfigError(
                f"batch {number} is asked for after batch {self._next - 1}: a library has put a different sampler into this DataLoader, "
                "but the loader's order is final and has only this rank's share"
            )
        self._next += 1
        try:
            return next(self._batches)
        except StopIteration:
            self._is_over = True
            raise
        except BaseException:
            # The library asks for the batch after this one, which would be left out. It may also keep the error, and the
            # error's traceback has this object.
            self._has_failed, self._batches = True, None
            raise

    def end_pass(self, number_of_pass: int) -> None:
        """Ends a pass, if no new one has begun. It may end before the last batch, and no more are made then."""
        if number_of_pass == self.number_of_pass:
            self._batches = None

    def __getitem__(self, number: int) -> Any:
        raise ConfigError("rows are delivered in batches: a library has replaced the batch sampler of this DataLoader")

    def finish(self) -> None:
        """Lets the loader see the end of the epoch, after which its state is the start of the next one."""
        if self._has_failed or self._is_over or self._batches is None and self.loader.first_batch < len(self.loader):
            return  # A batch is not delivered; or the numbers were read, and no batch.
        for _ in self._batches or self.loader:
            break

    def state_dict(self, num_samples: int | None = None, from_beginning: bool = True) -> dict[str, Any]:
        """Returns the loader's state, with the arguments of MosaicML streaming's data sets."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state_dict)


class _Numbers(DistributedSampler):
    """Numbers of the rows of an epoch, in order."""

    def __init__(self, batches: Batches) -> None:
        # Not the base's, which counts samples and asks for the process group.
        self._batches = batches
        self.dataset = batches
        self.shuffle, self.drop_last, self.epoch = False, True, 0
        self.resumes = False

    def __iter__(self) -> Iterator[int]:
        batches, loader = self._batches, self._batches.loader
        resumes, self.resumes = self.resumes, False
        this_pass = batches.begin_pass()
        try:
            for number in range(loader.first_batch * loader.batch_size if resumes else 0, len(self)):
                if batches.number_of_pass != this_pass:
                    raise ClosedError(
                        "a newer iterator over the DataLoader or its sampler ended this one: only one is alive at a time, so make a "
                        "Loader and a DataLoader for each loop, such as training and evaluation"
                    )
                yield number
            batches.finish()
        finally:
            batches.end_pass(this_pass)

    def __len__(self) -> int:
        return len(self._batches.loader) * self._batches.loader.batch_size

    def set_epoch(self, epoch: int) -> None:
        loader, frame = self._batches.loader, sys._getframe()
        if loop_of(frame) is not None:
            loader.batch_sampler.set_epoch(epoch)
        elif not counts_iterations(frame):
            loader.set_epoch(epoch)


def _same(batch: Any) -> Any:
    return batch
