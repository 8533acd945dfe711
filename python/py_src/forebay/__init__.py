"""Training-data loader that keeps accelerators busy.

    train = forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True,
                           fields={"x": forebay.Image("image", forebay.RandomResizedCrop(224)), "y":
                           forebay.Scalar("class")})
    for batch in train:
        batch["x"], batch["y"]
"""

from typing import TYPE_CHECKING, Any

from . import _mapping, errors, fields
from ._forebay import __version__
from .errors import *  # noqa: F403
from .fields import *  # noqa: F403
from .files import File, StoreOptions, list_files, load_files, load_lines, load_tars, remove_files
from .files import open as open  # noqa: A004
from ._groups import Engine, Fetch, Order, Pack, Select, Skip, TokenBatch, TokenWindow
from ._loader import Loader
from ._mapping import *  # noqa: F403
from ._samples import Sample
from ._shards import ShardReader, read_index
from ._streams import Stream
from ._world import World
from ._writer import MDSWriter

if TYPE_CHECKING:
    from . import operations
    from .operations import *  # noqa: F403

# `open` is not among them: it would replace Python's after an import of all names.
__all__ = [
    "Engine",
    "Fetch",
    "File",
    "Loader",
    "MDSWriter",
    "Order",
    "Pack",
    "Sample",
    "Select",
    "ShardReader",
    "Skip",
    "StoreOptions",
    "Stream",
    "TokenBatch",
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
# Type checkers read these sums, and no other form.
__all__ += _mapping.__all__
__all__ += errors.__all__
__all__ += fields.__all__
if TYPE_CHECKING:
    __all__ += operations.__all__
else:
    # The operations are a quarter of the time of an import, so the first use of one imports them, and so does the list
    # of all names.
    _names = __all__
    del __all__

    def __getattr__(name: str) -> Any:
        if name != "__all__" and name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        operations = import_module(".operations", __name__)
        found = {"__all__": _names + operations.__all__, "operations": operations}
        found |= {name: getattr(operations, name) for name in operations.__all__}
        globals().update(found)
        if name in found:
            return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
