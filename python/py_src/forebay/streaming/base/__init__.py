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

# All modules are attributes without a separate import, as in the reference.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "array": (),
        "batching": (),
        "compression": (),
        "constant": (),
        "dataloader": ("StreamingDataLoader",),
        "dataset": ("StreamingDataset",),
        "distributed": (),
        "format": ("CSVWriter", "JSONWriter", "MDSWriter", "TSVWriter", "XSVWriter"),
        "hashing": (),
        "local": ("LocalDataset",),
        "partition": (),
        "registry_utils": (),
        "sampling": (),
        "shared": (),
        "shuffle": (),
        "spanner": (),
        "storage": (),
        "stream": ("Stream",),
        "util": (),
        "world": (),
    },
)
