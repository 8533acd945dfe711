"""ADE20K."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset as StreamingDataset

__all__ = ["StreamingADE20K"]


class StreamingADE20K(ReadyMadeDataset):
    """ADE20K as written by `vision.convert.ade20k`: pairs of a picture and its segmentation.

    Args:
        joint_transform: First transform, from a pair to a pair.
        transform: Transform of the picture.
        target_transform: Transform of the segmentation.
        **kwargs: As for `ReadyMadeDataset`.
    """

    def __init__(
        self,
        *,
        joint_transform: Callable[[tuple[Any, Any]], tuple[Any, Any]] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.joint_transform = joint_transform
        self.transform = transform
        self.target_transform = target_transform

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Returns the transformed pair."""
        sample = super().get_item(idx, *args, **kwargs)
        x, y = sample["x"], sample["y"]
        if self.joint_transform:
            x, y = self.joint_transform((x, y))
        return self.transform(x) if self.transform else x, self.target_transform(y) if self.target_transform else y
