"""Writer of data sets of pictures and classes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.format import MDSWriter

__all__ = ["convert_image_class_dataset"]


def convert_image_class_dataset(
    dataset: Sequence[tuple[Any, int]],
    out_root: str,
    split: str | None = None,
    compression: str | None = None,
    hashes: list[str] | None = None,
    size_limit: int = 1 << 24,
    progress_bar: bool = True,
    leave: bool = False,
    encoding: str = "pil",
) -> None:
    """Writes pairs of a picture and a class, in the random order of numpy's global generator.

    Args:
        dataset: The pairs, by index.
        out_root: The folder.
        split: Sub-folder of it.
        compression: Compression of shards.
        hashes: Hashes to record.
        size_limit: Largest raw shard, in bytes.
        progress_bar: Show progress.
        leave: Keep the progress bar at the end.
        encoding: Encoding of the pictures.
    """
    order: Any = np.random.permutation(len(dataset)).tolist()
    if progress_bar:
        from tqdm import tqdm

        order = tqdm(order, leave=leave)
    with MDSWriter(
        out=os.path.join(out_root, split or ""),
        columns={"i": "int", "x": encoding, "y": "int"},
        compression=compression,
        hashes=hashes,
        size_limit=size_limit,
        progress_bar=progress_bar,
    ) as writer:
        for i in order:
            picture, label = dataset[i]
            # Labels are often numbers of numpy.
            writer.write({"i": i, "x": picture, "y": int(label)})
