"""The Colossal Clean Crawled Corpus."""

from ..base.dataset import StreamingDataset as StreamingDataset
from ._tokenised import TokenisedDataset

__all__ = ["StreamingC4"]


class StreamingC4(TokenisedDataset):
    """The Colossal Clean Crawled Corpus as `text.convert.c4` writes it; arguments as for `TokenisedDataset`."""
