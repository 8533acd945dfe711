"""Data sets written by the reference (mosaicml-streaming 0.13.0), with each of their values.

Shared by format_golden.py, which records a few for the repository, and format_live.py, which makes many at random.
A set is a folder written by one of the reference's writers, *with `expected.json` next to it: for each sample and column
the value in a form that both languages print alike (see `describe`).
"""

import json
import os
import pickle
import random
from decimal import Decimal
from io import BytesIO

import numpy as np
from PIL import Image
from streaming import CSVWriter, JSONWriter, MDSWriter, TSVWriter, XSVWriter

HASHES = sorted(
    "blake2b blake2s md5 sha1 sha224 sha256 sha384 sha512 sha3_224 sha3_256 sha3_384 sha3_512 "
    "xxh32 xxh64 xxh128 xxh3_64 xxh3_128".split()
)
DTYPES = "uint8 int8 uint16 int16 float16 uint32 int32 float32 uint64 int64 float64".split()
COMPRESSIONS = ["br", "br:0", "br:5", "bz2", "bz2:1", "gz", "gz:0", "gz:1", "snappy", "zstd", "zstd:1", "zstd:9", "zstd:22"]
TEXT = "abz ~\x00\x1f\x7f\"'\\/\n\r\t\b\f é ß 漢字 😀 \u2028 ,|:;"


def text(rng, longest=20, without=""):
    letters = [c for c in TEXT if c not in without]
    return "".join(rng.choice(letters) for _ in range(rng.randrange(longest)))


def number(rng):
    return rng.choice([0, 1, -1, 2**31, -(2**63), 2**63 - 1, rng.randrange(-(10**6), 10**6)])


def real(rng):
    edge = [0.0, -0.0, 1.0, 0.1 + 0.2, 1e16, 1e15, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf")]
    return rng.choice([*edge, rng.random(), rng.uniform(-1e20, 1e20), rng.random() * 10.0 ** rng.randrange(-300, 300)])


def array(rng, dtype=None, shape=None):
    dtype = dtype or rng.choice(DTYPES)
    if shape is None:
        # Occasionally a dimension that needs two bytes.
        shape = [300] if rng.random() < 0.05 else [rng.randrange(1, 5) for _ in range(rng.randrange(1, 5))]
    count = int(np.prod(shape))
    if dtype.startswith("float"):
        return np.array([rng.uniform(-100, 100) for _ in range(count)], dtype).reshape(shape)
    info = np.iinfo(dtype)
    return np.array([rng.randint(int(info.min), int(info.max)) for _ in range(count)], dtype).reshape(shape)


def image(rng, modes=("RGB", "L", "RGBA", "1", "I", "F", "CMYK", "I;16")):
    mode, width, height = rng.choice(modes), rng.randrange(1, 9), rng.randrange(1, 9)
    picture = Image.new(mode, (width, height))
    rows = picture.tobytes()
    return Image.frombytes(mode, (width, height), rng.randbytes(len(rows)))


def saved(picture, form):
    out = BytesIO()
    picture.save(out, format=form)
    return out.getvalue()


def tree(rng, depth=3):
    kind = rng.randrange(7 if depth else 5)
    if kind == 5:
        return [tree(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 6:
        return {text(rng, 6): tree(rng, depth - 1) for _ in range(rng.randrange(4))}
    return [None, rng.random() < 0.5, number(rng) * 10**20, rng.choice([real(rng), float("nan")]), text(rng)][kind]


def mds_value(rng, encoding):
    """A value that the encoding takes, and its description."""
    photo = ("RGB", "L")
    if encoding == "bytes":
        value = rng.randbytes(rng.randrange(30))
        return value, {"bytes": value.hex()}
    if encoding == "str":
        value = text(rng)
        return value, {"str": value}
    if encoding in ("int", "str_int"):
        value = number(rng) * (10**20 if encoding == "str_int" and rng.random() < 0.2 else 1)
        return value, {"int": str(value)}
    if encoding in DTYPES:
        value = array(rng, encoding, [1])[0]
        return value, {"scalar": [encoding, value.tobytes().hex()]}
    if encoding == "str_float":
        value = real(rng)
        return value, {"float": repr(value)}
    if encoding == "str_decimal":
        value = Decimal(rng.choice(["0", "-1.50", "1E+30", "NaN", "Infinity", "3.14159265358979323846264338327950288"]))
        return value, {"decimal": str(value)}
    if encoding.startswith("ndarray"):
        parts = encoding.split(":")[1:]
        shape = [int(d) for d in parts[1].split(",")] if len(parts) > 1 else None
        value = array(rng, parts[0] if parts else None, shape)
        return value, {"array": [value.dtype.name, list(value.shape), value.tobytes().hex()]}
    if encoding == "pil":
        value = image(rng)
        return value, pixels(value)
    if encoding in ("jpeg", "png"):
        value = image(rng, photo)
        return value, {encoding: saved(value, encoding.upper()).hex()}
    if encoding in ("jpeg_array", "jpegarray"):
        value = [saved(image(rng, photo), "JPEG") for _ in range(rng.randrange(1, 4))]
        return value, {"list": [{"jpeg": blob.hex()} for blob in value]}
    if encoding == "list[pil]":
        value = [image(rng) for _ in range(rng.randrange(4))]
        return value, {"list": [pixels(one) for one in value]}
    if encoding in ("list[jpeg]", "list[png]"):
        form = encoding[5:-1]
        value = [image(rng, photo) for _ in range(rng.randrange(4))]
        return value, {"list": [{form: saved(one, form.upper()).hex()} for one in value]}
    if encoding == "json":
        value = tree(rng)
        return value, {"json": json.dumps(value)}
    if encoding == "pkl":
        value = [text(rng), number(rng)]
        return value, {"pickle": pickle.dumps(value).hex()}
    raise ValueError(encoding)


def pixels(picture):
    return {"pixels": [*picture.size, picture.mode, picture.tobytes().hex()]}


MDS_ENCODINGS = [
    "bytes", "str", "int", *DTYPES, "str_int", "str_float", "str_decimal", "ndarray", "ndarray:int16", "ndarray:float32:2,3",
    "ndarray:uint8:7", "pil", "jpeg", "png", "jpeg_array", "jpegarray", "list[pil]", "list[jpeg]", "list[png]", "json", "pkl",
]


def text_value(rng, kind, without=""):
    if kind == "str":
        value = text(rng, without=without)
        return value, {"str": value}
    if kind == "int":
        value = number(rng) * (10**20 if rng.random() < 0.1 else 1)
        return value, {"int": str(value)}
    value = real(rng)
    return value, {"float": repr(value)}


def write_set(folder, rng, kind, columns, samples, **options):
    """Writes a set of `kind` (mds, json, csv, tsv, xsv) and its expected.json; `options` go to the writer."""
    expected = []
    data = os.path.join(folder, "data")
    without = ""
    if kind == "mds":
        writer = MDSWriter(out=data, columns=columns, **options)
    elif kind == "json":
        writer = JSONWriter(out=data, columns=columns, **options)
    else:
        separator = options.get("separator", {"csv": ",", "tsv": "\t"}.get(kind))
        without = separator + options.get("newline", "\n")
        writer = {"csv": CSVWriter, "tsv": TSVWriter, "xsv": XSVWriter}[kind](out=data, columns=columns, **options)
    with writer:
        for _ in range(samples):
            sample, described = {}, {}
            for name, encoding in columns.items():
                make = mds_value(rng, encoding) if kind == "mds" else text_value(rng, encoding, without)
                sample[name], described[name] = make
            writer.write(sample)
            expected.append(described)
    with open(os.path.join(folder, "expected.json"), "w") as out:
        json.dump(expected, out, indent=0)


def random_set(folder, seed):
    """A set of random kind, columns, limit, hashes and compression."""
    rng = random.Random(seed)
    kind = rng.choice(["mds", "mds", "mds", "json", "csv", "tsv", "xsv"])
    names = list(dict.fromkeys(rng.choice(["", "é", "Z", "a", "_"]) + str(rng.randrange(50)) for _ in range(rng.randrange(1, 7))))
    encodings = MDS_ENCODINGS if kind == "mds" else ["str", "int", "float"]
    options = {
        "size_limit": rng.choice([None, 1 << 26, 700, 1500, 4000, "2kb"]),
        "hashes": sorted(rng.sample(HASHES, rng.randrange(4))) or None,
        "compression": rng.choice([None, None, rng.choice(COMPRESSIONS)]),
    }
    if kind != "mds":
        options["newline"] = rng.choice(["\n", "\r\n"])
    if kind == "xsv":
        options["separator"] = rng.choice(["|", ";", "\x01", "ß"])
    write_set(folder, rng, kind, {name: rng.choice(encodings) for name in names}, rng.randrange(0, 30), **options)
