"""Remotes of schemes that the engine has no transport for: `sftp://`, fsspec's, and a program's own.

    forebay.remotes.register("tape", lambda url, timeout: TapeFolder(url))
    forebay.Loader(remote="tape://archive/train", local="/cache/train", batch_size=256)

A `RemoteFolder` makes single exchanges: the bytes of a file from a position on, its size, and for writers also `put`, `list`
and `delete`. Attempts, time limits, resuming, checks and the cache are the engine's, as for all schemes.

* `folder`: `RemoteFolder`, the interface;
* `sftp`: SFTP with paramiko; `filesystems`: every scheme that fsspec has a file system for;
* `schemes`: the choice by scheme, `library_stores`, which `Loader`, `verify` and `MDSWriter` call, and `served` for `files`;
* `service`: the threads that make the exchanges.
"""

from .folder import RemoteFile, RemoteFolder
from .schemes import Opener, library_stores, open_folder, register, served, serves

__all__ = ["Opener", "RemoteFile", "RemoteFolder", "library_stores", "open_folder", "register", "served", "serves"]
