"""Training-data loader that keeps accelerators busy.

    train = forebay.Loader(remote="s3://bucket/set", batch_size=256, shuffle=True,
                           fields={"x": forebay.Image("image", forebay.RandomResizedCrop(224)), "y":
                           forebay.Scalar("class")})
    for batch in train:
        batch["x"], batch["y"]
"""

from typing import TYPE_CHECKING, Any

from . import errors
from ._forebay import __version__
from .errors import *  # noqa: F403

if TYPE_CHECKING:
    from . import _mapping, adapter, fields, files, operations, remotes
    from ._groups import Engine, Fetch, Order, Pack, Select, Skip, TokenBatch, TokenWindow
    from ._loader import Loader
    from ._mapping import *  # noqa: F403
    from ._samples import Sample
    from ._shards import ShardReader, read_index
    from ._streams import Stream
    from ._world import World
    from ._writer import MDSWriter
    from .fields import *  # noqa: F403
    from .files import File, StoreOptions, list_files, load_files, load_lines, load_tars, remove_files
    from .files import open as open  # noqa: A004
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
__all__ += errors.__all__
if TYPE_CHECKING:
    __all__ += _mapping.__all__
    __all__ += fields.__all__
    __all__ += operations.__all__
else:
    # A module is imported with the first use of one of its names: a program needs few of them, and the spawned workers of one
    # none. The list of all names imports all.
    _names = __all__
    del __all__
    _MAPS = ("Map", "sample_generator")
    _MODULES = {
        "_groups": ("Engine", "Fetch", "Order", "Pack", "Select", "Skip", "TokenBatch", "TokenWindow"),
        "_loader": ("Loader",),
        "_mapping": _MAPS,
        "_samples": ("Sample",),
        "_shards": ("ShardReader", "read_index"),
        "_streams": ("Stream",),
        "_world": ("World",),
        "_writer": ("MDSWriter",),
        "files": ("File", "StoreOptions", "list_files", "load_files", "load_lines", "load_tars", "open", "remove_files"),
    }
    _PARTS = ("adapter", "fields", "files", "operations", "remotes")

    def _module(name: str) -> Any:
        from importlib import import_module

        return import_module(f".{name}", __name__)

    def __getattr__(name: str) -> Any:
        if name in _PARTS:
            return _module(name)
        for module, names in _MODULES.items():
            if name in names:
                globals()[name] = getattr(_module(module), name)
                return globals()[name]
        found = {}
        if name == "__all__" or not name.startswith("_"):
            # Operations import fields, and most programs need no operations.
            for module in map(_module, ("fields", "operations")):
                found |= {name: getattr(module, name) for name in module.__all__}
                if name in found:
                    break
            else:
                found["__all__"] = [*_names, *_MAPS, *found]
            globals().update(found)
        if name in found:
            return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__"), *_PARTS, "open"})
