"""A bucket of S3 in memory that verifies signatures and records the requests of each key.

Every machine of a test may have its own access key, so the record has the requests of each machine.
"""

import contextlib
import hashlib
import hmac
import re
import threading
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

REGION = "us-east-1"

MODIFIED = 1767225600
"""Time of the last change of every object: the start of 2026."""

PAGE = 1000
"""Entries of a page of a list."""


def secret_of(access_key):
    return f"secret-of-{access_key}"


@dataclass(frozen=True)
class Request:
    """Request with a valid signature."""

    machine: str
    """Access key."""
    method: str
    key: str
    """Key of the object; empty for one about the bucket."""
    status: int


class Bucket(ThreadingHTTPServer):
    """Running server of the bucket `bucket`.

    `holds` is a function of a machine, a method and a key. A request for which it is true is never answered and has no
    effect; `held` is set when there is one.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.uploads, self.seen, self.rejected, self.lock = {}, {}, [], [], threading.Lock()
        self.holds, self.held, self.ended = lambda *_: False, threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"

    def environment(self, machine="key"):
        """Variables of a machine's processes."""
        return {
            "S3_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": machine,
            "AWS_SECRET_ACCESS_KEY": secret_of(machine),
            "AWS_REGION": REGION,
            "NO_PROXY": "127.0.0.1",
        }

    def handle_error(self, request, client_address):
        """Ignores the broken connections of processes that were killed."""

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


@contextlib.contextmanager
def bucket_server():
    """Serves an empty bucket."""
    with contextlib.closing(Bucket()) as bucket:
        yield bucket


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **headers):
        with self.server.lock:
            self.server.seen.append(Request(self.machine, self.command, self.key, status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.place = urlsplit(self.path)
        bucket, _, self.key = unquote(self.place.path).removeprefix("/").partition("/")
        self.query = dict(parse_qsl(self.place.query, keep_blank_values=True))
        self.machine, problem = self.verify()
        if problem or bucket != "bucket":
            self.server.rejected.append(f"{self.command} {self.path}: {problem or 'no such bucket'}")
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        if self.server.holds(self.machine, self.command, self.key):
            self.server.held.set()
            self.server.ended.wait()
            self.close_connection = True
            return None
        if not self.key:
            return self.bucket_actions()
        return self.upload_actions() if {"uploads", "uploadId"} & self.query.keys() else self.object_actions()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve

    def verify(self):
        """Returns the access key, and the fault of the signature."""
        found = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=(\w+)",
            self.headers.get("authorization", ""),
        )
        if found is None:
            return "", "not signed"
        machine, scope, signed, signature = found.groups()
        time, digest = self.headers["x-amz-date"], self.headers["x-amz-content-sha256"]
        if scope != f"{time[:8]}/{REGION}/s3/aws4_request":
            return machine, f"scope {scope}"
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(self.body).hexdigest()):
            return machine, "another body"
        if {"host", *(name.lower() for name in self.headers if name.lower().startswith("x-amz-"))} - set(signed.split(";")):
            return machine, "a header is not signed"
        query = sorted((quote(name, safe="-._~"), quote(value, safe="-._~")) for name, value in self.query.items())
        headers = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in signed.split(";"))
        query = "&".join(f"{name}={value}" for name, value in query)
        request = f"{self.command}\n{self.place.path}\n{query}\n{headers}\n{signed}\n{digest}"
        text = f"AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = f"AWS4{secret_of(machine)}".encode()
        for part in [*scope.split("/"), text]:
            key = hmac.digest(key, part.encode(), "sha256")
        return machine, "" if hmac.compare_digest(key.hex(), signature) else "another signature"

    def object_actions(self):
        objects = self.server.objects
        if self.command == "PUT" and not self.query:
            with self.server.lock:
                problem = self.condition()
                if not problem:
                    objects[self.key] = self.body
            if problem:
                return self.answer(*problem)
            return self.answer(200, etag=tag(self.body))
        if self.command == "DELETE" and not self.query:
            objects.pop(self.key, None)
            return self.answer(204)
        if self.command not in ("GET", "HEAD") or self.query:
            return self.answer(501)
        body = objects.get(self.key)
        if body is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if self.headers.get("if-match", tag(body)) != tag(body):
            return self.answer(412)
        facts = {"etag": tag(body), "last_modified": formatdate(MODIFIED, usegmt=True), "accept_ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        if wanted is None:
            return self.answer(200, body, **facts)
        start, end = int(wanted[1]), min(int(wanted[2] or len(body)), len(body) - 1)
        if start > end:
            return self.answer(416, content_range=f"bytes */{len(body)}")
        return self.answer(206, body[start : end + 1], content_range=f"bytes {start}-{end}/{len(body)}", **facts)

    def condition(self):
        """Returns the status and the body of the rejection of a write with an unmet condition."""
        there, failed = self.server.objects.get(self.key), (412, b"<Error><Code>PreconditionFailed</Code></Error>")
        wanted = self.headers.get("if-match")
        if wanted is not None and there is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>"
        if wanted is not None and wanted != tag(there):
            return failed
        return failed if self.headers.get("if-none-match") == "*" and there is not None else None

    def upload_actions(self):
        uploads = self.server.uploads
        if self.command == "POST" and "uploads" in self.query:
            with self.server.lock:
                name = str(len(uploads))
                uploads[name] = {}
            return self.xml("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")
        name = self.query["uploadId"]
        if self.command == "PUT":
            uploads[name][int(self.query["partNumber"])] = self.body
            return self.answer(200, etag=tag(self.body))
        parts, uploads[name] = uploads[name], {}
        if self.command == "DELETE":
            return self.answer(204)
        body = b"".join(parts[number] for number in sorted(parts))
        self.server.objects[self.key] = body
        return self.xml("CompleteMultipartUploadResult", f"<ETag>{escape(tag(body))}</ETag>")

    def bucket_actions(self):
        with self.server.lock:
            objects = dict(self.server.objects)
        if self.command == "POST" and "delete" in self.query:
            for found in ElementTree.fromstring(self.body).iter():
                if found.tag.endswith("Key"):
                    self.server.objects.pop(found.text, None)
            return self.xml("DeleteResult", "")
        if self.command == "GET" and "uploads" in self.query:
            return self.xml("ListMultipartUploadsResult", "")
        if self.command != "GET" or self.query.get("list-type") != "2":
            return self.answer(501)
        prefix, after = self.query.get("prefix", ""), self.query.get("continuation-token", "")
        level = self.query.get("delimiter")
        entries = {}
        for key, body in sorted(objects.items()):
            inner, slash, _ = key.removeprefix(prefix).partition(level) if level else (key, "", "")
            if key.startswith(prefix) and slash:
                folder = f"{prefix}{inner}{slash}"
                entries[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            elif key.startswith(prefix):
                entries[key] = (
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                    f"<ETag>{escape(tag(body))}</ETag><Size>{len(body)}</Size></Contents>"
                )
        names = sorted(name for name in entries if name > after)
        more = f"<NextContinuationToken>{escape(names[PAGE - 1])}</NextContinuationToken>" if len(names) > PAGE else ""
        cut = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{more}"
        return self.xml("ListBucketResult", cut + "".join(entries[name] for name in names[:PAGE]))

    def xml(self, name, content):
        """Answers with a document."""
        return self.answer(200, f"<{name}>{content}</{name}>".encode())

    def log_message(self, *_):
        pass


def tag(body):
    return f'"{hashlib.md5(body).hexdigest()}"'
