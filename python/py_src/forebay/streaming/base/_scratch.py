"""Folders for incomplete files in the system's temporary folder.

The owner of a folder holds a lock on it. A folder without a lock belongs to a killed process; the next process that
makes a folder removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator

from ._locks import LockableFile

__all__ = ["scratch_folder"]

_PREFIX = "forebay-scratch-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """Makes a folder and removes it at the end."""
    _remove_abandoned()
    pid = os.getpid()
    folder, lock = _new_folder()
    try:
        yield folder
    finally:
        # A forked child has the name too and must not remove the folder.
        if pid == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()


def _new_folder() -> tuple[str, LockableFile]:
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            lock = LockableFile(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            # A different process removed it as abandoned, see below.
            continue
        # Without locks no process can treat it as abandoned.
        with contextlib.suppress(OSError):
            lock.lock(fcntl.LOCK_EX)
        if os.path.exists(folder):
            return folder, lock
        lock.close()


def _remove_abandoned() -> None:
    for name in os.listdir(tempfile.gettempdir()):
        if not name.startswith(_PREFIX):
            continue
        folder = os.path.join(tempfile.gettempdir(), name)
        # Already removed, not a folder, or no locks on this file system.
        with contextlib.suppress(OSError):
            lock = LockableFile(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                is_ours = os.stat(folder, follow_symlinks=False).st_uid == os.getuid()
                if is_ours and lock.lock(fcntl.LOCK_EX, blocking=False):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                lock.close()
