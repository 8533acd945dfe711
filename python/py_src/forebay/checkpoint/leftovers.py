"""Temporary files that killed processes have left in local folders.

A file of a local folder has a temporary name, which lists leave out, until it is complete. Its writer holds a lock of flock on
it, which ends with the process: one without a lock has no writer. Writers that have no lock, such as over SFTP, use different
names.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re

_TEMPORARY = re.compile(r"\.forebay-locked-[0-9a-f]{16}\.tmp")


def remove(folder: str, before: float | None = None) -> None:
    """Removes the temporary files without a writer below a folder of this machine, and the folders that held nothing else.

    Args:
        folder: Its path.
        before: Time in seconds since 1970; files that were changed later stay. None: none of them.
    """
    for base, _, names in os.walk(folder, topdown=False):
        if any([_remove(os.path.join(base, name), before) for name in names if _TEMPORARY.fullmatch(name)]) and base != folder:
            with contextlib.suppress(OSError):
                os.rmdir(base)


def _remove(file: str, before: float | None) -> bool:
    """Removes a file that is not in use, and returns true if it did."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Where a file system has no locks, all files stay.
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if before is not None and os.fstat(opened).st_mtime > before:
            return False
        os.remove(file)
        return True
    except OSError:
        return False
    finally:
        os.close(opened)
