"""Schemes of `forebay.remotes`: the schemes of fsspec, and a program's own."""

from __future__ import annotations

from typing import Any

from ....errors import NotFoundError
from ....remotes import RemoteFolder, open_folder
from ._downloader import CloudDownloader, whole_file

__all__ = ["RemotesDownloader"]


class RemotesDownloader(CloudDownloader):
    """Fetches the files of remote folders."""

    def __init__(self) -> None:
        self._folders: dict[str, RemoteFolder] = {}

    @staticmethod
    def _client_identifier() -> Any:
        """Returns None: it is not the downloader of one scheme."""
        return None

    def _validate_remote_path(self, remote: str) -> None:
        pass

    def clean_up(self) -> None:
        folders = list(self._folders.values())
        self._folders.clear()
        for folder in folders:
            folder.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"_folders": {}}

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        address, name = remote.rsplit("/", 1)
        folder = self._folders.get(address)
        if folder is None:
            folder = self._folders[address] = open_folder(address, timeout)
        if folder.stat(name) is None:
            raise NotFoundError(f"there is no file {name} in the remote folder")
        with whole_file(local) as path, open(path, "wb") as file:
            for piece in folder.get(name, 0):
                file.write(piece)
