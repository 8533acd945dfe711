"""COCO's detection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset as StreamingDataset

__all__ = ["StreamingCOCO"]


class StreamingCOCO(ReadyMadeDataset):
    """COCO as written by `vision.convert.coco`: a picture, its id, its height and width, the boxes and their labels.

    Boxes are float32 of shape (boxes, 4): left, top, right, bottom, as parts of width and height. Labels are int64 of
    shape (boxes,), from 1.

    Args:
        transform: Function from and to picture, (height, width), boxes and labels.
        **kwargs: As for `ReadyMadeDataset`.
    """

    def __init__(self, *, transform: Callable[..., tuple[Any, Any, Any, Any]] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.transform = transform

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> Any:
        """Returns picture, id, (height, width), boxes, labels."""
        sample = super().get_item(idx, *args, **kwargs)
        image = sample["img"].convert("RGB")
        size = (sample["htot"], sample["wtot"])
        boxes, labels = sample["bbox_sizes"], sample["bbox_labels"]
        if self.transform:
            image, size, boxes, labels = self.transform(image, size, boxes, labels)
        return image, sample["img_id"], tuple(size), boxes, labels
