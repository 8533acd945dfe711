"""SFTP with paramiko. A downloader uses one server."""

from __future__ import annotations

import urllib.parse
from typing import Any

from ...._forebay import redact
from ....remotes.sftp import Server, connect
from ..constant import DEFAULT_TIMEOUT
from ._downloader import CloudDownloader, whole_file

__all__ = ["SFTPDownloader"]

_PORT = 22


class SFTPDownloader(CloudDownloader):
    """Fetches over SFTP. COMPOSER_SFTP_KEY_FILE names a private key, COMPOSER_SFTP_KNOWN_HOSTS_FILE the trusted
    servers."""

    def __init__(self) -> None:
        self._ssh_client: Any = None
        self._server: Server | None = None
        self._timeout: float = DEFAULT_TIMEOUT

    @staticmethod
    def _client_identifier() -> str:
        return "sftp"

    def clean_up(self) -> None:
        if self._ssh_client is not None:
            self._ssh_client.close()
            self._ssh_client = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_ssh_client": None}

    def _validate_remote_path(self, remote: str) -> None:
        super()._validate_remote_path(remote)
        url = urllib.parse.urlsplit(remote)
        if url.hostname is None:
            raise ValueError("If specifying a URI, the URI must include the hostname.")
        if url.query or url.fragment:
            raise ValueError("Query and fragment parameters are not supported as part of a URI.")
        server = Server(url.hostname, url.port or _PORT, url.username, url.password)
        self._server = self._server or server
        if server != self._server:
            raise ValueError(f"{redact(remote)} is on a different server, or belongs to a different user, than the files before it")

    def _create_ssh_client(self, url: urllib.parse.SplitResult) -> None:
        server = Server(url.hostname or "", url.port or _PORT, url.username, url.password)
        self._ssh_client = connect(server, self._timeout)

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        url = urllib.parse.urlsplit(remote)
        if self._ssh_client is None:
            self._timeout = timeout
            self._create_ssh_client(url)
        with whole_file(local) as path, self._ssh_client.open_sftp() as sftp:
            sftp.get(remotepath=url.path, localpath=path)
