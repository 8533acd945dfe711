"""tokenizers 1.0."""

import texttokenizers
from textpeer import check
from texttokenizers import batches, build, digest, versions

if not texttokenizers.IS_NEW:
    raise ImportError("tokenizers is older than 1.0 here")

__all__ = ["batches", "build", "check", "digest", "versions"]
