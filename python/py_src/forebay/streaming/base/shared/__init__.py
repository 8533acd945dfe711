"""State that processes of one machine share.

`state` is shared by the copies of a data set: unnamed memory that a child gets from its parent. The remaining modules are
the reference's named objects, for programs that use them directly; this package does not.
"""

from .array import SharedArray
from .barrier import SharedBarrier
from .memory import SharedMemory
from .prefix import _get_path, get_shm_prefix
from .scalar import SharedScalar

__all__ = ["SharedArray", "SharedBarrier", "SharedMemory", "SharedScalar", "_get_path", "get_shm_prefix"]
