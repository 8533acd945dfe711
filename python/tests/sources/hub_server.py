"""The hub in memory: listings and files of data sets, in pages, with branches."""

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

PAGE = 3
"""Entries of a page of a listing."""


def commit(branch):
    """The only commit of a branch."""
    return hashlib.sha1(branch.encode()).hexdigest()


class Hub(ThreadingHTTPServer):
    """Running server. `files` has the content of each file by data set, branch and path."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.seen = {}, []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, data_set, path, content, branch="main"):
        self.files[data_set, branch, path] = content

    def handle_error(self, request, client_address):
        """Ignores broken connections."""

    def close(self):
        self.shutdown()
        self.server_close()


@contextlib.contextmanager
def hub_server():
    with contextlib.closing(Hub()) as hub:
        yield hub


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    commit = ""

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"x-repo-commit": self.commit, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        place = urlsplit(self.path)
        path = unquote(place.path)
        self.server.seen.append(path)
        listed = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/tree/(refs/convert/parquet|[^/]+)/?(.*)", path)
        if listed:
            return self.list(*listed.groups(), parse_qs(place.query))
        found = re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/(refs/convert/parquet|[^/]+)/(.+)", path)
        return self.file(*found.groups()) if found else self.answer(404)

    do_HEAD = do_GET

    def branch(self, data_set, name):
        """The files of a branch; None and an answer if there are none."""
        if not any(known == data_set for known, _, _ in self.server.files):
            return self.answer(401, x_error_code="RepoNotFound")
        files = {}
        for (known, branch, path), content in self.server.files.items():
            if known == data_set and name in (branch, commit(branch)):
                self.commit = commit(branch)
                files[path] = content
        return files or self.answer(404, x_error_code="RevisionNotFound")

    def list(self, data_set, branch, folder, query):
        files = self.branch(data_set, branch)
        if files is None:
            return None
        folder = folder.rstrip("/")
        names = sorted(path for path in files if not folder or path.startswith(f"{folder}/"))
        if not names:
            return self.answer(404, x_error_code="EntryNotFound")
        start = int(query.get("cursor", ["0"])[0])
        page = [{"type": "file", "path": path, "size": len(files[path]), "oid": f"{hash(files[path]):x}"} for path in names]
        headers = {}
        if start + PAGE < len(page):
            address = f"{self.server.endpoint}{urlsplit(self.path).path}?recursive=true&cursor={start + PAGE}"
            headers["link"] = f'<{address}>; rel="next"'
        return self.answer(200, json.dumps(page[start : start + PAGE]).encode(), **headers)

    def file(self, data_set, branch, path):
        files = self.branch(data_set, branch)
        if files is None:
            return None
        if path not in files:
            return self.answer(404, x_error_code="EntryNotFound")
        content = files[path]
        facts = {"etag": f'"{len(content)}"', "accept_ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if wanted is None:
            return self.answer(200, content, **facts)
        start, end = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
        if start > end:
            return self.answer(416, content_range=f"bytes */{len(content)}")
        return self.answer(206, content[start : end + 1], content_range=f"bytes {start}-{end}/{len(content)}", **facts)
