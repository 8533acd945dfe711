"""Locks between processes and threads: on a folder, and on a shard's name in it.

A lock belongs to an open file. No lock file remains, the lock of a process that dies is released, and a forked child
does not keep it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator

from .format.index import get_index_basename

__all__ = ["LockableFile", "locked", "opened"]

# The engine's own locks use different bytes of an index (loader/src/cache/claim.rs).
_NAMES_BEGIN = 1 << 61


class LockableFile:
    """Open file or folder with locks. It is closed in forked children, which would otherwise keep its locks.

    Args:
        path: The file or folder.
        flags: As for `os.open`.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.file: int | None = os.open(path, flags | os.O_CLOEXEC)
        _open_files.add(self)

    def lock(self, operation: int, blocking: bool = True) -> bool:
        """Locks the whole file with fcntl.LOCK_EX or LOCK_SH; returns False if it is locked and `blocking` is unset."""
        assert self.file is not None
        try:
            fcntl.flock(self.file, operation | (0 if blocking else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def lock_byte(self, position: int, blocking: bool) -> bool:
        """Locks one byte of a file that is open for writing, exclusively; returns False as for `lock`."""
        assert self.file is not None
        try:
            fcntl.fcntl(
                self.file,
                fcntl.F_OFD_SETLKW if blocking else fcntl.F_OFD_SETLK,
                _lock_of_bytes(fcntl.F_WRLCK, position, 1),
            )
        except (BlockingIOError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Unlocks and closes it."""
        _open_files.discard(self)
        if self.file is None:
            return
        # Closing is not enough, because a child between its fork and `_close_in_child` has the same locks.
        with contextlib.suppress(OSError):
            fcntl.flock(self.file, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.file, fcntl.F_OFD_SETLK, _lock_of_bytes(fcntl.F_UNLCK, 0, 0))
        os.close(self.file)
        self.file = None


def _lock_of_bytes(kind: int, start: int, count: int) -> bytes:
    """Returns a `struct flock`; a `count` of 0 extends to the end."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, count, 0)


_open_files: set[LockableFile] = set()


def _close_in_child() -> None:
    for file in _open_files:
        if file.file is not None:
            os.close(file.file)
            file.file = None
    _open_files.clear()


os.register_at_fork(after_in_child=_close_in_child)


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[LockableFile]:
    """Opens a file or folder for locking."""
    file = LockableFile(path, flags)
    try:
        yield file
    finally:
        file.close()


@contextlib.contextmanager
def locked(folder: str, name: str | None, blocking: bool) -> Iterator[bool]:
    """Holds the lock of a name in a folder, or the lock of all its names. Makes the folder.

    Names are locked by bytes of the folder's index. Without a writable index the whole folder is locked instead.

    Args:
        folder: The folder.
        name: Name to lock. None: all.
        blocking: Wait for a lock that is held.

    Yields:
        True if the lock is held; always true with `blocking`.
    """
    os.makedirs(folder, exist_ok=True)
    with contextlib.ExitStack() as stack:
        whole = stack.enter_context(opened(folder, os.O_RDONLY | os.O_DIRECTORY))
        index = None
        if name is not None:
            with contextlib.suppress(OSError):
                index = stack.enter_context(opened(os.path.join(folder, get_index_basename()), os.O_RDWR))
        if name is not None and index is not None:
            # A lock of all names waits for this lock.
            if not _lock_if_possible(whole, fcntl.LOCK_SH, blocking):
                yield False
                return
            try:
                is_ours = index.lock_byte(_position(name), blocking)
            except OSError:
                # This system or file system has no such locks.
                pass
            else:
                yield is_ours
                return
        yield _lock_if_possible(whole, fcntl.LOCK_EX, blocking)


def _lock_if_possible(file: LockableFile, operation: int, blocking: bool) -> bool:
    """Locks a file as `LockableFile.lock`. Returns True, too, on a file system without locks (NFS with nolock, some FUSE)."""
    try:
        return file.lock(operation, blocking)
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return True


def _position(name: str) -> int:
    """Returns the byte of a name. Two names with the same byte share a lock, which is harmless."""
    return _NAMES_BEGIN + int.from_bytes(hashlib.blake2s(name.encode(), digest_size=7).digest(), "big")
