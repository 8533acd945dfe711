"""Storage of `torch.distributed.checkpoint`, which divides tensors among any number of ranks.

    dcp.save(state, storage_writer=StorageWriter("s3://bucket/run/step-1000", step=1000, data=loader))
    reader = StorageReader("s3://bucket/run/step-1000")
    dcp.load(state, storage_reader=reader)
    loader.load_state_dict(reader.checkpoint.data)

The files are as from torch's `FileSystemWriter`, so its tools read them, and `commit.json` makes them one of this package's
checkpoints. `writing` and `reading` have one class each.
"""

from .reading import StorageReader
from .writing import StorageWriter

__all__ = ["StorageReader", "StorageWriter"]
