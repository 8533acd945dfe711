"""Data set, its loader, the writers, and their modules."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .dataloader import StreamingDataLoader
    from .dataset import StreamingDataset
    from .format import CSVWriter, JSONWriter, MDSWriter, TSVWriter, XSVWriter
    from .local import LocalDataset
    from .stream import Stream

__all__ = [
    "CSVWriter",
    "JSONWriter",
    "LocalDataset",
    "MDSWriter",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "TSVWriter",
    "XSVWriter",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dataloader": ("StreamingDataLoader",),
        "dataset": ("StreamingDataset",),
        "format": ("CSVWriter", "JSONWriter", "MDSWriter", "TSVWriter", "XSVWriter"),
        "local": ("LocalDataset",),
        "stream": ("Stream",),
    },
)
