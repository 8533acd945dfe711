"""Training-data loader that keeps accelerators busy.

    train = forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True,
                           fields={"x": forebay.Image("image", forebay.RandomResizedCrop(224)), "y":
                           forebay.Scalar("class")})
    for batch in train:
        batch["x"], batch["y"]
"""

from ._forebay import __version__
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .fields import *  # noqa: F403
from .fields import __all__ as _fields
from .files import File, StoreOptions, list_files, load_files, load_lines, load_tars, open, remove_files  # noqa: A004
from .groups import Engine, Fetch, Order, Select, Skip, TokenWindow
from .loader import Loader
from .mapping import *  # noqa: F403
from .mapping import __all__ as _mapping
from .operations import *  # noqa: F403
from .operations import __all__ as _operations
from .samples import Sample
from .shards import ShardReader, read_index
from .streams import Stream
from .world import World
from .writer import MDSWriter

# `open` is not among them: it would replace Python's after an import of all names.
__all__ = [
    *_errors,
    *_fields,
    *_mapping,
    *_operations,
    "Engine",
    "Fetch",
    "File",
    "Loader",
    "MDSWriter",
    "Order",
    "Sample",
    "Select",
    "ShardReader",
    "Skip",
    "StoreOptions",
    "Stream",
    "TokenWindow",
    "World",
    "__version__",
    "list_files",
    "load_files",
    "load_lines",
    "load_tars",
    "read_index",
    "remove_files",
]
