"""Base class of data sets of pictures and their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchvision.datasets import VisionDataset
from torchvision.transforms.functional import to_tensor

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset as StreamingDataset

__all__ = ["StandardTransform", "StreamingVisionDataset"]


class StandardTransform:
    """Transform of a pair, made of the transforms of its parts.

    Args:
        transform: Transform of the picture. None: to a tensor.
        target_transform: Transform of the class. None: unchanged.
    """

    def __init__(
        self, transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, x: Any, y: Any) -> tuple[Any, Any]:
        x = self.transform(x) if self.transform else to_tensor(x)
        return x, self.target_transform(y) if self.target_transform else y


class StreamingVisionDataset(ReadyMadeDataset, VisionDataset):
    """Pairs of a picture (column `x`) and its class (`y`).

    Args:
        batch_size: Samples of a rank's batch.
        transforms: Transform of picture and class together.
        transform: Transform of the picture. None: to a tensor.
        target_transform: Transform of the class.
        **kwargs: As for `ReadyMadeDataset`.

    Raises:
        ValueError: `transforms` is given together with `transform` or `target_transform`.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        transforms: Callable[[Any, Any], tuple[Any, Any]] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("Only transforms or transform/target_transform can be passed as an argument")
        super().__init__(batch_size=batch_size, **kwargs)
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = transforms or StandardTransform(transform, target_transform)

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> Any:
        """Returns the transformed pair."""
        sample = super().get_item(idx, *args, **kwargs)
        return self.transforms(sample["x"], sample["y"])
