"""Data sets on real servers on this machine, through the clouds' own clients: SFTP, Google Cloud Storage, Azure."""

import http.server
import os
import urllib.parse

import pytest
from number_sets import of_loader, write
from range_server import serving
from sftp_server import COUNT
from torch.utils.data import DataLoader

from forebay.streaming import StreamingDataset
from forebay.streaming.base.storage import _azure, _gcs


@pytest.fixture
def folder(tmp_path):
    """Folder that a server serves."""
    write(tmp_path / "served" / "set", 100)
    return tmp_path / "served"


def read(remote, local, workers):
    """All numbers of the data set at `remote`, sorted."""
    dataset = StreamingDataset(remote=remote, local=str(local), batch_size=4, download_retry=1, num_canonical_nodes=1)
    # A fork may copy a lock of OpenSSL that a thread of the SFTP server holds. A fork server may have been started before
    # this test set the environment.
    context = "spawn" if workers and remote.startswith("sftp:") else None
    loader = DataLoader(dataset, batch_size=4, num_workers=workers, timeout=600 if workers else 0, multiprocessing_context=context)
    return sorted(of_loader(loader))


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_fetched_over_sftp(sftp, tmp_path, workers):
    assert read(sftp.url("set/train"), tmp_path / "local", workers) == list(range(COUNT))
    with pytest.raises(FileNotFoundError):
        read(sftp.url("set/absent"), tmp_path / "second", 0)


class Objects(http.server.BaseHTTPRequestHandler):
    """Files of a folder, through the JSON API of Google Cloud Storage and the blob API of Azure."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        # Google: /download/storage/v1/b/BUCKET/o/KEY?alt=media; Azure: /ACCOUNT/CONTAINER/KEY.
        parts = url.path.split("/o/") if url.path.startswith("/download/") else url.path.split("/", 3)
        path = os.path.join(self.server.folder, urllib.parse.unquote(parts[-1]))
        self.server.asked.append(parts[-1])
        if not os.path.isfile(path):
            return self.answer(404, b"", {"x-ms-error-code": "BlobNotFound"})
        with open(path, "rb") as file:
            body = file.read()
        headers = {"ETag": '"tag"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "x-ms-blob-type": "BlockBlob"}
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        if wanted is None:
            return self.answer(200, body, headers)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        piece = body[int(first) : int(last) + 1 if last else None]
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(piece) - 1}/{len(body)}"
        return self.answer(206, piece, headers)

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(folder):
    """The address of a server of `folder`."""
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects)) as server:
        server.folder, server.asked = str(folder), []
        yield server


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_fetched_from_google_cloud_storage(server, tmp_path, monkeypatch, workers):
    storage = pytest.importorskip("google.cloud.storage", reason="google-cloud-storage is not installed")
    from google.auth.credentials import AnonymousCredentials

    def client():
        options = {"api_endpoint": f"http://127.0.0.1:{server.server_address[1]}"}
        made = storage.Client(project="project", credentials=AnonymousCredentials(), client_options=options)
        return made, _gcs.GCSAuthentication.SERVICE_ACCOUNT

    monkeypatch.setattr(_gcs, "_client", client)
    assert read("gs://bucket/set", tmp_path / "local", workers) == list(range(100))
    assert "set%2Findex.json" in server.asked


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_fetched_from_azure(server, tmp_path, monkeypatch, workers):
    blob = pytest.importorskip("azure.storage.blob", reason="azure-storage-blob is not installed")
    address = f"http://127.0.0.1:{server.server_address[1]}/account"
    monkeypatch.setattr(_azure, "_blob_service", lambda url: blob.BlobServiceClient(address))
    remote = "azure://account.blob.core.windows.net/container/set"
    assert read(remote, tmp_path / "local", workers) == list(range(100))
    with pytest.raises(FileNotFoundError, match="not found"):
        read(f"{remote}/absent", tmp_path / "second", 0)
