"""Facts about a loader, and calls, for adapters of trainers and libraries."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _forebay

if TYPE_CHECKING:
    from ._convert import Batch
    from ._epoch import Epoch

__all__ = ["Adapter", "Rest"]


class Rest(NamedTuple):
    """Batches of a loader in the epoch of the trainer that begins."""

    length: int
    """Batches of a whole epoch."""
    left: int
    """Batches after the loaded position. 0 also for a loader that has delivered all of them, and is iterated again in this epoch."""
    may_lack: bool
    """Skipped samples may empty whole batches, which Lightning does not count."""


@dataclass(eq=False, repr=False)
class Adapter:
    """Facts about a loader, and calls, for adapters of trainers and libraries: `loader.adapter`.

    The package's own integrations use nothing else beyond the loader's methods.
    """

    _begin: Callable[[], Epoch]
    _session: _forebay.Session
    _engine: _forebay.Engine
    """The engine of the first device."""
    _batch: Batch
    samples_per_step: int
    """Samples of a batch on all devices of all ranks together."""
    is_plain: bool
    """The outputs of a batch are the engine's: there is neither a `map` nor a `transform`."""
    is_transformed: bool
    """There is a `transform`."""
    has_one_device: bool
    """A step has one batch, and not a list of the devices' batches."""
    may_lack_batches: bool
    """Skipped samples may empty whole batches, so that an epoch has fewer than `len`."""
    epochs_differ: bool
    """Documents are packed, so that epochs differ in their numbers of batches. `len` is the number of the current one."""

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs of a batch. Empty: they are not known before the first batch."""
        return self._batch.outputs() if self.is_plain else []

    @property
    def has_full_batches(self) -> bool:
        """True if each batch has `batch_size` rows, before `transform`."""
        return self._batch.is_full

    @property
    def has_fixed_shapes(self) -> bool:
        """True if each batch has `batch_size` rows, also after `transform`."""
        return self._batch.is_full and not self.is_transformed

    @property
    def sample_rows(self) -> int:
        """Rows of a batch for each sample: 2 for the conversations of a preference pair."""
        return 2 if self._batch.padding is not None and self._batch.padding.pairs else 1

    @property
    def padded(self) -> Collection[str]:
        """Names of the outputs that are padded: their length differs between batches."""
        return () if self._batch.padding is None else self._batch.padding.names

    @property
    def epoch_samples(self) -> int:
        """Samples of an epoch on all ranks together, also those that `drop_last` leaves out."""
        return self._engine.epoch_samples()

    @property
    def is_resumed(self) -> bool:
        """True if the next `iter` begins within an epoch."""
        return self._session.first_sample > 0

    def peek(self) -> Any:
        """Returns the batch that the next `iter` starts with. It does not count in `state_dict` and `epoch` before that.

        Raises:
            StopIteration: The loaded state is the end of an epoch.
        """
        return self._begin().peek()

    def seek(self, batch: int) -> None:
        """Makes the next `iter` start with batch number `batch` of its epoch, without reading those before it."""
        self._session.seek(batch)

    def rest_of_trainer_epoch(self, epoch: int) -> Rest | None:
        """Returns the batches that this loader has in an epoch of the trainer from the loaded position on. None: no state was loaded."""
        left = self._session.rest_of_trainer_epoch(epoch)
        return None if left is None else Rest(self._engine.batches(), left, self.may_lack_batches)

    def end_trainer_epoch(self) -> None:
        """Makes the next `iter` deliver no batch, so that the trainer begins its next epoch."""
        self._session.end_trainer_epoch()
