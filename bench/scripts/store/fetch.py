"""Fetches all objects of a bucket with one client: fetch.py CLIENT CONFIG-AS-JSON

Every client has the same number of objects in flight, and divides an object as it likes.
"""

from concurrent.futures import ThreadPoolExecutor

from rounds import main


def in_threads(config, read):
    """Returns a function that reads all keys, several at a time, and returns the number of bytes."""
    pool = ThreadPoolExecutor(config["objects"])
    return lambda: sum(pool.map(lambda key: len(read(key)), config["keys"]))


def boto3(config):
    import boto3
    from botocore.config import Config

    options = Config(max_pool_connections=config["objects"], s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=config["endpoint"], config=options)
    return in_threads(config, lambda key: client.get_object(Bucket=config["bucket"], Key=key)["Body"].read())


def s3fs(config):
    import s3fs

    options = {"s3": {"addressing_style": "path"}, "max_pool_connections": config["objects"]}
    fs = s3fs.S3FileSystem(client_kwargs={"endpoint_url": config["endpoint"]}, config_kwargs=options)
    step = config["objects"]
    paths = [f"{config['bucket']}/{key}" for key in config["keys"]]

    def fetch():
        groups = (paths[at : at + step] for at in range(0, len(paths), step))
        return sum(sum(map(len, fs.cat(group).values())) for group in groups)

    return fetch


def s3torchconnector(config):
    from s3torchconnector import S3ClientConfig, S3MapDataset

    urls = [f"s3://{config['bucket']}/{key}" for key in config["keys"]]
    options = S3ClientConfig(force_path_style=True)
    data = S3MapDataset.from_objects(urls, region="us-east-1", endpoint=config["endpoint"], s3client_config=options)
    return in_threads({**config, "keys": range(len(urls))}, lambda index: data[index].read())


def multi_storage_client(config, **options):
    import multistorageclient

    provider = {
        "type": "s3",
        "options": {
            "base_path": config["bucket"],
            "endpoint_url": config["endpoint"],
            "region_name": "us-east-1",
            **options,
        },
    }
    profiles = {"profiles": {"bench": {"storage_provider": provider}}}
    client = multistorageclient.StorageClient(multistorageclient.StorageClientConfig.from_dict(profiles, "bench"))
    return in_threads(config, client.read)


def multi_storage_client_rust(config):
    return multi_storage_client(config, rust_client={"allow_http": "true"})


CLIENTS = {
    "boto3": (boto3, ["boto3"]),
    "s3fs": (s3fs, ["s3fs", "aiobotocore"]),
    "s3torchconnector": (s3torchconnector, ["s3torchconnector"]),
    "multi-storage-client": (multi_storage_client, ["multi-storage-client"]),
    "multi-storage-client, Rust": (multi_storage_client_rust, ["multi-storage-client"]),
}


if __name__ == "__main__":
    main(CLIENTS)
