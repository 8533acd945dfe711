"""ImageNet."""

from .base import StreamingVisionDataset

__all__ = ["StreamingImageNet"]


class StreamingImageNet(StreamingVisionDataset):
    """ImageNet as `vision.convert.imagenet` writes it; arguments as for `StreamingVisionDataset`."""
