"""A named block of shared memory."""

from __future__ import annotations

import atexit
import contextlib
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory as BuiltinSharedMemory

__all__ = ["SharedMemory"]


class SharedMemory:
    """A block of shared memory that only its creator removes, without a resource tracker's warnings in the others.

    Args:
        name: Its name; None: a new one.
        create: Whether to make it (True), to open it (False), or to open it unless it can be made (None).
        size: Bytes, where it is made.
        auto_cleanup: Call `cleanup` when the process ends.

    Raises:
        FileExistsError: It was to be made and is there already.
        FileNotFoundError: It was to be opened and is not there.
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
            # This keeps the object, and with it the block, until somebody cleans up: its name is meant to outlive the
            # variable that it was made in.
            atexit.register(self.cleanup)

    @property
    def buf(self) -> memoryview:
        """The block's bytes; it may have more than were asked for."""
        return self.shm.buf

    def cleanup(self) -> None:
        """Closes the block, and removes it if this object made it. A second call does nothing."""
        atexit.unregister(self.cleanup)
        while self.opened_shms:
            self.opened_shms.pop().close()
        while self.created_shms:
            block = self.created_shms.pop()
            block.close()
            # Another process may have removed it.
            with contextlib.suppress(FileNotFoundError):
                block.unlink()


def _opened(name: str | None) -> BuiltinSharedMemory:
    block = BuiltinSharedMemory(name, False)
    # Whoever opens a block is taken for its owner by the tracker, which would remove it when this process ends.
    resource_tracker.unregister(block._name, "shared_memory")
    return block
