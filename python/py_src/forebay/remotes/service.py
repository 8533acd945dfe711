"""Threads that make the engine's exchanges with remote folders.

One thread takes exchanges from the engine's queue and starts a thread for each. Connections are kept for the next exchange
with the same folder, and dropped after an error.
"""

from __future__ import annotations

import abc
import atexit
import contextlib
import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from .. import _forebay
from ..errors import ClosedError, Error, NotFoundError
from .folder import CHUNK_BYTES, RemoteFolder, is_temporary


class QueueServer(abc.ABC):
    """A thread that takes the requests of a queue of the engine. At shutdown the queue is closed and the thread joined, because no thread
    may return from the engine into the interpreter then.
    """

    def __init__(self, queue: Any, name: str) -> None:
        self._queue = queue
        self.pid: int = os.getpid()
        self.thread: threading.Thread = threading.Thread(target=self.run, name=name, daemon=True)
        # Set before the thread starts, because Ctrl-C may arrive at once.
        _alive.add(self)
        _end_with_process()
        self.thread.start()

    @abc.abstractmethod
    def run(self) -> None:
        """Serves the queue until it closes."""

    def at_shutdown(self) -> None:
        """Is called before the queue is closed at the end of the process."""

    def end(self) -> None:
        """Closes the queue, unless this is a forked child, which has no such thread."""
        if self.pid == os.getpid():
            self.at_shutdown()
            self._queue.close()
            if self.thread.ident is not None:
                self.thread.join()


_alive: weakref.WeakSet[QueueServer] = weakref.WeakSet()
# Process in which `_end_all` is registered with multiprocessing too, as its processes end without exit handlers.
_ending_process: int | None = None


def _end_with_process() -> None:
    import multiprocessing.util  # Imported late: most processes have no such server.

    global _ending_process
    # Before the exit handlers of libraries that were imported by now: paramiko's closes connections.
    atexit.unregister(_end_all)
    atexit.register(_end_all)
    if _ending_process != os.getpid():
        _ending_process = os.getpid()
        multiprocessing.util.Finalize(None, _end_all, exitpriority=0)


def _end_all() -> None:
    for server in list(_alive):
        server.end()


_Result = TypeVar("_Result")

# Seconds at the end of a process in which uploads that were given up remove their temporary files.
_CLEAN_UP_S = 5.0

# Entries of a listing in one reply.
_ENTRIES_MAX = 1000

# Kinds of errors, which have no class here, by class of Python.
_KINDS: tuple[tuple[type[BaseException], str], ...] = (
    (FileNotFoundError, "not found"),
    (PermissionError, "permission"),
    (TimeoutError, "timeout"),
    (ImportError, "unsupported"),
)

_FULL = (errno.ENOSPC, errno.EDQUOT)

_RETRIED = ("network", "timeout")


def _kind(error: BaseException) -> str:
    """Returns the engine's kind of an error."""
    if isinstance(error, Error):
        return error.kind
    if isinstance(error, OSError) and error.errno in _FULL:
        return "full"
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), "network")


def _text(error: BaseException, remote: str) -> str:
    """Returns the message of an error, without the secrets in the address of its folder."""
    text = str(error) if isinstance(error, Error) else f"the store's library failed: {type(error).__name__}: {error}"
    return _forebay.redact_in(text, remote)


class _Replies:
    """Replies to one exchange. No reply is made after the end of the process has begun."""

    def __init__(self, exchange: _forebay.Exchange, calls: _Calls) -> None:
        self.exchange, self._calls = exchange, calls
        # After the first reply a repetition would reply twice.
        self.has_begun = False

    def reply(self, call: Callable[[], _Result]) -> _Result:
        self.has_begun = True
        with self._calls.one():
            return call()


class _Calls:
    """Calls of threads into the engine, which the end of the process waits for. They are short."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._is_over = False

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Counts one call.

        Raises:
            ClosedError: The process ends.
        """
        with self._changed:
            if self._is_over:
                raise ClosedError("the process ends")
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def end(self) -> None:
        """Rejects further calls, and waits for the running ones."""
        with self._changed:
            self._is_over = True
            self._changed.wait_for(lambda: not self._running)


class _Connections:
    """Idle connections to remote folders, by address."""

    def __init__(self, opener: Callable[[str, float], RemoteFolder]) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._idle: dict[str, list[RemoteFolder]] = {}
        self._is_over = False
        # Servers reject clients if many log in at the same time.
        self._logging_in = threading.Lock()

    def take_idle(self, remote: str) -> RemoteFolder | None:
        with self._lock:
            idle = self._idle.get(remote)
            return idle.pop() if idle else None

    def open(self, remote: str, timeout: float) -> RemoteFolder:
        with self._logging_in:
            return self._opener(remote, timeout)

    def release(self, remote: str, folder: RemoteFolder) -> None:
        with self._lock:
            if not self._is_over:
                self._idle.setdefault(remote, []).append(folder)
                return
        _close(folder)

    def drop(self, remote: str, folder: RemoteFolder) -> None:
        """Closes a connection that has failed, and the idle ones to the same folder, which have probably failed too."""
        with self._lock:
            others = self._idle.pop(remote, [])
        for each in (folder, *others):
            _close(each)

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            folders = [folder for idle in self._idle.values() for folder in idle]
            self._idle.clear()
        for folder in folders:
            _close(folder)

    def forget(self) -> None:
        """Drops idle connections without closing them: they end with the process, and an orderly close may take long."""
        with self._lock:
            self._idle.clear()


def _close(folder: RemoteFolder) -> None:
    # The result does not matter.
    with contextlib.suppress(Exception):
        folder.close()


class Service(QueueServer):
    """Threads that serve one queue. `opener` opens a folder, given its address and a timeout in seconds."""

    def __init__(self, exchanges: _forebay.Exchanges, opener: Callable[[str, float], RemoteFolder]) -> None:
        self._exchanges = exchanges
        self._connections = _Connections(opener)
        self._calls = _Calls()
        self._uploads: set[threading.Thread] = set()
        super().__init__(exchanges, "forebay-remotes")

    def run(self) -> None:
        while (exchange := self._exchanges.next()) is not None:
            thread = threading.Thread(target=self._answer, args=(exchange,), name="forebay-exchange", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                exchange.failed("io", str(error), True)
            # Otherwise it would be alive until the next one.
            del exchange, thread
        self._connections.end()

    def at_shutdown(self) -> None:
        self._connections.forget()
        self._calls.end()
        until = time.monotonic() + _CLEAN_UP_S
        for thread in list(self._uploads):
            thread.join(max(until - time.monotonic(), 0))

    def _answer(self, exchange: _forebay.Exchange) -> None:
        if exchange.operation != "put":
            return self._reply_to(exchange)
        self._uploads.add(threading.current_thread())
        try:
            self._reply_to(exchange)
        finally:
            self._uploads.discard(threading.current_thread())

    def _reply_to(self, exchange: _forebay.Exchange) -> None:
        replies = _Replies(exchange, self._calls)
        with contextlib.suppress(ClosedError):
            try:
                self._make(exchange, replies)
            except ClosedError:
                raise
            except BaseException as error:  # noqa: BLE001: raised by the engine's thread that waits for the reply
                kind, text = _kind(error), _text(error, exchange.remote)
                replies.reply(lambda: exchange.failed(kind, text, kind in _RETRIED))
            else:
                replies.reply(exchange.done)

    def _make(self, exchange: _forebay.Exchange, replies: _Replies) -> None:
        remote = exchange.remote
        idle = self._connections.take_idle(remote)
        if idle is not None:
            try:
                return self._use(idle, exchange, replies)
            except Exception as error:
                # The server may have closed an idle connection. That is no failure of an attempt.
                if replies.has_begun or _kind(error) not in _RETRIED:
                    raise
        self._use(self._connections.open(remote, exchange.timeout), exchange, replies)

    def _use(self, folder: RemoteFolder, exchange: _forebay.Exchange, replies: _Replies) -> None:
        try:
            _OPERATIONS[exchange.operation](folder, exchange, replies.reply)
        except ClosedError:
            if exchange.operation == "get":
                # The engine has all the bytes that it needs, as for a range. The connection has not failed.
                self._connections.release(exchange.remote, folder)
            else:
                self._connections.drop(exchange.remote, folder)
            raise
        except BaseException:
            self._connections.drop(exchange.remote, folder)
            raise
        self._connections.release(exchange.remote, folder)


_Reply = Callable[[Callable[[], _Result]], _Result]


def _get(folder: RemoteFolder, exchange: _forebay.Exchange, reply: _Reply[object]) -> None:
    entry = folder.stat(exchange.key)
    if entry is None:
        raise NotFoundError("there is no such file in the remote folder")
    reply(lambda: exchange.head(entry.bytes, entry.version))
    if exchange.start >= entry.bytes:
        return
    pieces = folder.get(exchange.key, exchange.start)
    try:
        for piece in pieces:
            reply(lambda piece=piece: exchange.bytes(piece))
    finally:
        # Of a generator: it may have a file open.
        if (close := getattr(pieces, "close", None)) is not None:
            close()


def _put(folder: RemoteFolder, exchange: _forebay.Exchange, reply: _Reply[bytes]) -> None:
    folder.put(exchange.key, iter(lambda: reply(lambda: exchange.take(CHUNK_BYTES)), b""))


def _list(folder: RemoteFolder, exchange: _forebay.Exchange, reply: _Reply[object]) -> None:
    found: list[tuple[str, int]] = []

    def send() -> None:
        reply(lambda: exchange.entries(found))
        found.clear()

    for entry in folder.list(exchange.key):
        if is_temporary(entry.key):
            continue
        found.append((entry.key, entry.bytes))
        if len(found) >= _ENTRIES_MAX:
            send()
    send()


def _size(folder: RemoteFolder, exchange: _forebay.Exchange, reply: _Reply[object]) -> None:
    entry = folder.stat(exchange.key)
    if entry is not None:
        reply(lambda: exchange.head(entry.bytes, None))


def _delete(folder: RemoteFolder, exchange: _forebay.Exchange, reply: _Reply[object]) -> None:
    folder.delete(exchange.key)


_OPERATIONS: dict[str, Callable[[RemoteFolder, _forebay.Exchange, _Reply], None]] = {
    "get": _get,
    "put": _put,
    "list": _list,
    "size": _size,
    "delete": _delete,
}
