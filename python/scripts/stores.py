"""Data sets, files and checkpoints on emulators of stores: read and written, and compared with a folder's.

Started by `stores.sh`. `stores.py NAME...` runs some of them: garage, azure, google, amazon.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import forebay as fb

SAMPLES = 2000

# Account of every emulator of Azure.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

# An epoch in a separate process, because settings of stores are read from the environment.
EPOCH = """
import sys, forebay as fb
with fb.Loader(remote=sys.argv[1], local=sys.argv[2] or None, batch_size=64, shuffle=True, framework="numpy") as loader:
    print([int(number) for batch in loader for number in batch["number"]], loader.stats()["counters"]["store_retries"])
"""


# A data set with shards of several parts, in a separate process as well: to a store, and again to the same folder.
WRITE = """
import hashlib, sys, forebay as fb
for again in range(int(sys.argv[2])):
    with fb.MDSWriter(out=sys.argv[1], columns={"data": "bytes"}, size_limit="40mb", hashes=["xxh64"], exist_ok=again > 0) as writer:
        for number in range(10):
            writer.write({"data": hashlib.shake_128(bytes([number])).digest(9 << 20)})
try:
    fb.MDSWriter(out=sys.argv[1], columns={"data": "bytes"})
except fb.ConfigError as error:
    assert "not empty" in str(error), error
else:
    sys.exit("a destination that is not empty is accepted")
"""

# Digests of all samples of such a data set.
READ = """
import hashlib, sys, forebay as fb
with fb.Loader(remote=sys.argv[1], local=sys.argv[2] or None, batch_size=1, framework="numpy") as loader:
    print([hashlib.md5(batch["data"][0]).hexdigest() for batch in loader])
"""


def write(folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes a data set; returns its files."""
    columns = {"number": "int", "text": "str"}
    with fb.MDSWriter(out=str(folder), columns=columns, hashes=["xxh64"], size_limit=1 << 14) as writer:
        for number in range(SAMPLES):
            writer.write({"number": number, "text": f"sample {number}" * 4})
    return sorted(folder.iterdir())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextlib.contextmanager
def emulator(*command: str, url: str) -> Iterator[None]:
    """Runs an emulator until the end of the block, which begins when it responds."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 60
            while not responds(url):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    sys.exit(f"{command[0]} does not start:\n{log.read().decode()}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait()


def responds(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        pass
    except OSError:
        return False
    return True


def epoch(remote: str, local: str, **variables: str) -> str:
    """Returns the numbers of an epoch and the number of repeated requests, as text."""
    return run(EPOCH, remote, local, **variables)


def run(program: str, remote: str, *arguments: str, **variables: str) -> str:
    """Returns the output of a program. Its first argument is `remote`."""
    command = [sys.executable, "-c", program, remote, *arguments]
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{remote}: {result.stderr}")
    return result.stdout


def compare(folder: pathlib.Path, remote: str, **variables: str) -> None:
    expected = epoch(str(folder), "")
    with tempfile.TemporaryDirectory() as local:
        start = time.monotonic()
        if epoch(remote, local, **variables) != expected:
            sys.exit(f"{remote}: the epoch differs from the folder's")
        print(f"{remote}: {SAMPLES} samples, {time.monotonic() - start:.1f} s")


def write_to(remote: str, **variables: str) -> None:
    """Writes a data set to a store twice, and compares it with a folder's."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = str(pathlib.Path(temporary) / "written")
        run(WRITE, folder, "1")
        start = time.monotonic()
        run(WRITE, remote, "2", **variables)
        seconds = time.monotonic() - start
        if run(READ, remote, str(pathlib.Path(temporary) / "local"), **variables) != run(READ, folder, ""):
            sys.exit(f"{remote}: the data set differs from the folder's")
        print(f"{remote}: written twice, 180 MiB, {seconds:.1f} s")


def azure(folder: pathlib.Path, files: list[pathlib.Path]) -> None:
    from azure.storage.blob import BlobServiceClient

    port = free_port()
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    options = "--silent", "--inMemoryPersistence", "--skipApiVersionCheck", "--blobPort", str(port)
    with emulator(os.environ["AZURITE"], *options, url=url):
        container = BlobServiceClient(url, credential=KEY).create_container("box")
        for file in files:
            container.upload_blob(f"set/{file.name}", file.read_bytes())
        key = {"AZURE_STORAGE_SERVICE_ENDPOINT": url, "AZURE_ACCOUNT_ACCESS_KEY": KEY}
        compare(folder, f"azure://{ACCOUNT}.blob.core.windows.net/box/set", **key)
        parts = f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={url}"
        compare(folder, "azure-dl://box/set", AZURE_STORAGE_CONNECTION_STRING=parts)
        write_to(f"azure://{ACCOUNT}.blob.core.windows.net/box/written/a b+ü", **key)
        write_to("azure-dl://box/written/lake", AZURE_STORAGE_CONNECTION_STRING=parts)
        files_of(f"azure://{ACCOUNT}.blob.core.windows.net/box/files", **key)
        checkpoints_of(f"azure://{ACCOUNT}.blob.core.windows.net/box/runs/a b+ü", True, **key)


def google(folder: pathlib.Path, files: list[pathlib.Path]) -> None:
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    script = pathlib.Path(sys.executable).with_name("gcp-storage-emulator")
    with emulator(str(script), "start", "--host=127.0.0.1", f"--port={port}", "--in-memory", url=url):
        options = {"api_endpoint": url}
        client = storage.Client(project="project", credentials=AnonymousCredentials(), client_options=options)
        bucket = client.create_bucket("box")
        for file in files:
            bucket.blob(f"set/{file.name}").upload_from_string(file.read_bytes())
        compare(folder, "gs://box/set", STORAGE_EMULATOR_HOST=url)
        write_to("gs://box/written/a b+ü", STORAGE_EMULATOR_HOST=url)
        files_of("gs://box/files", STORAGE_EMULATOR_HOST=url)
        checkpoints_of("gs://box/runs", False, STORAGE_EMULATOR_HOST=url)


def amazon(folder: pathlib.Path, files: list[pathlib.Path]) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    script = pathlib.Path(sys.executable).with_name("moto_server")
    with emulator(str(script), "-H", "127.0.0.1", "-p", str(port), url=url):
        through_s3(url, "us-east-1", ("key", "secret"), folder, files, is_conditional=True)


def through_s3(
    url: str,
    region: str,
    keys: tuple[str, str],
    folder: pathlib.Path,
    files: list[pathlib.Path],
    *,
    is_conditional: bool,
) -> dict[str, str]:
    """Reads the data set from a new bucket of a server of S3, and writes to it. Returns the variables for it."""
    import boto3

    name, secret = keys
    client = boto3.client(
        "s3", endpoint_url=url, region_name=region, aws_access_key_id=name, aws_secret_access_key=secret
    )
    client.create_bucket(Bucket="box")
    for file in files:
        client.put_object(Bucket="box", Key=f"set/{file.name}", Body=file.read_bytes())
    variables = {
        "AWS_ACCESS_KEY_ID": name,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_ENDPOINT_URL": url,
        # Garage names its region in no response.
        "AWS_REGION": region,
    }
    compare(folder, "s3://box/set", **variables)
    write_to("s3://box/written/a b+ü", **variables)
    files_of("s3://box/files", **variables)
    checkpoints_of("s3://box/runs/a b+ü", is_conditional, **variables)
    return variables


FILES = """
import forebay as fb, os, sys
prefix = sys.argv[1] + "/"
texts = [bytes([65 + number]) * 3000 * number for number in range(1, 9)]
big = os.urandom(40 << 20)
for number, text in enumerate([*texts, big]):
    with fb.open(f"{prefix}{number} ü.bin", "wb") as file:
        file.write(text)
try:
    with fb.open(f"{prefix}half", "wb") as file:
        file.write(big)
        raise RuntimeError
except RuntimeError:
    pass
files = fb.list_files(prefix)
assert [file.size for file in files] == [*map(len, texts), len(big)], files[:]
assert [data for _, data in fb.load_files(files)] == [*texts, big]
assert [data for _, data in fb.load_files([file.url for file in files])] == [*texts, big]
with fb.open(files[-1].url) as file:
    file.seek(17 << 20)
    assert file.read(5) == big[17 << 20:][:5]
fb.remove_files(files)
assert not fb.list_files(prefix)
"""


def files_of(remote: str, **variables: str) -> None:
    """Writes, lists, reads and removes files as they are."""
    start = time.monotonic()
    run(FILES, remote, **variables)
    print(f"{remote}: files of 40 MiB together, {time.monotonic() - start:.1f} s")


CHECKPOINTS = """
import sys, torch, forebay as fb
import torch.distributed.checkpoint as dcp
from forebay import checkpoint
from forebay.checkpoint.distributed import StorageReader, StorageWriter
from forebay.checkpoint.folder import Folder
from forebay.files.stores import opened

run = sys.argv[1]

def state(number):
    return {"a": torch.arange(6 << 20) + number, "b": torch.full((3,), float(number))}

def is_of(number, found):
    return all(found[name].equal(tensor) for name, tensor in state(number).items())

for step in range(3):
    checkpoint.save(state(step), f"{run}/step-{step}", step=step, keep=2)
assert [found.step for found in checkpoint.steps(run)] == [1, 2]
checkpoint.save(state(7), f"{run}/step-2", step=2, overwrite=True)
into = {name: torch.zeros_like(tensor) for name, tensor in state(0).items()}
checkpoint.latest(run).load(into=into)
assert is_of(7, into)
assert len(fb.list_files(f"{run}/step-2/")) == 3, fb.list_files(f"{run}/step-2/")[:]

dcp.save(state(8), storage_writer=StorageWriter(f"{run}/dcp", step=3))
dcp.load(into, storage_reader=StorageReader(f"{run}/dcp"))
assert is_of(8, into)

first, second = (Folder(f"{run}/both", step=number) for number in range(2))
first.begin()
second.begin()
second.commit([])
try:
    first.commit([])
except fb.StateError:
    pass
else:
    sys.exit("a save is successful although a later save has overtaken it")
assert checkpoint.Checkpoint.open(f"{run}/both").step == 1

checkpoint.retain(run, 1)
checkpoint.remove(f"{run}/both")
assert not fb.list_files(f"{run}/"), fb.list_files(f"{run}/")[:]

# The last requests of a save that stops between them.
objects = opened(None)
assert objects.version(f"{run}/x") is None and objects.put_if(f"{run}/x", b"1", None)
version = objects.version(f"{run}/x")
assert objects.put_if(f"{run}/x", b"2", version)
refused = [not objects.put_if(f"{run}/x", b"3", other) for other in (None, version)]
assert len(set(refused)) == 1, refused
objects.remove([f"{run}/x"])
print(*refused[:1])
"""


def checkpoints_of(remote: str, is_conditional: bool, **variables: str) -> None:
    """Saves, loads and removes checkpoints. The store has conditional writes, or not."""
    start = time.monotonic()
    found = run(CHECKPOINTS, remote, **variables).strip()
    if found != str(is_conditional):
        sys.exit(f"{remote}: conditional writes are {found}, and were expected to be {is_conditional}")
    print(f"{remote}: checkpoints of 300 MiB together, {time.monotonic() - start:.1f} s, conditional writes: {found}")


def garage(folder: pathlib.Path, files: list[pathlib.Path]) -> None:
    api, rpc = free_port(), free_port()
    url, name, secret = f"http://127.0.0.1:{api}", "GK31c2f218a2e44f485b94239e", "b8" * 32
    with tempfile.TemporaryDirectory() as place:
        config = pathlib.Path(place) / "garage.toml"
        config.write_text(
            f"""
            metadata_dir = "{place}/meta"
            data_dir = "{place}/data"
            db_engine = "sqlite"
            replication_factor = 1
            rpc_bind_addr = "127.0.0.1:{rpc}"
            rpc_public_addr = "127.0.0.1:{rpc}"
            rpc_secret = "{"ab" * 32}"
            [s3_api]
            s3_region = "garage"
            api_bind_addr = "127.0.0.1:{api}"
            root_domain = ".s3.garage.localhost"
            """
        )

        def command(*arguments: str) -> str:
            call = [os.environ["GARAGE"], "-c", str(config), *arguments]
            result = subprocess.run(call, capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"{' '.join(arguments)}: {result.stderr}")
            return result.stdout.strip()

        with emulator(os.environ["GARAGE"], "-c", str(config), "server", url=url):
            command("layout", "assign", "-z", "here", "-c", "10G", command("node", "id", "-q").partition("@")[0])
            command("layout", "apply", "--version", "1")
            command("key", "import", "--yes", name, secret)
            command("key", "allow", "--create-bucket", name)
            keys = through_s3(url, "garage", (name, secret), folder, files, is_conditional=False)
            wrong = {**keys, "AWS_SECRET_ACCESS_KEY": "c9" * 32}
            refused = subprocess.run(
                [sys.executable, "-c", EPOCH, "s3://box/set", tempfile.mkdtemp(dir=place)],
                env={**os.environ, **wrong},
                capture_output=True,
                text=True,
            )
            if refused.returncode == 0 or "AccessError" not in refused.stderr:
                sys.exit(f"a wrong secret is accepted, or has a different error: {refused.stderr}")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "set"
        files = write(folder)
        stores = {store.__name__: store for store in (garage, azure, google, amazon)}
        for name in sys.argv[1:] or stores:
            stores[name](folder, files)


main()
