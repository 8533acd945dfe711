"""Record files and their samples, and TensorFlow's values of those in `tests/data`."""

import gzip
import json
import pathlib

from tf_examples import example, field, record, samples

import forebay as fb

SAMPLES = [(item["number"][0], item["text"][0].decode(), tuple(item["values"])) for item in samples()]

FIELDS = {"number": fb.Scalar("number"), "text": fb.Text("text"), "values": fb.Array("values")}


def rows(batch):
    """The samples of a batch of `FIELDS`, in the form of `SAMPLES`."""
    values = (tuple(row.tolist()) for row in batch["values"])
    return list(zip(batch["number"].tolist(), batch["text"], values, strict=True))


def token_rows(batch):
    """The samples of a batch of tokens, in a module that imports no framework: a process of a test has to import it."""
    return [tuple(row.tolist()) for row in batch["ids"]]


TFRECORDS, ARRAY_RECORDS = (pathlib.Path(__file__).parents[3] / "tests" / "data" / name for name in ("tfrecord", "array_record"))

VALUES = TFRECORDS / "values.json"


def write_set(folder, items=None, per_file=13, end=""):
    """Writes TFRecord files; returns their wildcard."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [record(example(item)) for item in items or samples()]
    parts = [records[at : at + per_file] for at in range(0, len(records), per_file)]
    for number, part in enumerate(parts):
        body = b"".join(part)
        (folder / f"x.tfrecord-{number:05}-of-{len(parts):05}{end}").write_bytes(gzip.compress(body) if end else body)
    return "x.tfrecord-*" + end


def unpack(folder, pattern):
    """Writes the ArrayRecord files of `pattern` to `folder`, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(ARRAY_RECORDS.glob(f"{pattern}.gz")):
        (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    return folder


def expected(row):
    return {name: [bytes.fromhex(v) if isinstance(v, str) else v for v in values] for name, values in row.items()}


def check_values(remote, files, **options):
    """Compares the samples of `remote` with TensorFlow's values of `files`."""
    read = json.loads(VALUES.read_text())
    fields = {name: fb.Scalar(name) for name in ("label", "score")} | {name: fb.Array(name) for name in ("box", "ids")}
    fields |= {"text": fb.Text("text"), "image": fb.Bytes("image"), "names": fb.Bytes("names")}
    theirs = [expected(row) for name in files for row in read[name]]
    with fb.Loader(remote=remote, batch_size=1, fields=fields, framework="numpy", **options) as loader:
        ours = list(loader)
    assert len(ours) == len(theirs)
    for batch, row in zip(ours, theirs, strict=True):
        assert batch["label"].dtype == "int64" and batch["label"].tolist() == row["label"]
        assert batch["score"].dtype == "float32" and batch["score"].tolist() == row["score"]
        assert batch["box"].tolist() == [row["box"]]
        assert batch["ids"][0].tolist() == row["ids"]
        assert [text.encode() for text in batch["text"]] == row["text"]
        assert list(map(bytes, batch["image"])) == row["image"]
        # A list of texts is as the record has it.
        assert bytes(batch["names"][0]) == b"".join(field(1, name) for name in row["names"])
