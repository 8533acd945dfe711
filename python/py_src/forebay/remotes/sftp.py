"""SFTP with paramiko: one connection per folder object.

Host keys are always checked. The key file, the known hosts and the password come from the environment and the address, as
in MosaicML streaming; keys of an agent and of `~/.ssh` are tried as well.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import shlex
import socket
import stat
import urllib.parse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .._forebay import redact
from ..errors import AccessError, ConfigError, Error, FullError, IoError, NetworkError, NotFoundError, StalledError, UnsupportedError
from .folder import RemoteFile, RemoteFolder, temporary_name

_PORT = 22

_KEY_FILE, _KNOWN_HOSTS = "COMPOSER_SFTP_KEY_FILE", "COMPOSER_SFTP_KNOWN_HOSTS_FILE"

# Bytes that are requested at once, in pieces of 32 KiB. They fill a connection of 1 Gbit/s at a latency of 32 ms.
_WINDOW_BYTES = 4 << 20

# Bytes of one read: paramiko joins the pieces of larger ones with many copies.
_READ_BYTES = 256 << 10


# Temporary files of attempts that have lost their connection, by server and path. The next attempt removes them.
_left: dict[tuple[Server, str], list[str]] = {}


@dataclass(frozen=True)
class Server:
    """A server, and the user to log in as."""

    host: str
    port: int = _PORT
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.host if self.port == _PORT else f"{self.host}, port {self.port}"


def _split(remote: str) -> tuple[Server, str]:
    """Returns the server and the path of an address."""
    shown = redact(remote)
    try:
        url = urllib.parse.urlsplit(remote)
        host, port = url.hostname, url.port
    except ValueError:
        raise ConfigError(f"{shown} has a wrong host or port: the form is sftp://user@host:port/folder") from None
    if not host:
        raise ConfigError(f"{shown} has no host: the form is sftp://user@host:port/folder")
    if url.query or url.fragment:
        raise ConfigError(f"{shown} has a query or a fragment: encode ? and # in a password as %3F and %23")
    decoded = [None if text is None else urllib.parse.unquote(text) for text in (url.username, url.password)]
    return Server(host, port or _PORT, *decoded), url.path or "/"


def check(remote: str) -> None:
    """Checks an address, and that paramiko is installed.

    Raises:
        UnsupportedError: paramiko is not installed.
        ConfigError: The address is wrong.
    """
    try:
        import paramiko  # noqa: F401
    except ImportError as error:
        raise UnsupportedError("sftp:// remotes need the package paramiko: pip install paramiko") from error
    _split(remote)


def connect(server: Server, timeout: float) -> Any:
    """Logs in to `server`, with `timeout` seconds for each step; returns paramiko's `SSHClient`.

    Raises:
        AccessError: The server's key is unknown or has changed, or it rejects the login.
        ConfigError: The key file does not exist.
        NetworkError, StalledError: There is no connection.
    """
    from paramiko import SSHClient

    key_file, known_hosts = os.environ.get(_KEY_FILE), os.environ.get(_KNOWN_HOSTS)
    for name, path in ((_KEY_FILE, key_file), (_KNOWN_HOSTS, known_hosts)):
        if path is not None and not os.path.isfile(path):
            raise ConfigError(f"{name} is {path}, which does not exist: correct or unset it")
    client = SSHClient()
    try:
        # The policy for hosts that are not in the file is paramiko's default, to reject them.
        client.load_system_host_keys(known_hosts)
        client.connect(
            hostname=server.host,
            port=server.port,
            username=server.user,
            password=server.password,
            key_filename=key_file,
            timeout=timeout,
            banner_timeout=timeout,
            auth_timeout=timeout,
            channel_timeout=timeout,
        )
    except BaseException as error:
        client.close()
        explained = _explained(error, server)
        if explained is None:
            raise
        raise explained from error
    return client


def _explained(error: BaseException, server: Server) -> Error | None:
    """Returns the error of a failed login with the change that helps; None for a different kind of error."""
    from paramiko import ssh_exception

    hosts = os.environ.get(_KNOWN_HOSTS) or "~/.ssh/known_hosts"
    hosts = hosts if hosts.startswith("~") else shlex.quote(hosts)
    port = "" if server.port == _PORT else f"-p {server.port} "
    user = "this machine's user" if server.user is None else "the user in the address"
    if isinstance(error, ssh_exception.BadHostKeyException):
        name = server.host if server.port == _PORT else f"[{server.host}]:{server.port}"
        return AccessError(
            f"the key of {server} is not the one in {hosts}: this may be a different machine. If the server has a new key, remove the "
            f"old one with `ssh-keygen -R {shlex.quote(name)} -f {hosts}`"
        )
    if isinstance(error, ssh_exception.SSHException) and "not found in known_hosts" in str(error):
        return AccessError(
            f"{server} is not a known host: compare its key with the one that its administrator has, and add it with "
            f"`ssh-keyscan {port}{server.host} >> {hosts}`. {_KNOWN_HOSTS} names a different file"
        )
    if isinstance(error, ssh_exception.PasswordRequiredException):
        return AccessError(f"a private key has a pass phrase: add the key to an agent with ssh-add, or name a different one in {_KEY_FILE}")
    if isinstance(error, ssh_exception.AuthenticationException) or "No authentication methods" in str(error):
        given = "with the password in the address, " if server.password is not None else ""
        key = f"the key in {os.environ[_KEY_FILE]}" if _KEY_FILE in os.environ else "the keys of the agent and of ~/.ssh"
        return AccessError(
            f"{server} rejects the login of {user} {given}with {key}: name a user and a password in the address, as in "
            f"sftp://user:password@host/folder, or a private key in {_KEY_FILE}"
        )
    if isinstance(error, socket.gaierror):
        return NetworkError(f"there is no host {server.host}: check the address, and this machine's name servers ({error.strerror})")
    if isinstance(error, TimeoutError):
        return StalledError(f"{server} does not answer: check host and port, and the firewalls in between")
    if isinstance(error, (ConnectionRefusedError, ssh_exception.NoValidConnectionsError)):
        return NetworkError(f"{server} does not accept connections: check the port, and that its SSH server runs ({error})")
    if isinstance(error, (OSError, EOFError, ssh_exception.SSHException)):
        return NetworkError(f"the connection to {server} failed: {error or type(error).__name__}")
    return None


class SftpFolder(RemoteFolder):
    """Folder on an SFTP server, over paramiko's `SSHClient`, which is logged in.

    An operation fails after `timeout` seconds without an answer.
    """

    def __init__(self, client: Any, path: str, server: Server, timeout: float) -> None:
        self._client, self._path, self._server = client, path.rstrip("/") or "/", server
        with self._explained("the server's SFTP service cannot be opened"):
            self._sftp = client.open_sftp()
            self._sftp.get_channel().settimeout(timeout)

    def _of(self, key: str) -> str:
        return posixpath.join(self._path, key)

    @contextlib.contextmanager
    def _explained(self, action: str, path: str | None = None) -> Iterator[None]:
        """Raises errors of the operation inside with the path and the change that helps."""
        from paramiko import SSHException

        try:
            yield
        except Error:
            raise
        except FileNotFoundError as error:
            raise NotFoundError(f"{action}: {path} does not exist on {self._server}") from error
        except PermissionError as error:
            raise AccessError(f"{action}: the server denies access to {path}: check its owner and mode on {self._server}") from error
        except TimeoutError as error:
            raise StalledError(f"{action}: {self._server} does not answer") from error
        except OSError as error:
            if error.errno is None and not isinstance(error, ConnectionError) and str(error) != "Socket is closed":
                # A status of the server without a number: OpenSSH has none for a full disk.
                raise IoError(f'{action}: the server reports "{error}" for {path}') from error
            raise NetworkError(f"{action}: the connection to {self._server} was lost ({error})") from error
        except (EOFError, SSHException) as error:
            reason = f" ({error})" if str(error) else ""
            raise NetworkError(f"{action}: the connection to {self._server} was lost{reason}") from error

    def stat(self, key: str) -> RemoteFile | None:
        path = self._of(key)
        try:
            with self._explained("a file cannot be read", path):
                found = self._sftp.stat(path)
        except NotFoundError:
            return None
        if stat.S_ISDIR(found.st_mode or 0):
            return None
        return RemoteFile(key, found.st_size, f"{found.st_mtime}-{found.st_size}")

    def get(self, key: str, start: int) -> Iterator[bytes]:
        path = self._of(key)
        with self._explained("a file cannot be read", path), self._sftp.open(path, "rb") as file:
            end = file.stat().st_size
            while start < end:
                # A window at a time: paramiko would keep all that arrives in memory.
                window_end = min(start + _WINDOW_BYTES, end)
                file.seek(start)
                file.prefetch(window_end)
                while start < window_end:
                    data = file.read(min(_READ_BYTES, window_end - start))
                    if not data:
                        # A lost connection is the end of the file for paramiko.
                        raise EOFError(f"byte {start} of {end}")
                    start += len(data)
                    yield data

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        path = self._of(key)
        temporary = temporary_name(path)
        self._make_folders(posixpath.dirname(path))
        try:
            with self._explained("a file cannot be written", path):
                size = 0
                with self._sftp.open(temporary, "wb") as file:
                    file.set_pipelined(True)
                    for piece in pieces:
                        file.write(piece)
                        size += len(piece)
                # The answers to the last writes are not waited for.
                stored = self._sftp.stat(temporary).st_size
                if stored != size:
                    message = f"the server has stored {stored} bytes of {size}: its disk or the user's quota may be full"
                    raise FullError(f"a file cannot be written: {message} (path {path})")
                self._rename(temporary, path)
                for older in _left.pop((self._server, path), ()):
                    with contextlib.suppress(FileNotFoundError):
                        self._sftp.remove(older)
        except BaseException as error:
            try:
                self._sftp.remove(temporary)
            except FileNotFoundError:
                pass
            except Exception:  # noqa: BLE001: the first error counts
                _left.setdefault((self._server, path), []).append(temporary)
            if isinstance(error, IoError):
                raise FullError(f"{error}; its disk or the user's quota may be full") from error
            raise

    def _rename(self, temporary: str, path: str) -> None:
        try:
            self._sftp.posix_rename(temporary, path)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno is not None:
                raise
            # A server without OpenSSH's extension does not replace files.
            with contextlib.suppress(FileNotFoundError):
                self._sftp.remove(path)
            self._sftp.rename(temporary, path)

    def _make_folders(self, folder: str) -> None:
        missing = []
        while folder not in ("", "/") and not self._exists(folder):
            missing.append(folder)
            folder = posixpath.dirname(folder)
        for name in reversed(missing):
            try:
                with self._explained("a folder cannot be made", name):
                    self._sftp.mkdir(name)
            except Error:
                # A second thread may have made it.
                if not self._exists(name):
                    raise

    def _exists(self, path: str) -> bool:
        try:
            with self._explained("a folder cannot be read", path):
                self._sftp.stat(path)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str) -> Iterator[RemoteFile]:
        with contextlib.suppress(NotFoundError):
            yield from self._walk(posixpath.dirname(prefix))

    def _walk(self, key: str) -> Iterator[RemoteFile]:
        path = self._of(key)
        with self._explained("a folder cannot be listed", path):
            found = self._sftp.listdir_attr(path)
        for attributes in sorted(found, key=lambda attributes: attributes.filename):
            name = posixpath.join(key, attributes.filename)
            mode, size = attributes.st_mode or 0, attributes.st_size
            if stat.S_ISDIR(mode):
                try:
                    yield from self._walk(name)
                except NotFoundError as error:
                    # It may have been removed: a new attempt does not find it in its folder.
                    raise NetworkError(str(error)) from error
            elif stat.S_ISLNK(mode):
                # A link to a folder is not followed: it may lead back.
                entry = self.stat(name)
                yield entry or RemoteFile(name, 0)
            else:
                yield RemoteFile(name, size or 0)

    def delete(self, key: str) -> None:
        path = self._of(key)
        with contextlib.suppress(NotFoundError), self._explained("a file cannot be removed", path):
            self._sftp.remove(path)

    def close(self) -> None:
        self._client.close()


def open_folder(remote: str, timeout: float) -> SftpFolder:
    """Opens a folder on an SFTP server: `sftp://user:password@host:port/path`. User and password may be percent-encoded."""
    server, path = _split(remote)
    client = connect(server, timeout)
    try:
        return SftpFolder(client, path, server, timeout)
    except BaseException:
        client.close()
        raise
