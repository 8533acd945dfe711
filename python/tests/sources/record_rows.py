"""Samples of record files, and TensorFlow's values of those in `tests/data`."""

import json
import pathlib

from tf_examples import field, samples

import forebay as fb

SAMPLES = [(item["number"][0], item["text"][0].decode(), tuple(item["values"])) for item in samples()]

FIELDS = {"number": fb.Scalar("number"), "text": fb.Text("text"), "values": fb.Array("values")}


def rows(batch):
    """The samples of a batch of `FIELDS`, in the form of `SAMPLES`."""
    values = (tuple(row.tolist()) for row in batch["values"])
    return list(zip(batch["number"].tolist(), batch["text"], values, strict=True))


VALUES = pathlib.Path(__file__).parents[3] / "tests" / "data" / "tfrecord" / "values.json"


def expected(row):
    return {name: [bytes.fromhex(v) if isinstance(v, str) else v for v in values] for name, values in row.items()}


def check_values(remote, files, **options):
    """Compares the samples of `remote` with what TensorFlow has read of `files`."""
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
