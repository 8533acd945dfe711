"""An SFTP server on this machine, with the faults that a test sets."""

import contextlib
import os
import socket
import threading

import pytest

import forebay as fb

COUNT = 400
"""Samples of the data set on the server."""

USER, PASSWORD = "me", "gEhEiM"


def write_numbers(out, **kwargs):
    """Writes the numbers below `COUNT` in several shards."""
    with fb.MDSWriter(out=out, columns={"number": "int"}, hashes=["xxh64"], size_limit=1 << 9, **kwargs) as writer:
        for number in range(COUNT):
            writer.write({"number": number})


class SftpServer:
    """Server of `folder` for the user me.

    Its faults: `cut_after`, a limit of the bytes of all files together, at which the connection in use is closed, once;
    `cut_at`, an offset in a file, at which a read closes the connection, once; `is_full`, for writes; `denied`, names of files
    without access; `gone`, names of folders that appear empty in one listing each; and `lacks_replace`, for servers that are
    not OpenSSH's.
    """

    def __init__(self, folder):
        self.folder = str(folder)
        self.lock = threading.Lock()
        self.cut_after, self.cut_at, self.is_full, self.denied, self.lacks_replace = None, None, False, (), False
        self.gone = []
        self.logins, self.bytes, self.reads = 0, 0, []
        self.transports = []

    def url(self, path="", password=PASSWORD, user=USER):
        return f"sftp://{user}:{password}@127.0.0.1:{self.port}/{path}"

    @property
    def known(self):
        """Line of a file of known hosts."""
        return f"[127.0.0.1]:{self.port} {self.key.get_name()} {self.key.get_base64()}\n"

    def disconnect(self):
        """Closes all connections."""
        with self.lock:
            transports, self.transports = self.transports, []
        for transport in transports:
            transport.close()

    def count(self, transport, size):
        """Counts content of files; closes the connection if that is the fault."""
        with self.lock:
            self.bytes += size
            is_cut = self.cut_after is not None and self.bytes > self.cut_after
            if is_cut:
                self.cut_after = None
        if is_cut:
            transport.close()


def _interfaces(paramiko, server):
    class Access(paramiko.ServerInterface):
        def check_auth_password(self, username, password):
            if (username, password) != (USER, PASSWORD):
                return paramiko.AUTH_FAILED
            with server.lock:
                server.logins += 1
            return paramiko.AUTH_SUCCESSFUL

        def check_channel_request(self, kind, number):
            return paramiko.OPEN_SUCCEEDED

    class Handle(paramiko.SFTPHandle):
        def __init__(self, file, name, transport):
            super().__init__()
            self.file, self.name, self.transport = file, name, transport

        def read(self, offset, length):
            data = os.pread(self.file, length, offset)
            with server.lock:
                server.reads.append((self.transport, self.name, offset))
                is_cut = server.cut_at is not None and offset >= server.cut_at
                if is_cut:
                    server.cut_at = None
            if is_cut:
                self.transport.close()
            server.count(self.transport, len(data))
            return data

        def write(self, offset, data):
            if server.is_full:
                return paramiko.SFTP_FAILURE
            os.pwrite(self.file, data, offset)
            server.count(self.transport, len(data))
            return paramiko.SFTP_OK

        def stat(self):
            return paramiko.SFTPAttributes.from_stat(os.fstat(self.file))

        def close(self):
            os.close(self.file)

    class Files(paramiko.SFTPServerInterface):
        def __init__(self, access, *args, transport, **kwargs):
            self.transport = transport

        def _do(self, path, action):
            try:
                if os.path.basename(path) in server.denied:
                    raise PermissionError(13, "denied")
                return action(server.folder + path)
            except OSError as error:
                return paramiko.SFTPServer.convert_errno(error.errno)

        def stat(self, path):
            return self._do(path, lambda path: paramiko.SFTPAttributes.from_stat(os.stat(path)))

        def lstat(self, path):
            return self._do(path, lambda path: paramiko.SFTPAttributes.from_stat(os.lstat(path)))

        def list_folder(self, path):
            def found(path):
                if (name := os.path.basename(path)) in server.gone:
                    server.gone.remove(name)
                    raise FileNotFoundError(2, "gone")
                return [paramiko.SFTPAttributes.from_stat(entry.stat(), entry.name) for entry in os.scandir(path)]

            return self._do(path, found)

        def open(self, path, flags, attributes):
            def opened(path):
                return Handle(os.open(path, flags, 0o644), os.path.basename(path), self.transport)

            return self._do(path, opened)

        def _ok(self, path, action):
            done = self._do(path, action)
            return paramiko.SFTP_OK if done is None else done

        def remove(self, path):
            return self._ok(path, os.remove)

        def mkdir(self, path, attributes):
            return self._ok(path, os.mkdir)

        def rename(self, old, new):
            if os.path.exists(server.folder + new):
                return paramiko.SFTP_FAILURE
            return self._ok(old, lambda path: os.rename(path, server.folder + new))

        def posix_rename(self, old, new):
            if server.lacks_replace:
                return paramiko.SFTP_OP_UNSUPPORTED
            return self._ok(old, lambda path: os.rename(path, server.folder + new))

    return Access, Files


@contextlib.contextmanager
def sftp_server(folder):
    """Serves `folder` until the end of the block."""
    paramiko = pytest.importorskip("paramiko", reason="paramiko is not installed")
    server = SftpServer(folder)
    access, files = _interfaces(paramiko, server)
    server.key = paramiko.ECDSAKey.generate()
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(server.key)
            transport.set_subsystem_handler("sftp", paramiko.SFTPServer, files, transport=transport)
            with server.lock:
                server.transports.append(transport)
            with contextlib.suppress(Exception):
                transport.start_server(event=threading.Event(), server=access())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        server.disconnect()
        thread.join()
