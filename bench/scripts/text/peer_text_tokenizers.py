"""tokenizers 0.x."""

import texttokenizers
from textpeer import check
from texttokenizers import batches, build, digest, versions

if texttokenizers.IS_NEW:
    raise ImportError("tokenizers is 1.0 or newer here")

__all__ = ["batches", "build", "check", "digest", "versions"]
