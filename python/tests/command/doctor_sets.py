"""Data sets of all formats that are clean, and the same ones with planted defects."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
from litdata.streaming import Cache
from megatron_files import random_documents, write as write_tokens
from PIL import Image
from tf_examples import example, record

import forebay as fb

COUNT = 64
CLASSES = 4
PER_SHARD = 16

PARQUET = Path(__file__).parents[3] / "tests/data/doctor"


def picture(seed, size=None):
    """A picture with structure, and a size that follows from its seed."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    size = size or (60 + int(rng.integers(0, 30)), 60 + int(rng.integers(0, 30)))
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def saved(image, kind="JPEG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def mask(seed):
    values = np.zeros((48, 48), np.uint8)
    values[8 : 20 + seed % 20, 10 : 30 + seed % 7] = 1 + seed % 3
    return Image.fromarray(values)


def rows(count=COUNT, first=0):
    """Samples of a clean set: a picture, a class, a sentence, a vector, boxes, a mask."""
    for number in range(first, first + count):
        rng = np.random.default_rng(1000 + number)
        size = (60 + number % 25, 70 + number % 13)
        corners = [5.0, 6.0, size[0] - 3.0, size[1] - 4.0]
        yield {
            "image": saved(picture(number, size)),
            "label": int(rng.permutation(CLASSES)[0]) if number % PER_SHARD else number // PER_SHARD % CLASSES,
            "text": f"Sentence {number} has the words {rng.integers(1 << 30)} and {rng.integers(1 << 30)}.",
            "score": float(rng.random()),
            "vector": rng.random(8, dtype=np.float32),
            "boxes": np.array([corners, [1.0, 2.0, 40.0 + number % 9, 50.0]], np.float32),
            "mask": saved(mask(number), "PNG"),
        }


TYPES = {
    "image": "jpeg", "label": "int", "text": "str", "score": "float64", "vector": "ndarray", "boxes": "ndarray", "mask": "png",
}  # fmt: skip


def mds(folder, samples, names=("image", "label", "text", "score", "vector", "boxes", "mask"), limit=None):
    """Shards of 16 samples."""
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: TYPES[name] for name in names}
    for number, at in enumerate(range(0, len(samples), limit or PER_SHARD)):
        part = folder / f"part{number}"
        with fb.MDSWriter(out=str(part), columns=columns, hashes=["xxh64"]) as writer:
            for sample in samples[at : at + (limit or PER_SHARD)]:
                writer.write({name: sample[name] for name in names})
    merge(folder)
    return folder


def merge(folder):
    """One index of the parts of a folder."""
    shards = []
    for part in sorted(path for path in folder.iterdir() if path.is_dir()):
        index = part / "index.json"
        for shard in json.loads(index.read_text())["shards"]:
            data = shard["raw_data"]
            os.rename(part / data["basename"], folder / f"{part.name}.mds")
            data["basename"] = f"{part.name}.mds"
            shards.append(shard)
        index.unlink()
        part.rmdir()
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))


def files_of(samples, per_file=PER_SHARD):
    return (samples[at : at + per_file] for at in range(0, len(samples), per_file))


def jsonl(folder, samples, names=("text", "label", "score")):
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(files_of(samples)):
        lines = (json.dumps({name: sample[name] for name in names if name in sample}) for sample in part)
        (folder / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "*.jsonl"


def csv(folder, samples, names=("text", "label", "score")):
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(files_of(samples)):
        lines = [",".join(names), *(",".join(str(sample[name]) for name in names) for sample in part)]
        (folder / f"part-{number}.csv").write_text("\n".join(lines) + "\n")
    return folder / "*.csv"


def tars(folder, samples):
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(files_of(samples)):
        with tarfile.open(folder / f"train-{number}.tar", "w") as tar:
            for at, sample in enumerate(part):
                members = {"jpg": sample["image"], "cls": str(sample["label"]).encode(), "txt": sample.get("text", "").encode()}
                for extension, content in members.items():
                    if extension == "txt" and "text" not in sample:
                        continue
                    info = tarfile.TarInfo(f"{number * PER_SHARD + at:04}.{extension}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return folder / "train-{0..3}.tar"


def tfrecords(folder, samples):
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(files_of(samples)):
        features = ({"image": [s["image"]], "label": [s["label"]], "text": [s["text"].encode()], "score": [s["score"]]} for s in part)
        (folder / f"train-{number}.tfrecord").write_bytes(b"".join(record(example(feature)) for feature in features))
    return folder / "*.tfrecord"


def litdata(folder, samples):
    cache = Cache(str(folder), chunk_size=PER_SHARD)
    for number, sample in enumerate(samples):
        image = Image.open(io.BytesIO(sample["image"])) if sample["image"][:2] == b"\xff\xd8" else sample["image"]
        cache._add_item(number, {"image": image, "label": sample["label"], "text": sample["text"], "vector": sample["vector"]})
    cache.done()
    cache.merge()
    return folder


def pictures(folder, samples):
    for number, sample in enumerate(samples):
        path = folder / f"class{sample['label']}" / f"{number:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sample["image"])
    return folder


def arrays(folder, samples):
    for number, sample in enumerate(samples):
        path = folder / f"class{sample['label']}" / f"{number:03}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, sample["vector"])
    return folder


def tokens(folder, documents=None):
    folder.mkdir(parents=True, exist_ok=True)
    write_tokens(folder / "corpus", documents or token_documents())
    return folder / "corpus"


def token_documents():
    return list(random_documents(3, COUNT, 80, shortest=20))


def numbers(folder, count=COUNT):
    """Samples of a few numbers, which repeat by chance."""
    columns = {"x": "int", "y": "float32"}
    with fb.MDSWriter(out=str(folder), columns=columns, size_limit=1 << 9) as writer:
        for number in range(count):
            writer.write({"x": number * 7 % 11, "y": np.float32(number % 5)})
    return folder


CLEAN = {
    "MDS": lambda folder: mds(folder, list(rows())),
    "MDS of numbers": numbers,
    "JSON lines": lambda folder: jsonl(folder, list(rows())),
    "CSV": lambda folder: csv(folder, list(rows())),
    "tars": lambda folder: tars(folder, list(rows())),
    "TFRecord": lambda folder: tfrecords(folder, list(rows())),
    "LitData": lambda folder: litdata(folder, list(rows())),
    "a folder of pictures": lambda folder: pictures(folder, list(rows())),
    "Megatron": tokens,
    "npy": lambda folder: arrays(folder, list(rows())),
    "Parquet": lambda folder: PARQUET / "clean.parquet",
    "Arrow": lambda folder: PARQUET / "clean.arrow",
}
