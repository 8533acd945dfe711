"""The writer on a store: interrupts, drops and forks while uploads are in flight."""

import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import forebay as fb

LISTING = b"<ListBucketResult></ListBucketResult>"
BEGUN = b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"


class Store(ThreadingHTTPServer):
    """A bucket that responds to a file with the status that `put` returns for its path; without one it never does."""

    def __init__(self, put):
        super().__init__(("127.0.0.1", 0), Handler)
        self.put, self.seen, self.ended = put, [], threading.Event()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def note(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append(f"{self.command} {self.path}")

    def do_GET(self):
        self.note()
        self.answer(200, LISTING)

    def do_POST(self):
        self.note()
        self.answer(200, BEGUN)

    def do_DELETE(self):
        self.note()
        self.answer(204)

    def do_PUT(self):
        self.note()
        status = self.server.put(self.path)
        if status:
            return self.answer(status)
        self.server.ended.wait()
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def store(monkeypatch):
    """Starts a server with the function for files, and makes it the endpoint of S3."""
    servers = []

    def start(put):
        server = Store(put)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        monkeypatch.setenv("S3_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        return server

    yield start
    for server in servers:
        server.ended.set()
        server.shutdown()
        server.server_close()


def test_an_interrupt_ends_finish_without_an_index(store):
    server = store(lambda _: os.kill(os.getpid(), signal.SIGINT))
    writer = fb.MDSWriter(out="s3://bucket/set", columns={"a": "int"})
    writer.write({"a": 1})
    with pytest.raises(KeyboardInterrupt):
        writer.finish()
    assert [request for request in server.seen if "index.json" in request] == []
    with pytest.raises(fb.ConfigError, match="this writer is finished"):
        writer.write({"a": 2})


def test_a_writer_that_is_dropped_removes_its_parts_while_the_server_runs(store):
    arrived = threading.Event()
    server = store(lambda path: arrived.set() if "partNumber" in path else 200)
    writer = fb.MDSWriter(out="s3://bucket/set", columns={"a": "bytes"}, size_limit="16mb", threads=1)
    # The first shard is empty, since the sample is larger than a shard.
    for _ in range(2):
        writer.write({"a": bytes(17 << 20)})
    arrived.wait()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The server is in this process: it responds only if the lock of the interpreter is free.
        del writer
        gc.collect()
    assert any(request.startswith("DELETE") and "uploadId=u" in request for request in server.seen), server.seen


FAILED = """
import os, sys
import forebay as fb

writer = fb.MDSWriter(out="s3://bucket/set", columns={"a": "int"}, size_limit=100, threads=1)
try:
    for i in range(100_000):
        writer.write({"a": i})
except fb.AccessError as error:
    pass
else:
    sys.exit("no failure")
if os.fork() == 0:
    sys.exit()
assert os.wait()[1] == 0
"""


def test_a_forked_child_ends_without_the_failed_writer_of_its_parent(store):
    refused = threading.Lock()
    # The first file is refused, and the remaining files are in flight.
    store(lambda _: 403 if refused.acquire(blocking=False) else None)
    program = subprocess.run([sys.executable, "-c", FAILED], capture_output=True, text=True, timeout=600)
    assert program.returncode == 0, program.stderr
