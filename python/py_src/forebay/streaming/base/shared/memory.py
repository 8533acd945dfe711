"""Named block of shared memory."""

from __future__ import annotations

import atexit
import contextlib
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory as BuiltinSharedMemory

__all__ = ["SharedMemory"]


class SharedMemory:
    """Block of shared memory that only its creator removes, without warnings of resource trackers in other processes.

    Args:
        name: Name. None: a new one.
        create: True: make the block. False: open it. None: make it, or open it if it exists.
        size: Bytes of a new block.
        auto_cleanup: Call `cleanup` when the process ends.

    Raises:
        FileExistsError: The block to make exists already.
        FileNotFoundError: The block to open does not exist.
    """

    def __init__(
        self, name: str | None = None, create: bool | None = None, size: int = 0, auto_cleanup: bool = True
    ) -> None:
        self.created_shms: list[BuiltinSharedMemory] = []
        self.opened_shms: list[BuiltinSharedMemory] = []
        if create is not False:
            try:
                self.created_shms.append(BuiltinSharedMemory(name, True, size))
            except FileExistsError:
                if create:
                    raise
        if not self.created_shms:
            self.opened_shms.append(_opened(name))
        self.shm = (self.created_shms + self.opened_shms)[0]
        if auto_cleanup:
            # The exit handler keeps the object and the block alive until `cleanup`, because the name must outlive the
            # variable.
            atexit.register(self.cleanup)

    @property
    def buf(self) -> memoryview:
        """Bytes of the block, which may be larger than requested."""
        return self.shm.buf

    def cleanup(self) -> None:
        """Closes the block, and removes it if this object made it. A second call does nothing."""
        atexit.unregister(self.cleanup)
        while self.opened_shms:
            self.opened_shms.pop().close()
        while self.created_shms:
            block = self.created_shms.pop()
            block.close()
            # A different process may have removed the block.
            with contextlib.suppress(FileNotFoundError):
                block.unlink()


def _opened(name: str | None) -> BuiltinSharedMemory:
    block = BuiltinSharedMemory(name, False)
    # The tracker treats every opener as an owner and would remove the block at the end of this process.
    resource_tracker.unregister(block._name, "shared_memory")
    return block
