"""CIFAR-10."""

from .base import StreamingVisionDataset

__all__ = ["StreamingCIFAR10"]


class StreamingCIFAR10(StreamingVisionDataset):
    """CIFAR-10 as `vision.convert.cifar10` writes it; arguments as for `StreamingVisionDataset`."""
