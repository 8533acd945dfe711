"""Tars for the tests, their samples as WebDataset reads them, and loaders of them."""

import io
import json
import os
import tarfile
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
    """Samples with their number as class, in files of different sizes."""
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
    """The header `block` with changed bytes at `place`, and the right checksum."""
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
    """Writes the samples of `write_set` as MDS, each shard with the samples of a tar."""
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


def read_tarfile(data):
    """Name and content of the regular files that Python's tarfile finds."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(info.name, archive.extractfile(info).read()) for info in archive if info.isreg()]
