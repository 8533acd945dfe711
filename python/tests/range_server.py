"""Web server of a folder that answers with parts of its files."""

import contextlib
import functools
import http.server
import re
import threading


@contextlib.contextmanager
def serving(server):
    """Answers requests to a server in a thread until the block ends, with an error, too: the thread of a server that is closed
    without a shutdown never ends, and uses a CPU."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    with server:
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, and parts of them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            with open(self.translate_path(self.path), "rb") as file:
                body = file.read()
        except OSError:
            return self.answer(404, b"")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            return self.answer(200, body)
        start, end = int(wanted[1]), min(int(wanted[2] or len(body)), len(body) - 1)
        if start > end:
            return self.answer(416, b"", content_range=f"bytes */{len(body)}")
        return self.answer(206, body[start : end + 1], content_range=f"bytes {start}-{end}/{len(body)}")

    do_HEAD = do_GET

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"etag": '"one"', "accept_ranges": "bytes", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Served:
    """Web server of a folder."""

    def __init__(self, folder, handler=RangeHandler):
        handler = functools.partial(handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
