"""Pictures: classes, segmentation, detection."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .ade20k import StreamingADE20K
    from .cifar10 import StreamingCIFAR10
    from .coco import StreamingCOCO
    from .imagenet import StreamingImageNet

__all__ = ["StreamingADE20K", "StreamingCIFAR10", "StreamingCOCO", "StreamingImageNet"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "ade20k": ("StreamingADE20K",),
        "base": (),
        "cifar10": ("StreamingCIFAR10",),
        "coco": ("StreamingCOCO",),
        "imagenet": ("StreamingImageNet",),
    },
)
