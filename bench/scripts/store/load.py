"""Lists and loads the files of a bucket with one client: load.py CLIENT CONFIG-AS-JSON

The task "objects" lists a prefix and reads every object; "lines" reads the lines of texts, in batches;
"members" reads the files in tar files. With `workers` the client runs in torch's DataLoader.

A client is made of three functions of the same names, which yield the parts that this worker reads. `client_of` makes them
of two: one for contents, one that opens objects as streams.
"""

import io
import itertools
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from rounds import main


class Client(NamedTuple):
    objects: object
    lines: object
    members: object


def client_of(contents, streams=None):
    """Returns the client of a library without lines and tars."""

    def lines():
        # Line by line: a list of all lines, as `splitlines` makes it, takes new memory for each of them.
        # The streams have slower lines than whole texts.
        for content in contents():
            yield from io.BytesIO(content)

    def members():
        for stream in streams():
            with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as tar:
                for member in tar:
                    yield tar.extractfile(member).read()

    return Client(contents, lines, members)


def forebay(config):
    import forebay as fb

    store = fb.StoreOptions(endpoint=config["endpoint"], region="us-east-1")
    prefix = f"s3://{config['bucket']}/{config['prefix']}"

    def objects():
        for _, data in fb.load_files(fb.list_files(prefix, store=store), store=store):
            yield data

    def members():
        for _, _, data in fb.load_tars(prefix, store=store):
            yield data

    return Client(objects, lambda: fb.load_lines(prefix, store=store), members)


def s3torchconnector(config):
    from s3torchconnector import S3ClientConfig, S3IterableDataset

    def data(transform):
        return S3IterableDataset.from_prefix(
            f"s3://{config['bucket']}/{config['prefix']}",
            region="us-east-1",
            endpoint=config["endpoint"],
            s3client_config=S3ClientConfig(force_path_style=True),
            enable_sharding=True,
            transform=transform,
        )

    return client_of(lambda: iter(data(lambda reader: reader.read())), lambda: iter(data(lambda reader: reader)))


def s3torchconnector_threads(config):
    """The same with readers in threads, which its documentation leaves to the user. It has no streams."""
    from s3torchconnector import S3ClientConfig, S3MapDataset

    def contents():
        data = S3MapDataset.from_prefix(
            f"s3://{config['bucket']}/{config['prefix']}",
            region="us-east-1",
            endpoint=config["endpoint"],
            s3client_config=S3ClientConfig(force_path_style=True),
        )
        yield from threads(share(range(len(data))), lambda at: data[at].read(), config["threads"])

    return client_of(contents)


def share(items):
    """Returns this worker's part of a list."""
    import torch.utils.data

    info = torch.utils.data.get_worker_info()
    return items if info is None else items[info.id :: info.num_workers]


def threads(items, read, count):
    """Yields the results of `read` in order, `count` of them ahead."""
    with ThreadPoolExecutor(count) as pool:
        ahead = []
        for item in items:
            ahead.append(pool.submit(read, item))
            if len(ahead) >= count:
                yield ahead.pop(0).result()
        for result in ahead:
            yield result.result()


def boto3(config):
    import boto3
    from botocore.config import Config

    def listed():
        options = Config(max_pool_connections=config["threads"], s3={"addressing_style": "path"})
        client = boto3.client("s3", endpoint_url=config["endpoint"], config=options)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=config["bucket"], Prefix=config["prefix"])
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return share(keys), lambda key: client.get_object(Bucket=config["bucket"], Key=key)["Body"]

    def contents():
        keys, body = listed()
        yield from threads(keys, lambda key: body(key).read(), config["threads"])

    def streams():
        keys, body = listed()
        yield from map(body, keys)

    return client_of(contents, streams)


def s3fs(config):
    import s3fs

    def listed():
        s3fs.S3FileSystem.clear_instance_cache()
        fs = s3fs.S3FileSystem(
            client_kwargs={"endpoint_url": config["endpoint"]},
            config_kwargs={"s3": {"addressing_style": "path"}, "max_pool_connections": config["threads"]},
        )
        return fs, share(sorted(fs.find(f"{config['bucket']}/{config['prefix']}")))

    def contents():
        fs, paths = listed()
        step = config["threads"]
        for at in range(0, len(paths), step):
            yield from fs.cat(paths[at : at + step]).values()

    def streams():
        fs, paths = listed()
        for path in paths:
            with fs.open(path, cache_type="readahead") as stream:
                yield stream

    return client_of(contents, streams)


def multi_storage_client(config):
    import multistorageclient

    def listed():
        options = {
            "base_path": config["bucket"],
            "endpoint_url": config["endpoint"],
            "region_name": "us-east-1",
            "rust_client": {"allow_http": "true"},
        }
        profiles = {"profiles": {"bench": {"storage_provider": {"type": "s3", "options": options}}}}
        client = multistorageclient.StorageClient(
            multistorageclient.StorageClientConfig.from_dict(profiles, "bench")
        )
        return client, share([entry.key for entry in client.list(path=config["prefix"])])

    def contents():
        client, keys = listed()
        # Its own type has no lines, and cannot be sent to another process: torch's DataLoader would wait for it forever.
        is_copied = config["workers"] or config["batch_size"]
        read = (lambda key: bytes(client.read(key))) if is_copied else client.read
        yield from threads(keys, read, config["threads"])

    def streams():
        client, keys = listed()
        for key in keys:
            with client.open(key, "rb") as stream:
                yield stream

    return client_of(contents, streams)


def litdata(config):
    """LitData's raw data set, in batches as a DataLoader asks it for. It has no streams."""
    import os
    import tempfile

    # Its two clients have arguments of different names for it.
    os.environ["AWS_ENDPOINT_URL"] = config["endpoint"]
    from litdata import StreamingRawDataset
    from litdata.raw.indexer import FileIndexer
    from litdata.streaming import downloader

    # It has no argument for a server without TLS.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"

    class Indexer(FileIndexer):
        def _upload_to_cloud(self, *arguments):
            """Leaves the bucket as it is, as with keys that have no right to write."""

    def contents():
        prefix = f"s3://{config['bucket']}/{config['prefix']}"
        with tempfile.TemporaryDirectory() as folder:
            data = StreamingRawDataset(prefix, folder, Indexer(), recompute_index=True, max_prefetch=LITDATA_BATCH)
            numbers = share(range(len(data)))
            for at in range(0, len(numbers), LITDATA_BATCH):
                yield from data.__getitems__(list(numbers[at : at + LITDATA_BATCH]))

    return client_of(contents)


LITDATA_BATCH = 64

CLIENTS = {
    "forebay": (forebay, []),
    "s3torchconnector": (s3torchconnector, ["s3torchconnector"]),
    "s3torchconnector, threads": (s3torchconnector_threads, ["s3torchconnector"]),
    "boto3, threads": (boto3, ["boto3"]),
    "s3fs": (s3fs, ["s3fs"]),
    "multi-storage-client, Rust, threads": (multi_storage_client, ["multi-storage-client"]),
    "LitData, raw": (litdata, ["litdata"]),
}


def batches(lines, batch_size):
    """Yields lists of lines."""
    lines = iter(lines)
    while batch := list(itertools.islice(lines, batch_size)):
        yield batch


def counted(config, client):
    """Runs the task once, and returns its bytes, or its lines."""
    items = getattr(client, config["task"])
    if config["task"] == "lines":
        lines = items
        items = lambda: batches(lines(), config["batch_size"])  # noqa: E731
    return sum(map(len, in_workers(items, config["workers"]) if config["workers"] else items()))


def in_workers(items, workers):
    """Returns the items of all workers of a DataLoader."""
    import torch.utils.data

    class Data(torch.utils.data.IterableDataset):
        def __iter__(self):
            return items()

    return torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=workers)


def counting(make):
    """Returns a function that makes the task of a client."""

    def task(config):
        client = make(config)
        import torch  # noqa: F401  The start is not measured.

        return lambda: counted(config, client)

    return task


if __name__ == "__main__":
    main({name: (counting(make), packages) for name, (make, packages) in CLIENTS.items()})
