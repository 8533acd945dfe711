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
from .loader import Loader
from .shards import ShardReader, read_index
from .streams import Stream
from .world import World
from .writer import MDSWriter

__all__ = [*_errors, *_fields, "Loader", "MDSWriter", "ShardReader", "Stream", "World", "__version__", "read_index"]
