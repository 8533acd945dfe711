"""Megatron's files of token ids, written and read by the description of the format alone."""

import itertools
import struct

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def idx(lengths, dtype, bounds=None, modes=b""):
    lengths = np.asarray(lengths, "<i4")
    pointers = np.concatenate([[0], np.cumsum(lengths, dtype="<i8")])[: len(lengths)] * np.dtype(dtype).itemsize
    bounds = np.arange(len(lengths) + 1) if bounds is None else np.asarray(bounds)
    front = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, CODES[dtype], len(lengths), len(bounds))
    return front + lengths.tobytes() + pointers.astype("<i8").tobytes() + bounds.astype("<i8").tobytes() + modes


def write(prefix, documents, dtype="uint16", bounds=None, modes=b""):
    """Writes sequences. Each is a document unless there are `bounds`."""
    with open(f"{prefix}.idx", "wb") as file:
        file.write(idx([len(document) for document in documents], dtype, bounds, modes))
    with open(f"{prefix}.bin", "wb") as file:
        for document in documents:
            file.write(np.asarray(document, np.dtype(dtype).newbyteorder("<")).tobytes())


def documents(prefix):
    """The documents of a file, as arrays."""
    with open(f"{prefix}.idx", "rb") as file:
        content = file.read()
    version, code, count, bound_count = struct.unpack("<QBQQ", content[9:34])
    assert content[:9] == b"MMIDIDX\0\0" and version == 1
    dtype = np.dtype(next(name for name, known in CODES.items() if known == code))
    lengths = np.frombuffer(content, "<i4", count, 34)
    pointers = np.frombuffer(content, "<i8", count, 34 + 4 * count)
    bounds = np.frombuffer(content, "<i8", bound_count, 34 + 12 * count)
    ids = np.fromfile(f"{prefix}.bin", dtype)
    sequence = [ids[at // dtype.itemsize :][:length] for at, length in zip(pointers, lengths, strict=True)]
    pairs = itertools.pairwise(bounds)
    return [np.concatenate([np.empty(0, dtype), *sequence[start:end]]) for start, end in pairs]


def windows(prefix, tokens, stride):
    """All whole windows over the documents of a file."""
    ids = np.concatenate(documents(prefix))
    return [ids[start : start + tokens] for start in range(0, len(ids) - tokens + 1, stride)]


def random_documents(seed, count, longest=90, dtype="uint16", shortest=1, tokens=None):
    """Documents of random ids and lengths; with `tokens`, of as many together."""
    draw = np.random.default_rng(seed)
    most = min(np.iinfo(dtype).max, 60_000)
    sizes = draw.integers(shortest, longest, count)
    while tokens is not None and sizes.sum() != tokens:
        place = draw.integers(count)
        sizes[place] = np.clip(sizes[place] + np.sign(tokens - sizes.sum()), shortest, longest)
    return [draw.integers(0, most, size, dtype) for size in sizes]
