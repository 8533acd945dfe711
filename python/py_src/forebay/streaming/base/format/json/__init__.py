"""JSON lines: one object per line, with the offsets in a meta file."""

from .reader import JSONReader
from .writer import JSONWriter

__all__ = ["JSONReader", "JSONWriter"]
