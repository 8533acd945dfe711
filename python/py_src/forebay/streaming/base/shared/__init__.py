"""What several processes of one machine see at once.

`state` is what the copies of a data set share: memory without a name, handed from parent to child. The other modules are
for programs that use the reference's named objects themselves; nothing in this package does.
"""

from .array import SharedArray
from .barrier import SharedBarrier
from .memory import SharedMemory
from .prefix import _get_path, get_shm_prefix
from .scalar import SharedScalar

__all__ = ["SharedArray", "SharedBarrier", "SharedMemory", "SharedScalar", "_get_path", "get_shm_prefix"]
