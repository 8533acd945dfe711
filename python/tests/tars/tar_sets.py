"""Tars for the tests, their samples as WebDataset reads them, and loaders of them."""

import functools
import http.server
import io
import json
import os
import re
import tarfile
import threading
from pathlib import Path

import forebay as fb

MADE = Path(__file__).parents[3] / "tests/data/tars"
"""Folder of compressed tars of many tools, with the script that makes them."""

BLOCK = 512

SHARD_SAMPLES = (13, 8, 21, 1, 17, 20)
"""Samples of each tar of the set `write_set`: 80, which divides by 2, 4 and 8 ranks."""

END = bytes(2 * BLOCK)
"""End of a tar."""


def number_samples(first, count):
    """Samples whose class is their number, in files whose sizes differ."""
    return [(f"part/{i:04}", {"txt": f"text {i}".encode() * (i % 7), "cls": b"%d\n" % i}) for i in range(first, first + count)]


def header(name, size=0, kind=tarfile.REGTYPE, file_format=tarfile.USTAR_FORMAT, **more):
    """Header of a member, with the blocks that precede it in that format."""
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    for attribute, value in more.items():
        setattr(info, attribute, value)
    return info.tobuf(file_format)


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def member(name, data=b"", **more):
    """Header and content of a member."""
    return header(name, len(data), **more) + padded(data)


def with_sum(block, sign="unsigned"):
    """The header `block` with the checksum of its bytes, which a few old programs add as signed numbers."""
    counted = block[:148] + b" " * 8 + block[156:]
    total = sum(byte - 256 * (sign == "signed" and byte > 127) for byte in counted)
    return block[:148] + b"%06o\0 " % total + block[156:]


def changed(block, place, value):
    """The header `block` with other bytes at `place`, and the right checksum."""
    return with_sum(block[:place] + value + block[place + len(value) :])


def records(**values):
    """Records of a pax header; two underscores in a name are a dot."""
    out = b""
    for name, value in values.items():
        body = b" %s=%s\n" % (name.replace("__", ".").encode(), value.encode() if isinstance(value, str) else value)
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        out += b"%d%s" % (length, body)
    return out


def extension(kind, data):
    """Member that describes the next one: a long name or pax records."""
    return member("././@LongLink", data, kind=kind)


def tar(samples, **more):
    """The bytes of a tar with `samples`, without its end."""
    return b"".join(member(f"{key}.{field}", data, **more) for key, fields in samples for field, data in fields.items())


def write_set(folder, counts=SHARD_SAMPLES, first=0):
    """Writes tars with `counts` samples; returns their URL with braces."""
    os.makedirs(folder, exist_ok=True)
    for number, body in enumerate(set_of_tars(counts, first)):
        with open(f"{folder}/train-{number:03}.tar", "wb") as file:
            file.write(body)
    return f"{folder}/{braces(counts)}"


def set_of_tars(counts=SHARD_SAMPLES, first=0):
    for count in counts:
        yield tar(number_samples(first, count)) + END
        first += count


def braces(counts=SHARD_SAMPLES):
    return f"train-{{000..{len(counts) - 1:03}}}.tar"


def write_mds_set(folder, counts=SHARD_SAMPLES, first=0):
    """Writes the samples of `write_set` as MDS, each shard with those of a tar."""
    shards = []
    for number, count in enumerate(counts):
        part = f"{folder}/part-{number}"
        with fb.MDSWriter(out=part, columns={"__key__": "str", "cls": "int", "txt": "str"}) as writer:
            for key, fields in number_samples(first, count):
                writer.write({"__key__": key, "cls": int(fields["cls"]), "txt": fields["txt"].decode()})
        with open(f"{part}/index.json") as file:
            (shard,) = json.load(file)["shards"]
        shard["raw_data"]["basename"] = f"shard.{number:05}.mds"
        os.rename(f"{part}/shard.00000.mds", f"{folder}/shard.{number:05}.mds")
        shards.append(shard)
        first += count
    with open(f"{folder}/index.json", "w") as file:
        json.dump({"version": 2, "shards": shards}, file)
    return str(folder)


FIELDS = {"k": fb.Text("__key__"), "y": fb.Scalar("cls"), "t": fb.Text("txt")}
"""Fields of a loader of either set."""


def rows(batch):
    """The samples of a batch: key, class, text."""
    return list(zip(batch["k"], batch["y"].tolist(), batch["t"], strict=True))


def webdataset_samples(path):
    """Key and fields of the samples of a tar as WebDataset reads them, hidden files left out."""
    import webdataset  # It imports torch, which the processes that read tars do not need.

    visible = lambda name: not os.path.basename(name).startswith(".")
    samples = webdataset.WebDataset([str(path)], shardshuffle=False, select_files=visible, empty_check=False)
    return [(s["__key__"], {k: v for k, v in s.items() if not k.startswith("__")}) for s in samples]


def loader_samples(remote, names, batch_size=2, **more):
    """Key and the fields `names` of the samples of a loader, in order."""
    fields = {"key": fb.Text("__key__"), **{f"field {i}": fb.Bytes(name) for i, name in enumerate(names)}}
    found = []
    with fb.Loader(remote=remote, batch_size=batch_size, fields=fields, framework="numpy", **more) as loader:
        for batch in loader:
            for row in zip(*(batch[name] for name in fields), strict=True):
                found.append((row[0], dict(zip(names, map(bytes, row[1:]), strict=True))))
    return found


def common_fields(samples):
    """Fields that all `samples` have."""
    return sorted(set.intersection(*(set(fields) for _, fields in samples)))


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


def read_tarfile(data):
    """Name and content of the regular files that Python's tarfile finds."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(info.name, archive.extractfile(info).read()) for info in archive if info.isreg()]
