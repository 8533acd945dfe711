"""forebay itself, through its Python package, under the same protocol."""

import forebay as fb
import torch


def versions():
    return {"forebay": fb.__version__, "torch": torch.__version__}


COLUMNS = {"tar": ("jpg", "cls"), "files": ("file", "label")}
"""Columns of the picture and its class, where they have other names than in MDS."""


def build(config):
    source = config["source"]
    image, label = COLUMNS.get(source, ("image", "class"))
    if config["kind"] == "images":
        crop = fb.Image(image, fb.RandomResizedCrop(config["crop"]), fb.RandomHorizontalFlip(), dtype="uint8")
        fields = {"x": crop, "y": fb.Scalar(label, dtype="int64")}
    elif config["kind"] == "bytes":
        fields = {"x": fb.Bytes(image), "y": fb.Scalar(label, dtype="int64")}
    else:
        fields = {"x": fb.Array("tokens")}
    return fb.Loader(
        local=config[source] + ("/*.tar" if source == "tar" else ""),
        batch_size=config["batch"],
        shuffle=True,
        fields=fields,
        threads=config["workers"],
    )


def batches(loader):
    for batch in loader:
        yield batch["x"], batch.get("y")
