"""A bucket in memory that speaks the S3 protocol, without signatures."""

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape


class Bucket(ThreadingHTTPServer):
    """Objects by key; every change and every read of an object is in `log`."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects, self.uploads, self.log = {}, {}, []
        self.lock = threading.Lock()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def parsed(self):
        url = urlsplit(self.path)
        _, _, key = unquote(url.path).lstrip("/").partition("/")
        return key, parse_qs(url.query, keep_blank_values=True)

    def body(self):
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def do_GET(self):
        key, query = self.parsed()
        if not key:
            return self.list(query)
        with self.server.lock:
            content = self.server.objects.get(key)
            self.server.log.append(("get", key))
        if content is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        etag, span = tag(content), self.headers.get("range")
        if span is None:
            return self.answer(200, content, etag=etag)
        first, _, last = span.removeprefix("bytes=").partition("-")
        begin, end = int(first), min(int(last or len(content)) + 1, len(content))
        if begin >= len(content):
            return self.answer(416, b"", content_range=f"bytes */{len(content)}")
        self.answer(206, content[begin:end], etag=etag, content_range=f"bytes {begin}-{end - 1}/{len(content)}")

    do_HEAD = do_GET

    def list(self, query):
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        if "uploads" in query:
            return self.answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        with self.server.lock:
            keys = sorted(key for key in self.server.objects if key.startswith(prefix) and key > after)
            page = [(key, self.server.objects[key]) for key in keys[:1000]]
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{escape(tag(content))}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key, content in page
        )
        more = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" if len(keys) > len(page) else ""
        cut = "true" if more else "false"
        self.answer(200, f"<ListBucketResult><IsTruncated>{cut}</IsTruncated>{more}{found}</ListBucketResult>".encode())

    def do_PUT(self):
        (key, query), content = self.parsed(), self.body()
        with self.server.lock:
            if "uploadId" in query:
                self.server.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = content
            else:
                self.server.objects[key] = content
                self.server.log.append(("put", key))
        self.answer(200, etag=tag(content))

    def do_POST(self):
        (key, query), content = self.parsed(), self.body()
        if "delete" in query:
            keys = [found.text for found in ElementTree.fromstring(content).iter() if found.tag.endswith("Key")]
            with self.server.lock:
                for each in keys:
                    self.server.objects.pop(each, None)
                    self.server.log.append(("delete", each))
            return self.answer(200, b"<DeleteResult></DeleteResult>")
        with self.server.lock:
            if "uploads" in query:
                name = str(len(self.server.uploads))
                self.server.uploads[name] = {}
                answer = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
                return self.answer(200, answer.encode())
            parts = self.server.uploads.pop(query["uploadId"][0])
            whole = b"".join(parts[number] for number in sorted(parts))
            self.server.objects[key] = whole
            self.server.log.append(("put", key))
        answer = f"<CompleteMultipartUploadResult><ETag>{escape(tag(whole))}</ETag></CompleteMultipartUploadResult>"
        self.answer(200, answer.encode())

    def do_DELETE(self):
        key, query = self.parsed()
        with self.server.lock:
            if "uploadId" in query:
                self.server.uploads.pop(query["uploadId"][0], None)
            else:
                self.server.objects.pop(key, None)
                self.server.log.append(("delete", key))
        self.answer(204)


def tag(content):
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextlib.contextmanager
def bucket_server():
    """Serves an empty bucket."""
    server = Bucket()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
