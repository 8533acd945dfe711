"""JSON lines: an object a line, with the offsets in a meta file."""

from .reader import JSONReader
from .writer import JSONWriter

__all__ = ["JSONReader", "JSONWriter"]
