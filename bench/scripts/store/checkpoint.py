"""Saves and loads a state dict with one client: checkpoint.py CLIENT CONFIG-AS-JSON

The task "save" makes an object, or several, of the tensors' bytes; "load" reads it into tensors. For "held up" a save returns
as soon as training may change the tensors, and its end is not measured.
"""

import io
import json
import os
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from urllib.parse import quote

from rounds import cpu_seconds

TENSOR_BYTES = 64 << 20
PART_BYTES = 16 << 20
RANGE_BYTES = 8 << 20


def made(size, value=None):
    """Returns tensors of `size` bytes together: of numbers that differ, or of `value`."""
    import torch

    state = {}
    for number, begin in enumerate(range(0, size, TENSOR_BYTES)):
        count = min(TENSOR_BYTES, size - begin) // 4
        filled = torch.arange(number, number + count, dtype=torch.int32) if value is None else torch.full((count,), value)
        state[f"layer.{number}"] = filled.to(torch.int32)
    return state


class Bare:
    """Requests of parts over as many connections as threads, or reads and writes of a file: no format, no digests."""

    def __init__(self, config):
        self.config, self.local = config, threading.local()

    def save(self, state, name):
        pieces = self.pieces(state, PART_BYTES)
        if self.config["is_folder"]:
            with open(self.path(name), "wb") as file:
                file.truncate(self.config["expected"])
                self.each(lambda piece: os.pwrite(file.fileno(), piece[1], piece[0]), pieces)
            return None
        begun = self.ask("POST", f"{self.key(name)}?uploads").decode()
        upload = quote(begun.partition("<UploadId>")[2].partition("</UploadId>")[0], safe="")
        tags = self.each(lambda part: self.put(part, f"{self.key(name)}?uploadId={upload}"), list(enumerate(pieces, 1)))
        body = "".join(f"<Part><PartNumber>{at}</PartNumber><ETag>{tag}</ETag></Part>" for at, tag in enumerate(tags, 1))
        body = f"<CompleteMultipartUpload>{body}</CompleteMultipartUpload>"
        self.ask("POST", f"{self.key(name)}?uploadId={upload}", body.encode())
        return None

    def load(self, state, name):
        if self.config["is_folder"]:
            with open(self.path(name), "rb", buffering=0) as file:
                self.each(lambda piece: os.preadv(file.fileno(), [piece[1]], piece[0]), self.pieces(state, RANGE_BYTES))
        else:
            self.each(lambda piece: self.get(piece, self.key(name)), self.pieces(state, RANGE_BYTES))

    def pieces(self, state, size):
        """Returns the memory of the tensors in pieces, with their offsets."""
        at, pieces = 0, []
        for tensor in state.values():
            memory = memoryview(tensor.numpy()).cast("B")
            pieces += [(at + begin, memory[begin : begin + size]) for begin in range(0, len(memory), size)]
            at += len(memory)
        return pieces

    def each(self, action, items):
        with ThreadPoolExecutor(self.config["threads"]) as pool:
            return list(pool.map(action, items))

    def path(self, name):
        return f"{self.config['folder']}/{name}"

    def key(self, name):
        return f"/{self.config['bucket']}/{name}"

    def connection(self):
        import http.client

        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection(self.config["endpoint"].removeprefix("http://"))
            self.local.connection.blocksize = RANGE_BYTES
        return self.local.connection

    def ask(self, method, path, body=b""):
        self.connection().request(method, path, body)
        response = self.connection().getresponse()
        content = response.read()
        assert response.status < 300, content
        return content

    def put(self, part, path):
        number, (_, memory) = part
        self.connection().request("PUT", f"{path}&partNumber={number}", memory)
        response = self.connection().getresponse()
        content = response.read()
        assert response.status == 200, content
        return response.headers["etag"]

    def get(self, piece, path):
        begin, memory = piece
        self.connection().request("GET", path, headers={"range": f"bytes={begin}-{begin + len(memory) - 1}"})
        response = self.connection().getresponse()
        assert response.status == 206, response.read()
        while memory:
            count = response.readinto(memory)
            assert count, "less than was asked for"
            memory = memory[count:]


class Forebay:
    def __init__(self, config):
        import forebay as fb
        import forebay.checkpoint  # noqa: F401  The start is not measured.

        self.store = None if config["is_folder"] else fb.StoreOptions(endpoint=config["endpoint"], region="us-east-1")
        self.root = config["folder"] if config["is_folder"] else f"s3://{config['bucket']}"

    def save(self, state, name, wait=True):
        from forebay import checkpoint

        saving = checkpoint.save(state, f"{self.root}/{name}", store=self.store, wait=wait)
        return None if wait else saving.wait

    def held_up(self, state, name):
        return self.save(state, name, wait=False)

    def load(self, state, name):
        from forebay import checkpoint

        checkpoint.load(f"{self.root}/{name}", into=state, store=self.store)


class ForebayDistributed(Forebay):
    held_up = None

    def __init__(self, config):
        import forebay.checkpoint.distributed  # noqa: F401

        super().__init__(config)

    def save(self, state, name):
        import torch.distributed.checkpoint as dcp
        from forebay.checkpoint.distributed import StorageWriter

        dcp.save(state, storage_writer=StorageWriter(f"{self.root}/{name}", store=self.store))

    def load(self, state, name):
        import torch.distributed.checkpoint as dcp
        from forebay.checkpoint.distributed import StorageReader

        dcp.load(state, storage_reader=StorageReader(f"{self.root}/{name}", store=self.store))


class Torch:
    """torch.save to a file."""

    def __init__(self, config):
        self.folder = config["folder"]

    def save(self, state, name):
        import torch

        torch.save(state, f"{self.folder}/{name}")

    def load(self, state, name):
        import torch

        copied(torch.load(f"{self.folder}/{name}", weights_only=True), state)


class S3TorchConnector:
    def __init__(self, config):
        from s3torchconnector import S3Checkpoint, S3ClientConfig

        self.root = f"s3://{config['bucket']}"
        options = S3ClientConfig(force_path_style=True)
        self.checkpoint = S3Checkpoint("us-east-1", endpoint=config["endpoint"], s3client_config=options)

    def save(self, state, name):
        import torch

        with self.checkpoint.writer(f"{self.root}/{name}") as file:
            torch.save(state, file)

    def load(self, state, name):
        import torch

        with self.checkpoint.reader(f"{self.root}/{name}") as file:
            copied(torch.load(file, weights_only=True), state)


class Boto3:
    def __init__(self, config):
        import boto3
        from boto3.s3.transfer import TransferConfig
        from botocore.config import Config

        options = Config(max_pool_connections=config["threads"], s3={"addressing_style": "path"})
        self.client = boto3.client("s3", endpoint_url=config["endpoint"], config=options)
        self.bucket = config["bucket"]
        self.transfer = TransferConfig(max_concurrency=config["threads"], multipart_chunksize=PART_BYTES)

    def save(self, state, name):
        import torch

        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        self.client.upload_fileobj(file, self.bucket, name, Config=self.transfer)

    def load(self, state, name):
        import torch

        file = io.BytesIO()
        self.client.download_fileobj(self.bucket, name, file, Config=self.transfer)
        file.seek(0)
        copied(torch.load(file, weights_only=True), state)


def copied(loaded, state):
    for name, tensor in state.items():
        tensor.copy_(loaded[name])


CLIENTS = {
    "bare client": (Bare, []),
    "forebay": (Forebay, []),
    "forebay, torch.distributed.checkpoint": (ForebayDistributed, ["torch"]),
    "torch.save": (Torch, ["torch"]),
    "s3torchconnector": (S3TorchConnector, ["s3torchconnector"]),
    "boto3": (Boto3, ["boto3"]),
}


def rounds(client, config):
    """Returns the seconds and the CPU seconds of each round."""
    size, task = config["expected"], config["task"]
    state = made(size)
    if task == "load":
        client.save(state, "state")
    for number in range(config["rounds"]):
        name = "state" if task == "load" else f"state-{number}"
        into = made(size, value=-1) if task == "load" else state
        action = {"load": client.load, "save": client.save, "held up": getattr(client, "held_up", None) or client.save}[task]
        cpu, start = cpu_seconds(), time.perf_counter()
        rest = action(into, name)
        yield time.perf_counter() - start, cpu_seconds() - cpu
        if rest is not None:
            rest()
        if task == "load":
            assert all(into[name].equal(tensor) for name, tensor in state.items()), "the tensors differ from the saved ones"
        else:
            remove(config, name)
    if task == "load":
        remove(config, "state")


def remove(config, name):
    path = f"{config['folder']}/{name}"
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def main():
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    make, packages = CLIENTS[sys.argv[1]]
    config = json.loads(sys.argv[2])
    seconds, cpu = min(rounds(make(config), config))
    versions = {name: version(name) for name in packages}
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "versions": versions}), file=out, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
