"""Marks of the saves that begin in a folder.

`begun.json` has the token of the save that began last, which alone may commit. A save compares it with its own token before it
commits, and again afterwards: a save that begins in between may remove the parts of the one before it, so that one must fail.
The commit is a conditional write: it replaces only the commit that was there at the first comparison, so that no save replaces
the checkpoint of a later one. A later save that has not committed yet is the gap that stays: the earlier one then replaces the
checkpoint before. So its parts are not removed until the later save has committed, if the folder was a checkpoint.

Saves that begin at the same time must not write to the same parts. So a save announces itself, by a file with its token in the
name, before it lists the folder, and withdraws that file after `begun.json` is written: of any two saves, one finds the file
of the second one.
"""

from __future__ import annotations

import json
import logging
import re

from ..errors import Error, NotFoundError
from ..files import StoreOptions, remove_files
from ..files import open as open_file
from .commit import FORMAT, VERSION

_log = logging.getLogger("forebay")

BEGUN = "begun.json"
"""Name of the file that marks a folder as the folder of a checkpoint, whole or not."""

_MARK = re.compile(r"begun(-[0-9a-f]+)?\.json")


def is_mark(name: str) -> bool:
    """Returns true for the name of a file that this module writes."""
    return _MARK.fullmatch(name) is not None


def name_of(token: str) -> str:
    """Returns the name of the file that announces the save with the token."""
    return f"begun-{token}.json"


def announce(url: str, token: str, store: StoreOptions | None) -> None:
    """Writes the file that the other saves to the folder `url` will find."""
    _write(f"{url}/{name_of(token)}", token, store)


def begin(url: str, token: str, store: StoreOptions | None) -> None:
    """Makes the save with the token the last one that has begun in the folder `url`."""
    _write(f"{url}/{BEGUN}", token, store)


def withdraw(url: str, token: str, store: StoreOptions | None) -> None:
    """Removes the file of `announce`. Where that fails it stays, and has no effect: a save needs no removals."""
    file = f"{url}/{name_of(token)}"
    try:
        remove_files([file], store=store)
    except Error as error:
        _log.warning("%s stays, because it cannot be removed: %s", file, error)


def token_of(url: str, store: StoreOptions | None) -> str | None:
    """Returns the token of the save that began last in the folder `url`; None if there is none."""
    try:
        with open_file(f"{url}/{BEGUN}", "rb", store=store) as file:
            text = file.read()
    except NotFoundError:
        return None
    try:
        return json.loads(text)["token"]
    except (KeyError, TypeError, ValueError):
        return None


def _write(file: str, token: str, store: StoreOptions | None) -> None:
    with open_file(file, "wb", store=store) as opened:
        opened.write(json.dumps({"format": FORMAT, "version": VERSION, "token": token}).encode())
