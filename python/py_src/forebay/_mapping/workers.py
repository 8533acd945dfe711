"""Workers of a map: threads, each with its own caller."""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence

from .batch import Caller, MappedBatch

_log = logging.getLogger("forebay")

_CLOSE_SECONDS = 10.0
"""Wait for calls that run when the workers are closed."""


_DELAY_SECONDS = 0.1
"""Interval of looks at the waits for a CPU: each reads a file for each thread."""


class Workers:
    """Threads that map the rows of batches, the oldest batch first. They start with the first batch.

    The consumer uses only queues of the interpreter itself. An interrupt at the end of a `with` statement, or in a function of
    `threading.Condition` or `Event`, can leave a lock held, for which all threads would wait.

    Args:
        count: Number of threads.
        open_caller: Makes a thread's caller, in that thread, for its first rows. The caller may have a method `interrupt`, for
            any thread, which ends a call that runs, and a method `close`, for its own thread.
    """

    def __init__(self, count: int, open_caller: Callable[[], Caller]) -> None:
        self.count = count
        self._open_caller = open_caller
        self._pid = os.getpid()
        # Only for the worker threads: the consumer takes no lock.
        self._lock = threading.Lock()
        # Rows by batch; None ends a thread. A batch that was dropped, as `break` does, is not mapped any more.
        self._queue: queue.SimpleQueue[tuple[weakref.ref[MappedBatch], Sequence[int]] | None] = queue.SimpleQueue()
        self._is_started = False
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._callers: dict[int, Caller] = {}
        self._is_closed = False
        # Kind, seconds and samples of the calls, their time on a CPU, waits for rows and waits for the consumer since `take_times`.
        self._spent: deque[tuple[str, float, int]] = deque()
        # Kind of a wait that begins. None: it is not counted, as no epoch needs the workers.
        self.idle_kind: str | None = None
        # Chunks that were done.
        self.progress = 0
        # Seconds in which the threads waited for a CPU, and the time of the next look.
        self._delay = self._delay_due = 0.0

    def put(self, batch: MappedBatch, rows: Sequence[int], chunk: int) -> None:
        """Adds rows of a batch, which workers take in chunks."""
        self.start()
        reference = weakref.ref(batch)
        for start in range(0, len(rows), chunk):
            self._queue.put((reference, rows[start : start + chunk]))

    def start(self) -> None:
        """Starts the threads, if that has not succeeded yet."""
        if not self._is_started:
            try:
                # Interrupts are raised in the main thread, where one could leave a thread that `start` has not begun.
                _thread.start_new_thread(self._start, ())
            except RuntimeError as error:
                self._error = error
                return
            self._is_started = True

    def check(self) -> None:
        """Raises the error for which no thread could start. The next `start` tries again."""
        error, self._error = self._error, None
        if error is not None and not self._threads:
            self._is_started = False
            raise error

    def _start(self) -> None:
        with self._lock:
            while len(self._threads) < self.count and not self._is_closed:
                # Daemons, because `close` waits for a limited time.
                thread = threading.Thread(target=self._run, name=f"forebay-map-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                try:
                    thread.start()
                except BaseException as error:
                    # The threads that have started map all rows.
                    self._threads.remove(thread)
                    self._error = error
                    break
            if self._is_closed:
                # The garbage collector may have closed them before the last one was in the list.
                for _ in self._threads:
                    self._queue.put(None)

    def take_times(self) -> tuple[tuple[float, float, float, float, float], int]:
        """Returns the seconds and the number of samples since the last call."""
        times, samples = {"busy": 0.0, "input": 0.0, "output": 0.0, "cpu": 0.0}, 0
        while self._spent:
            kind, seconds, count = self._spent.popleft()
            times[kind] += seconds
            samples += count
        return (times["busy"], times["input"], times["output"], times["cpu"], self._cpu_delay()), samples

    def _cpu_delay(self) -> float:
        """Returns the seconds since the last call in which threads waited for a CPU. 0 soon after it, and where Linux does not count them."""
        if time.monotonic() < self._delay_due:
            return 0.0
        self._delay_due = time.monotonic() + _DELAY_SECONDS
        delay = sum(_cpu_delay_of(thread.native_id) for thread in self._threads)
        # Without a thread that has ended the sum is smaller.
        delay, self._delay = delay - self._delay, delay
        return max(delay, 0.0)

    def close(self) -> None:
        """Ends the threads, after the calls that run. Calls in processes and interpreters are ended."""
        if os.getpid() != self._pid:
            return
        self._is_closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._queue.get_nowait()
        # A thread or a caller that is added after this sees that the workers are closed.
        for _ in self._threads:
            self._queue.put(None)
        for caller in list(self._callers.values()):
            _call(caller, "interrupt")
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in self._threads:
            # The garbage collector may run this in any thread.
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(max(0.0, end - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads if thread is not threading.current_thread()):
            _log.warning("a call of the function of map runs for more than %.0f s after close: its thread is left alone", _CLOSE_SECONDS)

    def _run(self) -> None:
        number = threading.get_ident()
        while (work := self._next()) is not None:
            reference, rows = work
            batch = reference()
            if batch is None:
                continue
            batch.run(rows, self._counted(self._caller(number)))
            # Otherwise a batch that was dropped would stay until the next one.
            batch = None
            with self._lock:
                self.progress += 1
        _call(self._callers.pop(number, None), "close")

    def _counted(self, caller: Caller) -> Caller:
        """Returns a caller that counts before its results are known, so that a delivered batch is in the statistics."""

        def call(calls: Sequence[object]) -> list[object]:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                return caller(calls)
            finally:
                self._spent.append(("cpu", time.thread_time() - cpu, 0))
                self._spent.append(("busy", time.perf_counter() - began, len(calls)))

        return call

    def _caller(self, number: int) -> Caller:
        """Returns the caller of this thread, made at the first call. An error in making it becomes the error of the rows."""

        def opened(calls: Sequence[object]) -> list[object]:
            caller = self._open_caller()
            self._callers[number] = caller
            if self._is_closed:
                _call(caller, "interrupt")
            return caller(calls)

        return self._callers.get(number, opened)

    def _next(self) -> tuple[weakref.ref[MappedBatch], Sequence[int]] | None:
        kind, began = self.idle_kind, time.perf_counter()
        work = self._queue.get()
        if kind is not None:
            self._spent.append((kind, time.perf_counter() - began, 0))
        return None if self._is_closed else work


def _cpu_delay_of(thread: int | None) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _call(caller: object, name: str) -> None:
    """Calls a method that callers may have."""
    method = getattr(caller, name, None)
    if method is not None:
        method()
