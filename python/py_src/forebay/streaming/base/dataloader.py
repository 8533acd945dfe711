"""DataLoader with checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from ._batches import Packer, Slots
from .dataset import StreamingDataset
from .world import World as World

__all__ = ["StreamingDataLoader"]


class StreamingDataLoader(DataLoader):
    """torch's DataLoader, with checkpoints in the middle of an epoch.

    It has the arguments of `torch.utils.data.DataLoader`. A custom `collate_fn` must return a mapping, a tensor or a
    sequence, with the samples along the first axis of the whole or of its first item.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_samples_yielded = 0

    def _get_batch_size(self, batch: Any) -> int:
        """Returns the number of samples of a batch.

        Raises:
            ValueError: The batch is an empty mapping.
        """
        # Batches of transformers are mappings too, so no import is needed.
        if isinstance(batch, Mapping) or hasattr(batch, "data") and isinstance(batch.data, Mapping):
            for value in batch.values():
                return len(value)
            raise ValueError("Batch is empty: the samples in it cannot be counted")
        if isinstance(batch, Tensor):
            return len(batch)
        return len(batch[0])

    def _get_iterator(self) -> Any:
        """Makes torch's iterator, with workers that hand over batches in slots."""
        if self.num_workers == 0:
            return super()._get_iterator()
        slots, collate_fn = Slots(), self.collate_fn
        self.collate_fn = Packer(collate_fn, slots, self.prefetch_factor or 1)
        try:
            iterator = super()._get_iterator()
        finally:
            self.collate_fn = collate_fn
        # They live as long as the iterator.
        iterator._slots, slots.workers = slots, iterator._workers
        return iterator

    def __iter__(self) -> Iterator[Any]:
        """Yields batches, and counts them for `state_dict`."""
        self.num_samples_yielded = 0
        for batch in super().__iter__():
            self.num_samples_yielded += self._get_batch_size(batch)
            yield batch

    def state_dict(self) -> dict[str, Any] | None:
        """Returns the position for `load_state_dict` in a later run; None if the data set is not a StreamingDataset.

        The figures are for all ranks, which have yielded equally many samples when they call this together. Saving the
        state of one rank is enough.
        """
        if not isinstance(self.dataset, StreamingDataset):
            return None
        # Replicated ranks have yielded the same samples.
        ranks = self.dataset._unique_rank_world.num_ranks
        num_samples = self.num_samples_yielded * ranks // (self.dataset.replication or 1)
        return self.dataset.state_dict(num_samples, False)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Makes the next iteration resume the position of `obj`. The number of ranks may differ."""
        if isinstance(self.dataset, StreamingDataset):
            self.dataset.load_state_dict(obj)

    def __del__(self) -> None:
        # An iteration that was ended early still has its workers.
        if getattr(self, "_iterator", None) is not None:
            self._iterator._shutdown_workers()
