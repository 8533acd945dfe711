"""forebay itself, through its Python package, under the same protocol."""

import forebay as fb
import torch


def versions():
    return {"forebay": fb.__version__, "torch": torch.__version__}


def build(config):
    if config["kind"] == "images":
        crop = fb.Image("image", fb.RandomResizedCrop(config["crop"]), fb.RandomHorizontalFlip(), dtype="uint8")
        fields = {"x": crop, "y": fb.Scalar("class", dtype="int64")}
    elif config["kind"] == "bytes":
        fields = {"x": fb.Bytes("image"), "y": fb.Scalar("class", dtype="int64")}
    else:
        fields = {"x": fb.Array("tokens")}
    return fb.Loader(
        local=config[config["source"]],
        batch_size=config["batch"],
        shuffle=True,
        fields=fields,
        threads=config["workers"],
    )


def batches(loader):
    for batch in loader:
        yield batch["x"], batch.get("y")
