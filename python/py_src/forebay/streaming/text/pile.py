"""The Pile."""

from ..base.dataset import StreamingDataset as StreamingDataset
from ._tokenised import TokenisedDataset

__all__ = ["StreamingPile"]


class StreamingPile(TokenisedDataset):
    """The Pile as `text.convert.pile` writes it; arguments as for `TokenisedDataset`."""
