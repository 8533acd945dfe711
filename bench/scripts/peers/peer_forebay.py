"""forebay itself, through its Python package, under the same protocol."""

import forebay as fb
import recipes
import torch

RECIPES = recipes.NAMES


def versions():
    return {"forebay": fb.__version__, "torch": torch.__version__}


COLUMNS = {"tar": ("jpg", "cls"), "files": ("file", "label")}
"""Columns of the picture and its class, where their names differ from MDS."""


def build(config):
    source = config["source"]
    image, label = COLUMNS.get(source, ("image", "class"))
    if config["kind"] == "images":
        fields = recipes.forebay_fields(config, image, label)
    elif config["kind"] == "bytes":
        fields = {"x": fb.Bytes(image), "y": fb.Scalar(label, dtype="int64")}
    else:
        fields = {"x": fb.Array("tokens")}
    folder = config[source]
    # Parquet is unpacked into a cache, everything else is read in place.
    places = {"remote": folder, "local": f"{folder}-cache"} if source == "parquet" else {"local": folder}
    if source == "tar":
        places["local"] += "/*.tar"
    return fb.Loader(
        **places,
        batch_size=config["batch"],
        shuffle=True,
        fields=fields,
        threads=config["workers"],
    )


def convert(config):
    import parquet_files

    parquet_files.write(config)


def batches(loader):
    for batch in loader:
        yield batch["x"], batch.get("y")
