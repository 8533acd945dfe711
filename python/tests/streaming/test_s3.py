"""Writing to and fetching from S3, against a server on this machine."""

import http.server
import json
import urllib.parse
from xml.sax.saxutils import escape

import pytest
from range_server import serving

import forebay as fb
from forebay.streaming.base.format import MDSWriter
from forebay.streaming.base.local import LocalDataset
from forebay.streaming.base.storage.download import CloudDownloader
from forebay.streaming.base.storage.upload import CloudUploader
from forebay.streaming.base.util import merge_index


class Bucket(http.server.BaseHTTPRequestHandler):
    """One bucket, with the operations of S3 that these classes use. The server owns the objects."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self):
        bucket, _, key = urllib.parse.unquote(urllib.parse.urlparse(self.path).path).lstrip("/").partition("/")
        return key if bucket == "bucket" else None

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[self.key()] = body
        self.server.acls.add(self.headers.get("x-amz-acl"))
        self.answer(200, ETag='"etag"')

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        key, query = self.key(), urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)
        if key is None:
            self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif key == "":
            prefix = query.get("prefix", [""])[0]
            keys = sorted(name for name in self.server.objects if name.startswith(prefix))
            contents = "".join(f"<Contents><Key>{escape(name)}</Key></Contents>" for name in keys)
            more = f"<IsTruncated>{str(self.server.truncates).lower()}</IsTruncated>"
            self.answer(200, f"<ListBucketResult>{more}{contents}</ListBucketResult>".encode())
        elif key in self.server.objects:
            self.answer(200, self.server.objects[key], ETag='"etag"')
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def log_message(self, *args):
        pass


@pytest.fixture
def bucket(monkeypatch):
    """The server of s3://bucket."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)) as server:
        server.objects, server.acls, server.truncates = {}, set(), False
        for name, value in {
            "S3_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
            "AWS_MAX_ATTEMPTS": "1",
        }.items():
            monkeypatch.setenv(name, value)
        yield server


def write(out, samples, **settings):
    with MDSWriter(out=out, columns={"n": "int"}, size_limit=200, **settings) as writer:
        for n in samples:
            writer.write({"n": n})


def test_a_data_set_is_written_to_a_bucket_and_fetched_from_it(bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("S3_CANNED_ACL", "bucket-owner-full-control")
    write("s3://bucket/set", range(50))
    assert bucket.acls == {"bucket-owner-full-control"}
    names = CloudUploader.get("s3://bucket/set").list_objects()
    assert sorted(bucket.objects) == names and "set/index.json" in names
    downloader = CloudDownloader.get("s3://bucket/set")
    for name in names:
        downloader.download(f"s3://bucket/{name}", str(tmp_path / name))
    assert [sample["n"] for sample in LocalDataset(str(tmp_path / "set"))[:]] == list(range(50))


def test_indexes_of_parts_in_a_bucket_are_merged(bucket):
    for part in range(2):
        write(f"s3://bucket/set/part{part}", range(10 * part, 10 * part + 10))
    merge_index("s3://bucket/set")
    shards = json.loads(bucket.objects["set/index.json"])["shards"]
    assert sum(shard["samples"] for shard in shards) == 20
    assert all(f"set/{shard['raw_data']['basename']}" in bucket.objects for shard in shards)


def test_a_listing_that_ends_early_is_an_error_and_not_fewer_parts(bucket):
    write("s3://bucket/set/part0", range(10))
    bucket.truncates = True
    with pytest.raises(fb.FormatError, match=r"has no NextContinuationToken \(page 1, remote s3://bucket/set"):
        merge_index("s3://bucket/set")
    assert "set/index.json" not in bucket.objects


def test_a_missing_object_raises_the_client_s_error(bucket, tmp_path):
    from botocore.exceptions import ClientError

    with pytest.raises(ClientError, match=r"Object s3://bucket/missing not found!"):
        CloudDownloader.direct_download("s3://bucket/missing", str(tmp_path / "missing"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ClientError, match="Either bucket `other` does not exist"):
        CloudUploader.get("s3://other/set")
