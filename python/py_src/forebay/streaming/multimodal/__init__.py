"""Texts with videos, in the shards or in separate files."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .webvid import StreamingInsideWebVid, StreamingOutsideDTWebVid, StreamingOutsideGIWebVid

__all__ = ["StreamingInsideWebVid", "StreamingOutsideDTWebVid", "StreamingOutsideGIWebVid"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "webvid": ("StreamingInsideWebVid", "StreamingOutsideDTWebVid", "StreamingOutsideGIWebVid"),
    },
)
