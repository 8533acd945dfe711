"""forebay.Loader and further activity in its process: threads, forks, signals, exit."""

import gc
import http.server
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest
from loaders import alone, ordered
from picture_set import SAMPLES
from range_server import serving

import forebay as fb

torch = pytest.importorskip("torch")


# In a separate process: earlier tests leave threads and files that end at any time.
DROPPED = """
import os
import time

from loaders import numbers, ordered


def threads():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read().strip())
        except FileNotFoundError:
            pass
    return sorted(names)


def check(pictures):
    # The import of torch takes longer than the test.
    make = lambda: ordered(pictures, framework="numpy")
    numbers(make())
    before, files = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        loader = make()
        batches = iter(loader)
        next(batches)
        assert len(threads()) > len(before)
        # Without garbage collection: dropping the last reference ends it.
        del loader, batches
    # A thread that has been waited for may still be listed for a moment.
    last = time.monotonic() + 600
    while threads() != before and time.monotonic() < last:
        time.sleep(0.01)
    assert threads() == before
    assert len(os.listdir("/proc/self/fd")) == files
"""


def test_dropping_a_loader_during_an_epoch_leaves_no_thread_and_no_open_file(pictures):
    done = alone(f"{DROPPED}\ncheck({str(pictures)!r})", PYTHONPATH=os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    assert done.returncode == 0, done.stderr


def test_a_loader_in_a_forked_child_is_an_error_and_the_child_ends(pictures):
    loader = ordered(pictures)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(batches)
        except fb.ClosedError:
            loader.close()
            del loader, batches
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == 12
    loader.close()


class InWorker(torch.utils.data.IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        try:
            ordered(self.folder)
        except fb.ClosedError as error:
            yield str(error)


def test_a_loader_in_a_dataloader_worker_is_an_error_that_names_the_fix(pictures):
    found = list(torch.utils.data.DataLoader(InWorker(pictures), num_workers=1, batch_size=None))
    assert len(found) == 1 and "without a DataLoader" in found[0]


def interrupt(program, said):
    """Runs `program`, sends Ctrl-C when it has printed `said` and `said` only, and returns the rest of its output."""
    text = textwrap.dedent(program)
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == said
    yield
    child.send_signal(signal.SIGINT)
    yield child.communicate(timeout=600)[0].strip()


def test_ctrl_c_ends_the_opening_of_a_data_set(tmp_path):
    """A server takes the request for the index and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        steps = interrupt(
            f"""
            import forebay as fb
            try:
                print("opening", flush=True)
                fb.Loader(remote="http://127.0.0.1:{server.getsockname()[1]}", local={str(tmp_path)!r}, batch_size=1, framework="numpy")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            """,
            "opening",
        )
        next(steps)
        connection, _ = server.accept()
        assert next(steps) == "interrupted"
        connection.close()


class Silent(http.server.BaseHTTPRequestHandler):
    """Serves the index of `folder` and takes every further request without an answer."""

    folder = ""
    asked = threading.Event()
    over = threading.Event()

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if not self.path.endswith("index.json"):
            self.asked.set()
            self.over.wait()
            return
        with open(os.path.join(self.folder, "index.json"), "rb") as file:
            body = file.read()
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"one"')
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_ctrl_c_ends_a_wait_for_a_batch(packed, tmp_path):
    Silent.folder = packed
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent)) as server:
        steps = interrupt(
            f"""
            import forebay as fb
            loader = fb.Loader(remote="http://127.0.0.1:{server.server_port}", local={str(tmp_path)!r}, batch_size=1, framework="numpy")
            batches = iter(loader)
            try:
                print("waiting", flush=True)
                next(batches)
            except KeyboardInterrupt:
                loader.close()
                print("interrupted", flush=True)
            """,
            "waiting",
        )
        next(steps)
        assert Silent.asked.wait(600)
        assert next(steps) == "interrupted"
        Silent.over.set()


def test_a_program_may_end_during_an_epoch(pictures):
    program = f"""
        import forebay as fb
        loader = fb.Loader(local={pictures!r}, batch_size=4)
        batches = iter(loader)
        kept = next(batches)
        print("done", flush=True)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=600)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_two_threads_may_call_next(pictures):
    with ordered(pictures) as loader:
        batches, found, ended = iter(loader), [], []

        def take():
            while (batch := next(batches, None)) is not None:
                found.append(batch["number"].tolist())
            ended.append(True)

        takers = [threading.Thread(target=take) for _ in range(2)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
    assert sorted(sum(found, [])) == list(range(SAMPLES))
    assert len(ended) == 2, "one thread took the end, one an error"
