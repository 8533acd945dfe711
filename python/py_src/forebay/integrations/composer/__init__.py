"""Checkpoints of Composer on every store.

    saves = CheckpointSaver("s3://bucket/run", save_interval="1000ba")
    trainer = composer.Trainer(..., callbacks=[saves], run_name="run", autoresume=True)

Composer's `save_folder` takes the schemes of a fixed list, in processes that make Composer's own stores, and has no way to
register a new one. It does take a callback of the class `CheckpointSaver` instead of `save_folder`, and an `ObjectStore`
for `load_path`. These are the two classes here; nothing in Composer is replaced:

* `saving.CheckpointSaver` saves by `forebay.checkpoint`: whole or absent, with digests and the loader's state;
* `object_store.ObjectStore` has these checkpoints as single files, which Composer downloads and loads, and the rest of the files as
  they are.
"""

from .object_store import ObjectStore
from .saving import CheckpointSaver

__all__ = ["CheckpointSaver", "ObjectStore"]
