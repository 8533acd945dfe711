"""Texts, tokenised at read time or before."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .c4 import StreamingC4
    from .enwiki import StreamingEnWiki
    from .pile import StreamingPile

__all__ = ["StreamingC4", "StreamingEnWiki", "StreamingPile"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "c4": ("StreamingC4",),
        "enwiki": ("StreamingEnWiki",),
        "pile": ("StreamingPile",),
    },
)
