"""MosaicML `streaming` on forebay's engine.

Names, arguments, formats, order and errors are the same. A program changes its import, or only imports
`forebay.streaming.alias` first. The module tree is the reference's:

    base/          base of the remaining modules
      partition, shuffle, sampling, batching   the order: the engine's, as numpy arrays
      spanner, array, world                    lookup of samples, indexing, rank of this process
      format/      mds, json, xsv: encodings, readers, writers
      compression, hashing                     the engine's
      storage/     uploads and downloads by scheme
      shared/, stream, dataset, dataloader     StreamingDataset and the state that its processes share
      local, converters, util, registry_utils
    text/, vision/, multimodal/                data set classes, and converters that write them
    alias          `import streaming` means this package

Large libraries are imported at first use.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy
from ._version import __version__

if TYPE_CHECKING:
    from . import multimodal, text, vision
    from .base import (
        CSVWriter,
        JSONWriter,
        LocalDataset,
        MDSWriter,
        Stream,
        StreamingDataLoader,
        StreamingDataset,
        TSVWriter,
        XSVWriter,
    )

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
    "__version__",
    "multimodal",
    "text",
    "vision",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "base": (
            "CSVWriter",
            "JSONWriter",
            "LocalDataset",
            "MDSWriter",
            "Stream",
            "StreamingDataLoader",
            "StreamingDataset",
            "TSVWriter",
            "XSVWriter",
        ),
        "multimodal": (),
        "text": (),
        "vision": (),
    },
)
