"""JAX with several CPU devices, and a data set with every kind of output."""

import os

import numpy as np
import pytest
from picture_set import jpeg

import forebay as fb

# Before JAX opens its devices.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

ROWS = 48
COLUMNS = {"image": "jpeg", "class": "int", "name": "str", "raw": "bytes", "any": "ndarray", "vector": "ndarray:float32:3"}


@pytest.fixture(scope="session")
def mixed(tmp_path_factory):
    """Folder of shards with `ROWS` samples."""
    folder = tmp_path_factory.mktemp("mixed") / "train"
    with fb.MDSWriter(out=folder, columns=COLUMNS, size_limit=1 << 15) as writer:
        for i in range(ROWS):
            arrays = {"any": np.full((i % 3 + 1, 2), i, np.int16), "vector": np.arange(3, dtype=np.float32) + i}
            writer.write({"image": jpeg(i), "class": i, "name": f"n{i}", "raw": bytes([i] * (i % 5)), **arrays})
    return folder


@pytest.fixture
def every(mixed):
    """Function that makes a loader with an output of each kind, in the order of the samples."""

    def make(framework, **kwargs):
        picture = fb.Resize((16, 16))
        fields = {
            "x": fb.Image("image", picture, fb.Normalize((0.5,) * 3, (0.5,) * 3)),
            "u8": fb.Image("image", picture),
            "f16": fb.Image("image", picture, dtype="float16"),
            "y": fb.Scalar("class"),
            "i32": fb.Scalar("class", dtype="int32"),
            "vector": fb.Array("vector"),
            "name": fb.Text("name"),
            "raw": fb.Bytes("raw"),
            "any": fb.Array("any"),
        }
        if framework != "numpy":
            fields["bf16"] = fb.Image("image", picture, dtype="bfloat16")
        kwargs = {"batch_size": 8, "extra": ["repeat"], "fields": fields} | kwargs
        return fb.Loader(local=mixed, framework=framework, **kwargs)

    return make
