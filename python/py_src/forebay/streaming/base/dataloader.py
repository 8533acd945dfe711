"""A DataLoader that knows how far it has come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from .dataset import StreamingDataset

__all__ = ["StreamingDataLoader"]


class StreamingDataLoader(DataLoader):
    """torch's DataLoader, with checkpoints in the middle of an epoch.

    Takes the arguments of `torch.utils.data.DataLoader`. A batch that a `collate_fn` of one's own returns must be a
    mapping, a tensor, or a sequence, with the samples along the first axis of the whole or of its first part.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.num_samples_yielded = 0

    def _get_batch_size(self, batch: Any) -> int:
        """Samples of a batch.

        Raises:
            ValueError: It is an empty mapping.
        """
        # transformers' batches are mappings as well: there is no need to import it.
        if isinstance(batch, Mapping) or hasattr(batch, "data") and isinstance(batch.data, Mapping):
            for value in batch.values():
                return len(value)
            raise ValueError("Batch is empty: the samples in it cannot be counted")
        if isinstance(batch, Tensor):
            return len(batch)
        return len(batch[0])

    def __iter__(self) -> Iterator[Any]:
        """Batches; those that were yielded count for `state_dict`."""
        self.num_samples_yielded = 0
        for batch in super().__iter__():
            self.num_samples_yielded += self._get_batch_size(batch)
            yield batch

    def state_dict(self) -> dict[str, Any] | None:
        """Where the loader stands, for `load_state_dict` in a later run; None if the data set is no StreamingDataset.

        The figures are those of all ranks, which have yielded equally many samples when they call this together. It is
        enough to save those of one rank.
        """
        if not isinstance(self.dataset, StreamingDataset):
            return None
        # Ranks that replicate each other have yielded the same samples.
        ranks = self.dataset._unique_rank_world.num_ranks
        num_samples = self.num_samples_yielded * ranks // (self.dataset.replication or 1)
        return self.dataset.state_dict(num_samples, False)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Makes the next iteration go on where `obj` was taken. The number of ranks may be another one."""
        if isinstance(self.dataset, StreamingDataset):
            self.dataset.load_state_dict(obj)

    def __del__(self) -> None:
        # An iteration that was left early still has its workers.
        if getattr(self, "_iterator", None) is not None:
            self._iterator._shutdown_workers()
